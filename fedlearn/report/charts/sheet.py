"""Lay out the sheet that every chart is drawn on: its size, its texts, its axes.

Sizes are in units of a 400 wide drawing, which the page shows at about 400 pixels, on a phone as on a desk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from fedlearn.report.charts.axes import Axis, axis_of
from fedlearn.report.charts.kinds import Chart
from fedlearn.report.numbers import written

WIDTH, HEIGHT = 400, 246
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 24, 36
INNER_WIDTH, INNER_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
LETTER = 5.4  # width of one in a dot's name


def element_with_hover(chart: Chart, inside: Iterable[str], hover: Mapping[str, object], height: float = HEIGHT) -> str:
    """Return a chart as an ``<svg>`` element that holds the numbers which the script shows on hover, as JSON."""
    data = json.dumps({"frame": [LEFT, TOP, INNER_WIDTH, height - TOP - BOTTOM], **hover}, separators=(",", ":"))
    return element(chart, inside, f'data-hover="{escape(data)}"', height)


def element(chart: Chart, inside: Iterable[str], data: str, height: float = HEIGHT) -> str:
    """Return a chart as an ``<svg>`` element with a data attribute; `inside` is what is drawn on it."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(chart.title)}" {data}>'
        f"{''.join(inside)}</svg>"
    )


def text_at(x: float, y: float, text: str, kind: str) -> str:
    """Return a text with its base line at a place; `kind` is its class in the style sheet."""
    return f'<text x="{x:.5g}" y="{y:.5g}" class="{kind}">{escape(text)}</text>'


def x_of(axis: Axis, value: float) -> float:
    """Return where a value of the horizontal axis lies, in units from the left."""
    return LEFT + axis.place(value) * INNER_WIDTH


def y_of(axis: Axis, value: float) -> float:
    """Return where a value of the vertical axis lies, in units from the top."""
    return TOP + (1 - axis.place(value)) * INNER_HEIGHT


def frame(x: Axis, y: Axis, x_title: str, y_title: str) -> list[str]:
    """Return grid lines, ticks and the titles of the axes: that of the vertical one stands above it, level to read."""
    rules = "".join(f"M{LEFT} {y_of(y, tick):.1f}h{INNER_WIDTH}" for tick in y.ticks)
    base = TOP + INNER_HEIGHT
    return [
        f'<path class="grid" d="{rules}"/>',
        *(text_at(LEFT - 7, y_of(y, tick) + 3.8, written(tick), "tick end") for tick in y.ticks),
        *(text_at(x_of(x, tick), base + 15, written(tick), "tick mid") for tick in x.ticks),
        text_at(LEFT + INNER_WIDTH, base + 30, x_title, "axis end"),
        y_title_of(y_title),
    ]


def y_title_of(title: str) -> str:
    """Return the title of a vertical axis, above the chart."""
    return text_at(0, 11, title, "axis")


def whole_ticks(first: int, last: int) -> tuple[float, ...]:
    """Return the ticks of an axis of whole numbers, none outside of its range."""
    ticks = axis_of([first, last], count=6, whole=True).ticks if last > first else (float(first),)
    return tuple(tick for tick in ticks if first <= tick <= last)


def short(values: Sequence[float]) -> list[float]:
    """Return values of five digits, as the page holds them for the script."""
    return [five_digits(value) for value in values]


def five_digits(value: float) -> float:
    """Return a value of five digits, a whole number as an int."""
    rounded = float(f"{value:.5g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
