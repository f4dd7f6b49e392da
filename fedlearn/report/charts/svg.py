"""Charts as SVG in the page: coloured by its style sheet, so that they follow light, dark and print.

Sizes are in units of a 400 wide drawing, which the page shows at about 400 pixels, on a phone as on a desk.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import numpy as np

from fedlearn.report.charts.axes import Axis, axis_of, log_axis_of
from fedlearn.report.charts.captions import placed
from fedlearn.report.charts.kinds import WHOLE, Chart, Dot, HeatMap, Line, LineChart, ScatterChart, StackedBars
from fedlearn.report.numbers import written

WIDTH, HEIGHT = 400, 232
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 10, 36
INNER_WIDTH, INNER_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
COLORS = 8
LETTER = 5.4  # width of one in a dot's name
SHADES = 12


def svg_of(chart: Chart, *, metric: str = "") -> str:
    """Return a chart as an ``<svg>`` element; ``data-hover`` holds the numbers that the script shows.

    Parameters
    ----------
    metric
        Of lines that the script draws anew from other data: stands in ``data-metric``, in place of numbers.
    """
    if isinstance(chart, LineChart):
        return _lines(chart, metric)
    if isinstance(chart, StackedBars):
        return _bars(chart)
    if isinstance(chart, ScatterChart):
        return _dots(chart)
    return _cells(chart)


def _svg(chart: Chart, inside: Iterable[str], hover: Mapping[str, object], height: float = HEIGHT) -> str:
    data = json.dumps({"frame": [LEFT, TOP, INNER_WIDTH, height - TOP - BOTTOM], **hover}, separators=(",", ":"))
    return _element(chart, inside, f'data-hover="{escape(data)}"', height)


def _element(chart: Chart, inside: Iterable[str], data: str, height: float = HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(chart.title)}" {data}>'
        f"{''.join(inside)}</svg>"
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


def _lines(chart: LineChart, metric: str) -> str:
    by_round = chart.x_title in WHOLE  # from 1
    places = [value for line in chart.lines for value in line.x]
    x = (
        log_axis_of(places)
        if chart.log_x
        else axis_of(places, count=6, tight=True, whole=by_round, from_zero=not by_round)
    )
    y = axis_of(value for line in chart.lines for value in (*line.y, *line.low, *line.high))
    drawn = [_band(line, x, y) for line in chart.lines if line.low] + [_line(line, x, y) for line in chart.lines]
    if metric:
        return _element(chart, [*_frame(x, y, chart.x_title), *drawn], f'data-metric="{escape(metric)}"')
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
    totals = np.sum(list(chart.layers.values()), axis=0) if chart.places else np.zeros(0)
    y = axis_of([*totals, *chart.marks], from_zero=True, whole=chart.y_title == "nodes")
    first, last = (min(chart.places), max(chart.places) + chart.each - 1) if chart.places else (1, 1)
    x = Axis(first - 0.5, last + 0.5, _whole_ticks(first, last))
    slot = INNER_WIDTH * chart.each / max(last - first + 1, 1)
    width = min(slot * (0.8 if slot > 4 else 1.0), 26)
    base = np.zeros(len(chart.places))
    lefts = [_x(x, number + (chart.each - 1) / 2) - width / 2 for number in chart.places]
    drawn = []
    for name, heights in chart.layers.items():
        tops = base + np.array(heights)
        boxes = zip(lefts, base, tops, strict=True)
        path = "".join(_box(left, width, _y(y, low), _y(y, high)) for left, low, high in boxes)
        drawn.append(f'<path class="bar f-{name}" d="{path}"/>')
        base = tops
    marks = zip(lefts, chart.marks, strict=True) if chart.marks else ()
    lines = "".join(f"M{left:.1f} {_y(y, mark):.1f}h{width:.1f}" for left, mark in marks)
    drawn.append(f'<path class="goal" d="{lines}"/>')
    hover = {
        "kind": "bars",
        "x": chart.x_title,
        "domain": [x.low, x.high],
        "places": chart.places,
        "each": chart.each,
        "names": chart.names,
        "layers": [[name, _short(heights)] for name, heights in chart.layers.items()],
        "mark": [chart.mark, _short(chart.marks)],
    }
    return _svg(chart, [*_frame(x, y, chart.x_title), *drawn], hover)


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

WIDEST_NAME, NAME_LETTERS = 92, 13  # of a row, in units and letters
APART = 7.0  # from this width on cells stand apart; narrower ones touch, as gaps among them would shimmer
STRIP = 34  # height of the bars above: how many examples a node has
HIGHEST, ALONE = 17.0, 130.0  # of a cell, and of the bars where there is a single row
NUMBERED = 10  # so many columns leave room for numbers


def _cells(chart: HeatMap) -> str:
    columns = chart.counts.shape[1]
    left = min(max(LEFT, 12 + LETTER * max(len(name[:NAME_LETTERS]) for name in chart.rows)), WIDEST_NAME)
    width, top = (WIDTH - RIGHT - left) / columns, float(TOP)
    parts: list[str] = []
    if not chart.columns:
        top += ALONE if len(chart.rows) == 1 else STRIP
        parts += _strip(chart, left, width, top - 4)
    height = _row_height(chart, width)
    if height:
        parts += _boxes(chart, left, width, top, height)
        parts += _row_names(chart, left, top, height)
    base = top + len(chart.rows) * height
    parts += _column_names(chart, left, width, base)
    base += 46 if _is_slanted(chart, width) else 20
    parts.append(_text(WIDTH - RIGHT, base + 10, chart.x_title, "tick end"))
    parts += _scale(chart, left, base) if height else []
    hover = {
        "kind": "cells",
        "frame": [left, top, WIDTH - RIGHT - left, base - top],
        "cell": [width, height],
        "rows": chart.rows,
        "columns": chart.columns,
        "word": chart.y_title,
        "counts": chart.counts.tolist(),
    }
    return _svg(chart, parts, hover, height=base + 16)


def _row_height(chart: HeatMap, width: float) -> float:
    """Return the height of a row of cells; 0 where the bars say it all."""
    if chart.columns:
        return min(max(INNER_HEIGHT / len(chart.rows), 3.0), 26.0)
    return 0.0 if len(chart.rows) == 1 else min(HIGHEST, max(INNER_HEIGHT / len(chart.rows), 2.0))


def _strip(chart: HeatMap, left: float, width: float, base: float) -> list[str]:
    """Return a bar for each node: how many examples it has."""
    sizes = chart.counts.sum(axis=0)
    most, room = max(int(sizes.max(initial=0)), 1), base - TOP
    edges = np.round(left + width * np.arange(len(sizes) + 1), 1)
    gap = 1.0 if width >= APART else 0.0
    path = "".join(
        f"M{edge:g} {base:g}v{-room * size / most:.1f}H{after - gap:.1f}V{base:g}Z"
        for edge, after, size in zip(edges, edges[1:], sizes.tolist(), strict=False)
        if size
    )
    return [f'<path class="size" d="{path}"/>', _text(left - 6, TOP + 8, written(most), "tick end")]


def _boxes(chart: HeatMap, left: float, width: float, top: float, height: float) -> list[str]:
    """Return a path for each shade; cells that touch and have one shade are one box."""
    shades = np.ceil(chart.shades * SHADES).astype(int)  # 0 only where there is nothing
    apart = width >= APART
    xs = np.round(left + width * np.arange(shades.shape[1] + 1), 1)
    ys = np.round(top + height * np.arange(shades.shape[0] + 1), 1)
    paths: dict[int, list[str]] = {}
    for row, line in enumerate(shades):
        new = np.flatnonzero(np.diff(line)) + 1 if not apart else np.arange(1, len(line))
        for begin, end in itertools.pairwise([0, *new.tolist(), len(line)]):
            box = f"M{xs[begin]:g} {ys[row]:g}H{xs[end]:g}V{ys[row + 1]:g}H{xs[begin]:g}Z"
            paths.setdefault(int(line[begin]), []).append(box)
    drawn = [_shade(shade, "".join(boxes), apart=apart) for shade, boxes in sorted(paths.items())]
    if chart.columns and len(chart.columns) <= NUMBERED:
        drawn += [
            _text(
                (xs[c] + xs[c + 1]) / 2, (ys[r] + ys[r + 1]) / 2 + 3.6, str(count), f"count mid s{shades[r, c] > 7:d}"
            )
            for (r, c), count in np.ndenumerate(chart.counts)
            if count
        ]
    return drawn


def _shade(shade: int, path: str, *, apart: bool = False) -> str:
    kind = ("cell" if shade else "cell none") + (" apart" if apart else "")
    return f'<path class="{kind}" fill-opacity="{shade / SHADES:.2f}" d="{path}"/>'


def _row_names(chart: HeatMap, left: float, top: float, height: float) -> list[str]:
    every = max(1, -(-11 // int(max(height, 1))))
    return [
        _text(left - 6, top + (row + 0.5) * height + 3.5, _cut(name), "tick end")
        for row, name in enumerate(chart.rows)
        if row % every == 0
    ]


def _is_slanted(chart: HeatMap, width: float) -> bool:
    return any(len(name) * LETTER > width for name in chart.columns)


def _column_names(chart: HeatMap, left: float, width: float, base: float) -> list[str]:
    if not chart.columns:
        ticks = _whole_ticks(0, chart.counts.shape[1] - 1)
        return [_text(left + (tick + 0.5) * width, base + 13, written(tick), "tick mid") for tick in ticks]
    every = max(1, -(-11 // int(max(width, 1))))
    slanted = _is_slanted(chart, width)
    drawn = []
    for place, name in enumerate(chart.columns):
        x = left + (place + 0.5) * width
        if place % every == 0 and slanted:
            turn = f' transform="rotate(-45 {x:.1f} {base + 12:.1f})"'
            drawn.append(f'<text x="{x:.1f}" y="{base + 12:.1f}"{turn} class="tick end">{escape(name[:9])}</text>')
        elif place % every == 0:
            drawn.append(_text(x, base + 13, name, "tick mid"))
    return drawn


def _scale(chart: HeatMap, left: float, base: float) -> list[str]:
    """Return what the shades mean, from none to most."""
    boxes = [_shade(shade, f"M{left + 9 + 8 * shade:g} {base + 2:g}h8v8h-8Z") for shade in range(SHADES + 1)]
    most = "all of the row" if chart.columns else f"{written(int(chart.counts.max(initial=0)))} examples"
    texts = [_text(left + 4, base + 10, "0", "tick end"), _text(left + 14 + 8 * (SHADES + 1), base + 10, most, "tick")]
    return [*boxes, *texts]


def _cut(name: str) -> str:
    return name if len(name) <= NAME_LETTERS else f"{name[: NAME_LETTERS - 1]}…"
