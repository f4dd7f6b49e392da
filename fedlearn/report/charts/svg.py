"""Charts as SVG in the page, colored by its style sheet, so that they follow light, dark and print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from fedlearn.report.charts.axes import Axis, axis_of, log_axis_of
from fedlearn.report.charts.captions import placed
from fedlearn.report.charts.heat_map import cells
from fedlearn.report.charts.kinds import WHOLE, Chart, Dot, Line, LineChart, ScatterChart, StackedBars
from fedlearn.report.charts.sheet import (
    BOTTOM,
    HEIGHT,
    INNER_WIDTH,
    LEFT,
    LETTER,
    WIDTH,
    element,
    element_with_hover,
    frame,
    short,
    text_at,
    whole_ticks,
    x_of,
    y_of,
)
from fedlearn.report.words import word

COLORS = 8


def svg_of(chart: Chart, *, data: Mapping[str, str] | None = None) -> str:
    """Return a chart as an ``<svg>`` element; ``data-hover`` holds the numbers that the script shows.

    Parameters
    ----------
    data
        Data attributes of a line chart that the script draws anew, in place of ``data-hover``: name -> value.
    """
    if isinstance(chart, LineChart):
        return _lines(chart, data)
    if isinstance(chart, StackedBars):
        return _bars(chart)
    if isinstance(chart, ScatterChart):
        return _dots(chart)
    return cells(chart)


# --- lines ------------------------------------------------------------------------------------------------------------


def _lines(chart: LineChart, data: Mapping[str, str] | None) -> str:
    by_round = chart.x_title in WHOLE  # from 1
    places = [value for line in chart.lines for value in line.x]
    x = (
        log_axis_of(places)
        if chart.log_x
        else axis_of(places, count=6, tight=True, whole=by_round, from_zero=not by_round)
    )
    heights = [value for line in chart.lines for value in (*line.y, *line.low, *line.high)]
    heights += chart.ceilings
    y = axis_of(heights, whole=all(float(value).is_integer() for value in heights))
    drawn = [f'<path class="ceiling" d="M{LEFT} {y_of(y, each):.1f}h{INNER_WIDTH}"/>' for each in chart.ceilings]
    drawn += [_band(line, x, y) for line in chart.lines if line.low] + [_line(line, x, y) for line in chart.lines]
    inside = [*frame(x, y, chart.x_title, chart.y_title), *drawn]
    if data:
        return element(chart, inside, " ".join(f'data-{name}="{escape(value)}"' for name, value in data.items()))
    hover = {
        "kind": "line",
        "x": chart.x_title,
        "domain": [x.low, x.high],
        "log": chart.log_x,
        "lines": [[line.label, line.slot, short(line.x), short(line.y)] for line in chart.lines],
    }
    return element_with_hover(chart, inside, hover)


def _line(line: Line, x: Axis, y: Axis) -> str:
    if len(line.x) == 1:
        place = f'cx="{x_of(x, line.x[0]):.1f}" cy="{y_of(y, line.y[0]):.1f}"'
        return f'<circle class="dot {_color(line.slot)}" {place} r="4"/>'
    return f'<path class="line {_color(line.slot)}" d="M{_path(line.x, line.y, x, y)}"/>'


def _band(line: Line, x: Axis, y: Axis) -> str:
    there, back = _path(line.x, line.high, x, y), _path(line.x[::-1], line.low[::-1], x, y)
    return f'<path class="band {_color(line.slot)}" d="M{there}L{back}Z"/>'


def _path(xs: Sequence[float], ys: Sequence[float], x: Axis, y: Axis) -> str:
    return "L".join(f"{x_of(x, a):.1f} {y_of(y, b):.1f}" for a, b in zip(xs, ys, strict=True))


def _color(slot: int) -> str:
    """Return the style classes of a line: solid in each color first, then dashed, then dotted."""
    return f"c{slot % COLORS} d{slot // COLORS % 3}"


# --- bars -------------------------------------------------------------------------------------------------------------


def _bars(chart: StackedBars) -> str:
    totals = np.sum(list(chart.layers.values()), axis=0) if chart.places else np.zeros(0)
    y = axis_of([*totals, *chart.marks], from_zero=True, whole=chart.y_title == "clients")
    first, last = (min(chart.places), max(chart.places) + chart.each - 1) if chart.places else (1, 1)
    x = Axis(first - 0.5, last + 0.5, whole_ticks(first, last))
    slot = INNER_WIDTH * chart.each / max(last - first + 1, 1)
    width = min(slot * (0.8 if slot > 4 else 1.0), 26)
    base = np.zeros(len(chart.places))
    lefts = [x_of(x, number + (chart.each - 1) / 2) - width / 2 for number in chart.places]
    drawn = []
    for name, heights in chart.layers.items():
        tops = base + np.array(heights)
        boxes = zip(lefts, base, tops, strict=True)
        path = "".join(_box(left, width, y_of(y, low), y_of(y, high)) for left, low, high in boxes)
        drawn.append(f'<path class="bar f-{name}" d="{path}"/>')
        base = tops
    marks = zip(lefts, chart.marks, strict=True) if chart.marks else ()
    lines = "".join(f"M{left:.1f} {y_of(y, mark):.1f}h{width:.1f}" for left, mark in marks)
    drawn.append(f'<path class="goal" d="{lines}"/>')
    hover = {
        "kind": "bars",
        "x": chart.x_title,
        "domain": [x.low, x.high],
        "places": chart.places,
        "each": chart.each,
        "names": chart.names,
        "layers": [[name, word(name), short(heights)] for name, heights in chart.layers.items()],
        "mark": [chart.mark, short(chart.marks)],
    }
    return element_with_hover(chart, [*frame(x, y, chart.x_title, chart.y_title), *drawn], hover)


def _box(left: float, width: float, bottom: float, top: float) -> str:
    return f"M{left:.1f} {bottom:.1f}V{top:.1f}h{width:.1f}V{bottom:.1f}Z" if bottom > top else ""


# --- dots -------------------------------------------------------------------------------------------------------------


def _dots(chart: ScatterChart) -> str:
    xs, ys = [dot.x for dot in chart.dots], [dot.y for dot in chart.dots]
    x, y = log_axis_of(xs) if chart.log_x else axis_of(xs, count=6), axis_of(ys)
    front = sorted((dot.x, dot.y) for dot in chart.dots if dot.on_front)
    joined = _path([a for a, _ in front], [b for _, b in front], x, y)
    drawn = [f'<path class="front" d="M{joined}"/>']
    for dot in chart.dots:
        kind = f"dot {_color(dot.slot)}" + ("" if dot.on_front else " beaten")
        drawn.append(f'<circle class="{kind}" cx="{x_of(x, dot.x):.1f}" cy="{y_of(y, dot.y):.1f}" r="4.5"/>')
    places = [[dot.label, dot.slot, *short([dot.x, dot.y, x_of(x, dot.x), y_of(y, dot.y)])] for dot in chart.dots]
    hover = {"kind": "dots", "x": chart.x_title, "y": chart.y_title, "dots": places}
    return element_with_hover(
        chart, [*frame(x, y, chart.x_title, chart.y_title), *drawn, *_labels(chart.dots, x, y)], hover
    )


def _labels(dots: Sequence[Dot], x: Axis, y: Axis) -> list[str]:
    """Return the texts for dots on the front, as far as there is room; the script shows the other names."""
    front = [(dot.label, x_of(x, dot.x), y_of(y, dot.y)) for dot in dots if dot.on_front]
    labels = placed(front, left=LEFT, right=WIDTH, bottom=HEIGHT - BOTTOM, letter=LETTER)
    return [text_at(label.x, label.y, label.text, "name end" if label.is_right else "name") for label in labels]
