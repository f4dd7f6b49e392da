"""Charts as SVG in the page: coloured by its style sheet, so that they follow light, dark and print.

Sizes are in units of a 400 wide drawing, which the page shows at about 400 pixels, on a phone as on a desk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import numpy as np

from fedlearn.report.axes import Axis, axis_of, log_axis_of
from fedlearn.report.captions import placed
from fedlearn.report.charts import Chart, Dot, HeatMap, Line, LineChart, ScatterChart, StackedBars
from fedlearn.report.numbers import written

WIDTH, HEIGHT = 400, 232
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 10, 36
INNER_WIDTH, INNER_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
COLORS = 8
LETTER = 5.4  # width of one in a dot's name
SHADES = 12


def svg_of(chart: Chart) -> str:
    """Return a chart as an ``<svg>`` element; ``data-hover`` holds the numbers that the script shows."""
    if isinstance(chart, LineChart):
        return _lines(chart)
    if isinstance(chart, StackedBars):
        return _bars(chart)
    if isinstance(chart, ScatterChart):
        return _dots(chart)
    return _cells(chart)


def _svg(chart: Chart, inside: Iterable[str], hover: Mapping[str, object], height: float = HEIGHT) -> str:
    data = json.dumps({"frame": [LEFT, TOP, INNER_WIDTH, height - TOP - BOTTOM], **hover}, separators=(",", ":"))
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(chart.title)}" '
        f'data-hover="{escape(data)}">{"".join(inside)}</svg>'
    )


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:.5g}" y="{y:.5g}" class="{kind}">{escape(text)}</text>'


def _x(axis: Axis, value: float) -> float:
    return LEFT + axis.place(value) * INNER_WIDTH


def _y(axis: Axis, value: float) -> float:
    return TOP + (1 - axis.place(value)) * INNER_HEIGHT


def _frame(x: Axis, y: Axis, x_title: str) -> list[str]:
    """Return grid lines, ticks and the title of the horizontal axis; the chart's title names the vertical one."""
    rules = "".join(f"M{LEFT} {_y(y, tick):.1f}h{INNER_WIDTH}" for tick in y.ticks)
    base = TOP + INNER_HEIGHT
    return [
        f'<path class="grid" d="{rules}"/>',
        *(_text(LEFT - 7, _y(y, tick) + 3.8, written(tick), "tick end") for tick in y.ticks),
        *(_text(_x(x, tick), base + 15, written(tick), "tick mid") for tick in x.ticks),
        _text(LEFT + INNER_WIDTH, base + 30, x_title, "tick end"),
    ]


# --- lines ------------------------------------------------------------------------------------------------------------


def _lines(chart: LineChart) -> str:
    by_round = chart.x_title == "round"
    places = [value for line in chart.lines for value in line.x]
    x = (
        log_axis_of(places)
        if chart.log_x
        else axis_of(places, count=6, tight=True, whole=by_round, from_zero=not by_round)
    )
    y = axis_of(value for line in chart.lines for value in (*line.y, *line.low, *line.high))
    drawn = [_band(line, x, y) for line in chart.lines if line.low] + [_line(line, x, y) for line in chart.lines]
    hover = {
        "kind": "line",
        "x": chart.x_title,
        "domain": [x.low, x.high],
        "log": chart.log_x,
        "lines": [[line.label, line.slot, _short(line.x), _short(line.y)] for line in chart.lines],
    }
    return _svg(chart, [*_frame(x, y, chart.x_title), *drawn], hover)


def _short(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.5g}") for value in values]


def _line(line: Line, x: Axis, y: Axis) -> str:
    if len(line.x) == 1:
        return (
            f'<circle class="dot {_colour(line.slot)}" cx="{_x(x, line.x[0]):.1f}" cy="{_y(y, line.y[0]):.1f}" r="4"/>'
        )
    return f'<path class="line {_colour(line.slot)}" d="M{_path(line.x, line.y, x, y)}"/>'


def _band(line: Line, x: Axis, y: Axis) -> str:
    there, back = _path(line.x, line.high, x, y), _path(line.x[::-1], line.low[::-1], x, y)
    return f'<path class="band {_colour(line.slot)}" d="M{there}L{back}Z"/>'


def _path(xs: Sequence[float], ys: Sequence[float], x: Axis, y: Axis) -> str:
    return "L".join(f"{_x(x, a):.1f} {_y(y, b):.1f}" for a, b in zip(xs, ys, strict=True))


def _colour(slot: int) -> str:
    """Return the classes of a line: colours first, then the same ones dashed, then dotted."""
    return f"c{slot % COLORS} d{slot // COLORS % 3}"


# --- bars -------------------------------------------------------------------------------------------------------------


def _bars(chart: StackedBars) -> str:
    totals = np.sum(list(chart.layers.values()), axis=0) if chart.rounds else np.zeros(0)
    y = axis_of([*totals, *chart.goal], from_zero=True, whole=bool(chart.goal))
    first, last = (min(chart.rounds), max(chart.rounds)) if chart.rounds else (1, 1)
    x = Axis(first - 0.5, last + 0.5, _whole_ticks(first, last))
    slot = INNER_WIDTH / max(last - first + 1, 1)
    width = min(slot * 0.8, 26)
    base = np.zeros(len(chart.rounds))
    drawn = []
    for name, heights in chart.layers.items():
        tops = base + np.array(heights)
        boxes = zip(chart.rounds, base, tops, strict=True)
        path = "".join(_box(_x(x, number) - width / 2, width, _y(y, low), _y(y, high)) for number, low, high in boxes)
        drawn.append(f'<path class="bar f-{name}" d="{path}"/>')
        base = tops
    goals = zip(chart.rounds, chart.goal, strict=True) if chart.goal else ()
    marks = "".join(f"M{_x(x, number) - width / 2:.1f} {_y(y, goal):.1f}h{width:.1f}" for number, goal in goals)
    drawn.append(f'<path class="goal" d="{marks}"/>')
    layers = [[name, _short(heights)] for name, heights in chart.layers.items()]
    hover = {"kind": "bars", "domain": [x.low, x.high], "rounds": chart.rounds, "layers": layers}
    return _svg(chart, [*_frame(x, y, "round"), *drawn], hover)


def _whole_ticks(first: int, last: int) -> tuple[float, ...]:
    ticks = axis_of([first, last], count=6, whole=True).ticks if last > first else (float(first),)
    return tuple(tick for tick in ticks if first <= tick <= last)


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
        kind = f"dot {_colour(dot.slot)}" + ("" if dot.on_front else " beaten")
        drawn.append(f'<circle class="{kind}" cx="{_x(x, dot.x):.1f}" cy="{_y(y, dot.y):.1f}" r="4.5"/>')
    places = [[dot.label, dot.slot, *_short([dot.x, dot.y, _x(x, dot.x), _y(y, dot.y)])] for dot in chart.dots]
    hover = {"kind": "dots", "x": chart.x_title, "y": chart.y_title, "dots": places}
    return _svg(chart, [*_frame(x, y, chart.x_title), *drawn, *_labels(chart.dots, x, y)], hover)


def _labels(dots: Sequence[Dot], x: Axis, y: Axis) -> list[str]:
    """Return the names of the dots on the front, as far as there is room; the script shows the others."""
    front = [(dot.label, _x(x, dot.x), _y(y, dot.y)) for dot in dots if dot.on_front]
    labels = placed(front, left=LEFT, right=WIDTH, letter=LETTER)
    return [_text(label.x, label.y, label.text, "name end" if label.is_right else "name") for label in labels]


# --- cells ------------------------------------------------------------------------------------------------------------


def _cells(chart: HeatMap) -> str:
    rows, columns = chart.counts.shape
    width, height = INNER_WIDTH / columns, min(16.0, max(INNER_HEIGHT / rows, 2.0))
    gap = min(1.0, width * 0.12)
    shape = f"h{width - gap:.2f}v{height - gap:.2f}h-{width - gap:.2f}Z"
    most = max(int(chart.counts.max()), 1)
    paths: dict[int, list[str]] = {}
    for row, column in np.ndindex(rows, columns):
        shade = -(-int(chart.counts[row, column]) * SHADES // most)  # 0 only where there is nothing
        paths.setdefault(shade, []).append(f"M{LEFT + column * width:.1f} {TOP + row * height:.1f}{shape}")
    drawn = [
        f'<path class="{"cell" if shade else "cell none"}" fill-opacity="{shade / SHADES:.2f}" d="{"".join(boxes)}"/>'
        for shade, boxes in sorted(paths.items())
    ]
    base = TOP + rows * height
    every = -(-rows // 16)
    names = [
        _text(LEFT - 6, TOP + (row + 0.5) * height + 3.5, name[:8], "tick end")
        for row, name in enumerate(chart.rows)
        if row % every == 0
    ]
    ticks = _whole_ticks(0, columns - 1)
    marks = [_text(LEFT + (tick + 0.5) * width, base + 13, written(tick), "tick mid") for tick in ticks]
    title = _text(LEFT + INNER_WIDTH, base + 28, chart.x_title, "tick end")
    counts = chart.counts.tolist()
    hover = {"kind": "cells", "rows": chart.rows, "word": chart.y_title, "counts": counts, "cell": [width, height]}
    return _svg(chart, [*drawn, *names, *marks, title], hover, height=base + BOTTOM)
