"""The section of nodes: five figures, the spread by round, the nodes of the last round."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fedlearn.core.spread import Spread
from fedlearn.report.charts.kinds import LineChart
from fedlearn.report.charts.nodes import over_nodes
from fedlearn.report.numbers import number
from fedlearn.report.page.figures import figure
from fedlearn.report.page.learning import grid_of, metric_of, spread_names
from fedlearn.report.points import Point
from fedlearn.report.rows import node_rows
from fedlearn.report.stored import StoredRun

SHORT = ("mean by examples", "mean, each node alike", "worst tenth", "deviation", "Jain index")
HOW = (
    "Each node measures on examples of its own. Worst tenth: the mean over the worst tenth of the nodes. Jain index: 1 "
    "where all nodes are alike, 1 / n where one has all."
)


def nodes(runs: Sequence[StoredRun], points: Sequence[Point], by_round: Sequence[LineChart]) -> str:
    """Return the section: the nodes of a single run, or the headline metric's spread over nodes of several runs."""
    inside = _of_one(runs[0]) if len(runs) == 1 else _of_several(runs, points, by_round)
    return f"<h2>Nodes</h2>{inside}" if inside else ""


def _of_one(run: StoredRun) -> str:
    rows, problem = node_rows(run.folder)
    said = f'<p class="problem">{escape(problem)}</p>' if problem else ""
    drawn = "".join(figure(chart) for chart in over_nodes(rows, run.metrics)) if rows else ""
    return f'{_figures(run)}{said}<div class="grid-3">{drawn}</div>' if drawn or said else ""


def _figures(run: StoredRun) -> str:
    headline = run.metrics.of_model
    if headline is None or not (names := spread_names([run])):
        return ""
    values = [run.latest(metric.name) for metric in Spread(headline).metrics if metric.name in names]
    cells = "".join(
        f"<div><dt>{escape(title)}</dt><dd>{number(value)}</dd></div>"
        for title, value in zip(SHORT, values, strict=False)
    )
    return f'<div class="tiles small">{cells}</div><p class="note">{escape(headline.title)} on nodes. {HOW}</p>'


def _of_several(runs: Sequence[StoredRun], points: Sequence[Point], by_round: Sequence[LineChart]) -> str:
    names = spread_names(runs)
    return grid_of(points, [chart for chart in by_round if metric_of(chart) in names], note=HOW)
