"""Show a run in a notebook: its results as a table, its curve, and drawings of the terminal, as HTML without script."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from fedlearn.commands.shared import result_rows
from fedlearn.core.errors import UsageError
from fedlearn.core.spread import ON_NODES
from fedlearn.report.charts.curves import curves
from fedlearn.report.charts.kinds import Chart
from fedlearn.report.charts.svg import svg_of
from fedlearn.report.numbers import text_of
from fedlearn.report.points import points_of
from fedlearn.report.stored import StoredRun, read_run

BY_ROUND = "_by_round"  # the end of a chart's key
WIDTH = 110  # characters of a drawing in a cell
LEFT = 'style="text-align:left"'
CODE = "<pre style=\"font-family:Menlo,'DejaVu Sans Mono',consolas,monospace;line-height:1.25;margin:0\">{code}</pre>"
CURVE = """<style>
.fedlearn-curve{max-width:420px;font:13px system-ui,sans-serif}.fedlearn-curve .grid{stroke:#8884;fill:none}
.fedlearn-curve .tick,.fedlearn-curve .axis{fill:#888;font-size:11px}.fedlearn-curve .end{text-anchor:end}
.fedlearn-curve .mid{text-anchor:middle}
.fedlearn-curve .line{fill:none;stroke:#2a78d6;stroke-width:2}
</style>"""


def html_of(drawing: RenderableType) -> str:
    """Return a drawing as HTML, in the colors that a terminal would show."""
    console = Console(file=io.StringIO(), record=True, width=WIDTH, force_jupyter=False, highlight=False)
    console.print(drawing)
    return console.export_html(inline_styles=True, code_format=CODE)


def run_as_html(folder: Path) -> str:
    """Return the results of a run as HTML: the table at its end, and the curve of its headline metric."""
    run = read_run(folder.name, folder)
    if not run.summary:
        return f"<code>{escape(str(folder))}</code>: {escape(run.status)}, {len(run.rounds)} rounds stored"
    return _table(result_rows(dict(run.summary), folder)) + _curve(run)


def _table(rows: Iterable[tuple[str, str]]) -> str:
    """Return rows of markup as a table of HTML, which takes the looks of the notebook."""
    cells = ((escape(Text.from_markup(each).plain).replace("\n", "<br>") for each in row) for row in rows)
    return (
        f"<table>{''.join(f'<tr><th {LEFT}>{name}</th><td {LEFT}>{value}</td></tr>' for name, value in cells)}</table>"
    )


def in_one_line(folder: Path) -> str:
    """Return state, rounds and score of a run, such as "completed, 5 of 5 rounds, accuracy 0.9718"."""
    run = read_run(folder.name, folder)
    headline = run.metrics.headline
    value = run.latest(headline.name) if headline else None
    score = f", {headline.title} {text_of(headline, value)}" if headline and value is not None else ""
    return f"{run.status}, {len(run.rounds)} of {run.settings.get('rounds.total', '?')} rounds{score}"


def chart_of(folder: Path, metric: str) -> Chart:
    """Return the curve of a metric by round; of the headline metric for an empty name.

    Raises
    ------
    UsageError
        If the run has no such curve; with the names of those that it has.
    """
    run = read_run(folder.name, folder)
    drawn = _by_round(run)
    found = drawn.get(metric) if metric else _headline(run, drawn)
    if found is None:
        which = f"metric {metric!r}" if metric else "the metric that it is judged by"
        raise UsageError(f"{folder.name}: no curve of {which}; it has {', '.join(drawn) or 'none'}")
    return found


def _by_round(run: StoredRun) -> dict[str, Chart]:
    charts = curves(points_of([run]), by=["rounds"])
    return {chart.key.removesuffix(BY_ROUND): chart for chart in charts if chart.key.endswith(BY_ROUND)}


def _headline(run: StoredRun, drawn: Mapping[str, Chart]) -> Chart | None:
    headline = run.metrics.headline
    names = (headline.name, f"{headline.name}{ON_NODES}") if headline is not None else ()  # as nodes alone measure it
    return next((drawn[name] for name in names if name in drawn), None)


def _curve(run: StoredRun) -> str:
    chart = _headline(run, _by_round(run))
    if chart is None:
        return ""
    return (
        f'{CURVE}<figure class="fedlearn-curve"><figcaption>{escape(chart.title)}</figcaption>{svg_of(chart)}</figure>'
    )
