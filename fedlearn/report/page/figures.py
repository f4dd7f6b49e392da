"""A chart on the page with its title, its legend and a line below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from fedlearn.report.charts.kinds import Chart, LineChart, StackedBars
from fedlearn.report.charts.svg import COLORS, svg_of
from fedlearn.report.words import word


def figure(chart: Chart, note: str = "", *, data: Mapping[str, str] | None = None, named: bool = True) -> str:
    """Return a chart as a ``<figure>``.

    Parameters
    ----------
    note
        A line below the chart.
    data
        Data attributes of a line chart that the script draws anew: name -> value.
    named
        Whether the chart has a legend of its lines.
    """
    caption = f"<figcaption>{escape(note)}</figcaption>" if note else ""
    head = f"<h3>{escape(chart.title)}</h3>{_legend_of(chart, named=named)}"
    return f"<figure>{head}{svg_of(chart, data=data)}{caption}</figure>"


def _legend_of(chart: Chart, *, named: bool) -> str:
    if isinstance(chart, StackedBars):
        marked = [(chart.mark, "mark")] if chart.marks and chart.names else []
        return legend([(word(name), f"f-{name} box") for name in chart.layers] + marked)
    if isinstance(chart, LineChart) and named:
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
