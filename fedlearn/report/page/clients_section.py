"""The section of clients: five figures, the spread by round, each client's own curve, the clients of the last round."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from fedlearn.core.spread import Spread
from fedlearn.report.charts.client_charts import OwnCurve, over_nodes, own_curves
from fedlearn.report.charts.kinds import LineChart, StackedBars
from fedlearn.report.charts.sheet import short
from fedlearn.report.number_rows import node_rows
from fedlearn.report.numbers import number
from fedlearn.report.page.curves_section import grid_of, metric_of, spread_names
from fedlearn.report.page.figures import figure
from fedlearn.report.points import Point
from fedlearn.report.stored import StoredRun
from fedlearn.report.words import heading

SHORT = ("mean by examples", "mean, each client alike", "worst tenth", "deviation", "Jain index")
HOW = (
    "Each client measures on its own examples. Worst tenth: the mean over the worst tenth of the clients. Jain index: "
    "1 if all clients are alike, 1 / n if one client has everything."
)


def nodes(runs: Sequence[StoredRun], points: Sequence[Point], by_round: Sequence[LineChart]) -> str:
    """Return the section: the clients of a single run, or the headline metric's spread over clients of several runs."""
    inside = _of_one(runs[0]) if len(runs) == 1 else _of_several(runs, points, by_round)
    return f"{heading('nodes')}{inside}" if inside else ""


def _of_one(run: StoredRun) -> str:
    rows, problem = node_rows(run.folder)
    said = f'<p class="problem">{escape(problem)}</p>' if problem else ""
    charts = over_nodes(rows, run.metrics) if rows else []
    own = {chart.key: curves for chart in charts if (curves := own_curves(rows, chart.key))}
    drawn = "".join(figure(chart, data=_own(chart, own.get(chart.key))) for chart in charts)
    chosen = _choice({client for curves in own.values() for client in curves}) if own else ""
    return f'{_figures(run)}{said}{chosen}<div class="grid-3">{drawn}</div>' if drawn or said else ""


def _own(chart: LineChart | StackedBars, curves: Mapping[int, OwnCurve] | None) -> dict[str, str] | None:
    """Return the data from which the script draws a client's curve beside the lines of a chart."""
    if not curves or not isinstance(chart, LineChart):
        return None
    lines = [[line.label, line.slot, *map(short, (line.x, line.y, line.low, line.high))] for line in chart.lines]
    data = {"y": chart.y_title, "lines": lines, "clients": {client: [*map(short, curves[client])] for client in curves}}
    return {"own": json.dumps(data, separators=(",", ":"))}


def _choice(clients: Iterable[int]) -> str:
    options = "".join(f'<option value="{client}">client {client}</option>' for client in sorted(clients))
    select = f'<select name="client"><option value="">no single client</option>{options}</select>'
    return f'<div class="tools"><label>curve of {select}</label></div>'


def _figures(run: StoredRun) -> str:
    headline = run.metrics.of_model
    if headline is None or not (names := spread_names([run])):
        return ""
    values = [run.latest(metric.name) for metric in Spread(headline).metrics if metric.name in names]
    cells = "".join(
        f"<div><dt>{escape(title)}</dt><dd>{number(value)}</dd></div>"
        for title, value in zip(SHORT, values, strict=False)
    )
    return f'<div class="tiles small">{cells}</div><p class="note">{escape(headline.title)} on clients. {HOW}</p>'


def _of_several(runs: Sequence[StoredRun], points: Sequence[Point], by_round: Sequence[LineChart]) -> str:
    names = spread_names(runs)
    return grid_of(points, [chart for chart in by_round if metric_of(chart) in names], note=HOW)
