"""Charts of the measurements of single nodes (nodes.csv): their spread by round, and the ranking of the last round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.gains import Compared, Gains
from fedlearn.core.metric import AFTER, BEFORE, Metric
from fedlearn.core.metrics import Metrics
from fedlearn.report.charts.curves import thinned
from fedlearn.report.charts.kinds import Line, LineChart, StackedBars
from fedlearn.report.number_rows import Row
from fedlearn.runs.nodes_csv import PARTITION, ROUND

MOST_BARS = 340  # nodes that are drawn; of more nodes, this many are chosen evenly

MOST_OWN, MOST_VALUES = 100, 1000  # clients with a curve of their own on the page, and values of all these curves
OVER_NODES = "_over_nodes"  # the end of a spread's key

Columns = dict[str, NDArray[np.float64]]
OwnCurve = tuple[tuple[float, ...], tuple[float, ...]]


def over_nodes(rows: Sequence[Row], metrics: Metrics) -> list[LineChart | StackedBars]:
    """Return the charts of a metric's spread over nodes by round, and of the nodes of the last round, the worst first.

    With ``evaluation.nodes`` the metric is the headline metric on each node's own examples, before and after the node's
    training; else it is a metric of the reports, as the training loss.
    """
    headline = metrics.of_model
    reported = [metric for metric in metrics.reported if _has(rows, metric.name)]
    found: list[tuple[str, Metric, str]] = []
    if headline is not None:
        titles = {headline.name: "of the global model", f"{headline.name}_{AFTER}": "after local training"}
        found = [(name, headline, title) for name, title in titles.items() if _has(rows, name)]
    if not found:
        found = [(metric.name, metric, "") for metric in reported[:1]]
    spreads = [_by_round(rows, name, metric, title) for name, metric, title in found]
    charts: list[LineChart | StackedBars] = [chart for chart in spreads if len(chart.lines[0].x) > 1]
    return [*charts, _ranked(rows, *found[-1])] if found else charts


def own_curves(rows: Sequence[Row], key: str) -> dict[int, OwnCurve]:
    """Return client -> (rounds, values) of the chart of a spread, for clients that have measured in several rounds.

    A chart of another key has none. Of many values every n-th one and the last are kept, of many clients an even
    choice.
    """
    name = key.removesuffix(OVER_NODES)
    if name == key:
        return {}
    table = _columns(rows, name)
    order = np.argsort(table["partition"], kind="stable")  # each client's rows stay sorted by round
    clients, begins = np.unique(table["partition"][order], return_index=True)
    places = [(int(c), at) for c, at in zip(clients, np.split(order, begins[1:]), strict=True) if len(at) > 1]
    places = places[:: -(-len(places) // MOST_OWN) or 1]
    step = max(1, -(-sum(len(at) for _, at in places) // MOST_VALUES))
    kept = ((client, [*at[:-1:step], at[-1]]) for client, at in places)
    return {c: (tuple(table["round"][at].tolist()), tuple(table["value"][at].tolist())) for c, at in kept}


def gained(nodes: Mapping[int, Compared], metric: Metric) -> StackedBars | LineChart:
    """Return the chart of what nodes have, with a mark at what each has alone: who loses most stands first."""
    gains = Gains(metric)
    ordered = sorted(nodes.items(), key=lambda each: (gains.gain(each[1]), each[0]))
    kept = ordered[:: -(-len(ordered) // MOST_BARS)]
    places, key, title = tuple(range(1, len(kept) + 1)), f"{metric.name}_gains", f"{metric.title}, by gain"
    heights, marks = tuple(each.got for _, each in kept), tuple(each.alone for _, each in kept)
    if min((*heights, *marks)) < 0:  # bars cannot show negative values
        lines = (Line(metric.title, 0, places, heights), Line("local training only", 1, places, marks))
        return LineChart(key, title, "rank", metric.axis_title, lines)
    return StackedBars(
        key, title, metric.axis_title, places, {"value": heights}, marks, "local training only",
        x_title="clients, the largest loss first", names=tuple(f"client {node}" for node, _ in kept),
    )  # fmt: skip


def _has(rows: Sequence[Row], name: str) -> bool:
    return any(_is_whole(row, name) for row in rows)


def _is_whole(row: Row, name: str) -> bool:
    return all(row.get(column) is not None for column in (ROUND, PARTITION, name))


def _columns(rows: Sequence[Row], name: str) -> Columns:
    """Return columns (round, partition, value, value before training) of the rows with a value, sorted by round."""
    kept = [row for row in rows if _is_whole(row, name)]
    before = f"{name.removesuffix(f'_{AFTER}')}_{BEFORE}" if name.endswith(f"_{AFTER}") else ""
    names = {"round": ROUND, "partition": PARTITION, "value": name, "before": before}
    table = {key: np.array([_number(row.get(column)) for row in kept]) for key, column in names.items()}
    order = np.argsort(table["round"], kind="stable")
    return {key: values[order] for key, values in table.items()}


def _number(cell: float | None) -> float:
    return np.nan if cell is None else cell


def _by_round(rows: Sequence[Row], name: str, metric: Metric, what: str) -> LineChart:
    table = _columns(rows, name)
    rounds, begins = np.unique(table["round"], return_index=True)
    parts = [np.sort(part) for part in np.split(table["value"], begins[1:])]
    quarter, median, three = (tuple(float(np.quantile(part, q)) for part in parts) for q in (0.25, 0.5, 0.75))
    worst = tuple(float(_worst_first(part, metric)[: -(-len(part) // 10)].mean()) for part in parts)
    places = tuple(rounds.tolist())
    lines = (Line("median, quartiles", 0, places, median, quarter, three), Line("worst tenth", 1, places, worst))
    step = max(1, len(places) // 500)
    title = " ".join(["clients:", metric.title, what]).strip()
    return LineChart(f"{name}{OVER_NODES}", title, "round", metric.axis_title, tuple(thinned(e, step) for e in lines))


def _worst_first(values: NDArray[np.float64], metric: Metric) -> NDArray[np.float64]:
    return values[::-1] if metric.better == "down" else values


def _ranked(rows: Sequence[Row], name: str, metric: Metric, what: str) -> StackedBars | LineChart:
    table = _columns(rows, name)
    last = table["round"] == table["round"][-1]
    order = np.argsort(table["value"][last], kind="stable")
    order = order[::-1] if metric.better == "down" else order
    if len(order) > MOST_BARS:
        order = order[np.linspace(0, len(order) - 1, MOST_BARS).astype(int)]
    values, nodes, before = (table[key][last][order] for key in ("value", "partition", "before"))
    places, heights = tuple(range(1, len(order) + 1)), tuple(values.tolist())
    key, title = f"{name}_by_node", " ".join(["clients of the last round:", metric.title, what]).strip()
    if values.min() < 0:  # bars cannot show negative values
        return LineChart(key, title, "rank", metric.axis_title, (Line(metric.title, 0, places, heights),))
    marks = tuple(before.tolist()) if np.isfinite(before).all() else ()
    layer = AFTER if what.startswith(AFTER) else "value"
    return StackedBars(
        key, title, metric.axis_title, places, {layer: heights}, marks, "before local training" if marks else "",
        x_title="clients, the worst first", names=tuple(f"client {node:.0f}" for node in nodes),
    )  # fmt: skip
