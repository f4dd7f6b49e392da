"""A chart on the page with its title, its legend and a line below it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fedlearn.report.charts.kinds import Chart, LineChart, StackedBars
from fedlearn.report.charts.svg import COLORS, svg_of


def figure(chart: Chart, note: str = "", *, metric: str = "") -> str:
    """Return a chart as a ``<figure>``.

    Parameters
    ----------
    note
        A line below the chart.
    metric
        The metric that the script draws in place of this chart, from the section's data.
    """
    caption = f"<figcaption>{escape(note)}</figcaption>" if note else ""
    head = f"<h3>{escape(chart.title)}</h3>{_legend_of(chart, metric)}"
    return f"<figure>{head}{svg_of(chart, metric=metric)}{caption}</figure>"


def _legend_of(chart: Chart, metric: str) -> str:
    if isinstance(chart, StackedBars):
        marked = [(chart.mark, "mark")] if chart.marks and chart.names else []
        return legend([(name, f"f-{name} box") for name in chart.layers] + marked)
    if isinstance(chart, LineChart) and not metric:  # the lines of curves are named once, above all of them
        return legend([(line.label, line_class(line.slot)) for line in chart.lines])
    return ""


def legend(names: Sequence[tuple[str, str]]) -> str:
    """Return the legend of (name, style class) pairs; empty for a single name."""
    if len(names) < 2:
        return ""
    items = "".join(f'<li><i class="{kind}"></i>{escape(name)}</li>' for name, kind in names)
    return f'<ul class="legend">{items}</ul>'


def line_class(slot: int) -> str:
    """Return the style classes of a line: solid in each color first, then dashed, then dotted."""
    return f"c{slot % COLORS} d{slot // COLORS % 3}"
