"""Draw a run for a notebook: the drawings of the terminal, as HTML without script."""

from __future__ import annotations

import io
from html import escape
from pathlib import Path

from rich.console import Console, RenderableType

from fedlearn.commands.shared import result_table
from fedlearn.report.charts.learning import curves
from fedlearn.report.charts.svg import svg_of
from fedlearn.report.points import points_of
from fedlearn.report.stored import StoredRun, read_run
from fedlearn.words.spread import ON_NODES

WIDTH = 110  # characters of a drawing in a cell
CODE = "<pre style=\"font-family:Menlo,'DejaVu Sans Mono',consolas,monospace;line-height:1.25;margin:0\">{code}</pre>"
CURVE = """<style>
.fedlearn-curve{max-width:420px;font:13px system-ui,sans-serif}.fedlearn-curve .grid{stroke:#8884;fill:none}
.fedlearn-curve .tick{fill:#888;font-size:11px}.fedlearn-curve .end{text-anchor:end}
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
    return html_of(result_table(dict(run.summary), folder)) + _curve(run)


def _curve(run: StoredRun) -> str:
    headline = run.metrics.headline
    names = (headline.name, f"{headline.name}{ON_NODES}") if headline is not None else ()  # as nodes alone measure it
    drawn = {chart.key: chart for chart in curves(points_of([run]), by=["rounds"])}
    chart = next((drawn[key] for name in names if (key := f"{name}_by_round") in drawn), None)
    if chart is None:
        return ""
    return (
        f'{CURVE}<figure class="fedlearn-curve"><figcaption>{escape(chart.title)}</figcaption>{svg_of(chart)}</figure>'
    )
