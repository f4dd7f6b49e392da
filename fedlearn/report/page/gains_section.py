"""The section of who gains: each client beside local training only, and models beside one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from fedlearn.core.gains import Compared, Gains, beside
from fedlearn.core.metric import ALONE, BESIDE, GLOBAL, TUNED, Metric
from fedlearn.core.spread import Spread
from fedlearn.report.charts.client_charts import gained
from fedlearn.report.gains_rows import compared
from fedlearn.report.numbers import MeanSd, count, count_spread, number
from fedlearn.report.page.figures import figure
from fedlearn.report.points import Point
from fedlearn.report.stored import StoredRun
from fedlearn.report.tables import Column, Table
from fedlearn.report.words import heading

HOW = (
    "A client gains if the model that it uses is better, on its own test examples, than a model that took the same "
    "steps on its examples only. A score on few examples is uncertain: each of {support} examples moves it by {step}."
)
MODELS = {"": "used by the client", GLOBAL: "global model", TUNED: "fine-tuned", ALONE: "local training only"}
HEADS = ("mean by examples", "mean, each client alike", "worst tenth", "deviation", "Jain index")
COLUMNS = (
    *(Column(title, title, number) for title in ("mean gain", "worst tenth", "share that lose")),
    *(Column(title, title, count, spread_form=count_spread) for title in ("clients", "fewest test examples")),
)
"""The columns of `Gains.of`, in its order."""


def gains(runs: Sequence[StoredRun], points: Sequence[Point]) -> str:
    """Return the section; empty where no client has measured two models."""
    inside = _of_one(runs[0]) if len(runs) == 1 else _of_several(runs, points)
    return f"{heading('gains')}{inside}" if inside else ""


def _of_one(run: StoredRun) -> str:
    metric = run.metrics.of_model
    if metric is None:
        return ""
    nodes = compared(run, metric)
    models = _models(run, metric)
    return f"{_tiles(metric, list(nodes.values()))}{models}{figure(gained(nodes, metric)) if nodes else ''}"


def _tiles(metric: Metric, nodes: Sequence[Compared]) -> str:
    if not nodes:
        return ""
    values = Gains(metric).of(nodes).values()
    cells = "".join(f"<div><dt>{c.title}</dt><dd>{c.text(v)}</dd></div>" for c, v in zip(COLUMNS, values, strict=True))
    return f'<div class="tiles small">{cells}</div><p class="note">{escape(_how(metric, nodes))}</p>'


def _how(metric: Metric, nodes: Sequence[Compared]) -> str:
    support = max(1, min(node.examples for node in nodes))
    said = HOW.format(support=support, step=number(1 / support))
    return said if (metric.low, metric.high) == (0, 1) else said.partition(" A score")[0]


def _models(run: StoredRun, metric: Metric) -> str:
    """Return a table of the scores on clients, a row for each of their models."""
    rows = []
    for kind in ("", *BESIDE):
        columns = Spread(beside(metric, kind) if kind else metric).metrics
        values = [run.latest(column.name) for column in columns]
        if any(value is not None for value in values):
            rows.append([MODELS[kind], *map(number, values)])
    title = f"{metric.title} on clients, by model"
    return f"<h3>{escape(title)}</h3>{Table.of_texts('models', title, ['model', *HEADS], rows, words=1).as_html()}" * (
        len(rows) > 1
    )


def _of_several(runs: Sequence[StoredRun], points: Sequence[Point]) -> str:
    rows = tuple(_rows(runs, points))
    columns = (Column("run", "run", numeric=False), *COLUMNS)
    about = "Gains over local training only, on each client's own test examples; over seeds mean ± deviation."
    return f'<p class="note">{about}</p>{Table("gains", "who gains", columns, rows).as_html()}' if rows else ""


def _rows(runs: Sequence[StoredRun], points: Sequence[Point]) -> Iterator[tuple[object, ...]]:
    for point in points:
        found = []
        for run in point.runs:
            metric = run.metrics.of_model
            nodes = list(compared(run, metric, runs).values()) if metric is not None else []
            found += [Gains(metric).of(nodes)] if metric is not None and nodes else []
        if found:
            columns = zip(*(each.values() for each in found), strict=True)
            yield (point.label, *(MeanSd.of([float(value or 0) for value in column]) for column in columns))
