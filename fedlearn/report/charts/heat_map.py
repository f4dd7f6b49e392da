"""Draw a heat map: the examples of each label on each node, or a confusion matrix."""

from __future__ import annotations

import itertools
from html import escape

import numpy as np

from fedlearn.report.charts.kinds import HeatMap
from fedlearn.report.charts.sheet import (
    INNER_HEIGHT,
    LEFT,
    LETTER,
    RIGHT,
    TOP,
    WIDTH,
    element_with_hover,
    text_at,
    whole_ticks,
    y_title_of,
)
from fedlearn.report.numbers import written

SHADES = 12
WIDEST_NAME, NAME_LETTERS = 92, 13  # of a row, in units and letters
APART = 7.0  # from this width on cells stand apart; narrower ones touch, as gaps among them would shimmer
STRIP = 34  # height of the bars above: how many examples a node has
HIGHEST, ALONE = 17.0, 130.0  # of a cell, and of the bars where there is a single row
NUMBERED = 10  # so many columns leave room for numbers


def cells(chart: HeatMap) -> str:
    """Return a heat map as an ``<svg>`` element: a column for each node or class, and a bar above each node."""
    columns = chart.counts.shape[1]
    names = (*chart.rows, *(() if chart.columns else [chart.y_title]))
    left = min(max(LEFT, 12 + LETTER * max(len(name[:NAME_LETTERS]) for name in names)), WIDEST_NAME)
    width, top = (WIDTH - RIGHT - left) / columns, float(TOP)
    parts = [y_title_of(chart.y_title if chart.columns else "examples")]
    height = _row_height(chart, width)
    if not chart.columns:
        top += STRIP if height else ALONE
        parts += _strip(chart, left, width, top - 4)
        parts += [text_at(left - 6, top - 5, _cut(chart.y_title), "axis end")] if height else []
    if height:
        parts += _boxes(chart, left, width, top, height)
        parts += _row_names(chart, left, top, height)
    base = top + len(chart.rows) * height
    parts += _column_names(chart, left, width, base)
    base += 46 if _is_slanted(chart, width) else 20
    parts.append(text_at(WIDTH - RIGHT, base + 10, chart.x_title, "axis end"))
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
    return element_with_hover(chart, parts, hover, height=base + 16)


def _row_height(chart: HeatMap, width: float) -> float:
    """Return the height of a row of cells; 0 if the bars show all there is."""
    if chart.columns:
        return min(max(INNER_HEIGHT / len(chart.rows), 3.0), 26.0)
    return 0.0 if len(chart.rows) == 1 else min(HIGHEST, max(INNER_HEIGHT / len(chart.rows), 2.0))


def _strip(chart: HeatMap, left: float, width: float, base: float) -> list[str]:
    """Return a bar for each node, as high as its number of examples."""
    sizes = chart.counts.sum(axis=0)
    most, room = max(int(sizes.max(initial=0)), 1), base - TOP
    edges = np.round(left + width * np.arange(len(sizes) + 1), 1)
    gap = 1.0 if width >= APART else 0.0
    path = "".join(
        f"M{edge:g} {base:g}v{-room * size / most:.1f}H{after - gap:.1f}V{base:g}Z"
        for edge, after, size in zip(edges, edges[1:], sizes.tolist(), strict=False)
        if size
    )
    return [f'<path class="size" d="{path}"/>', text_at(left - 6, TOP + 8, written(most), "tick end")]


def _boxes(chart: HeatMap, left: float, width: float, top: float, height: float) -> list[str]:
    """Return a path for each shade; cells that touch and have one shade are one box."""
    shades = np.ceil(chart.shades * SHADES).astype(int)  # 0 only in cells without examples
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
            text_at(
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
        text_at(left - 6, top + (row + 0.5) * height + 3.5, _cut(name), "tick end")
        for row, name in enumerate(chart.rows)
        if row % every == 0
    ]


def _is_slanted(chart: HeatMap, width: float) -> bool:
    return any(len(name) * LETTER > width for name in chart.columns)


def _column_names(chart: HeatMap, left: float, width: float, base: float) -> list[str]:
    if not chart.columns:
        ticks = whole_ticks(0, chart.counts.shape[1] - 1)
        return [text_at(left + (tick + 0.5) * width, base + 13, written(tick), "tick mid") for tick in ticks]
    every = max(1, -(-11 // int(max(width, 1))))
    slanted = _is_slanted(chart, width)
    drawn = []
    for place, name in enumerate(chart.columns):
        x = left + (place + 0.5) * width
        if place % every == 0 and slanted:
            turn = f' transform="rotate(-45 {x:.1f} {base + 12:.1f})"'
            drawn.append(f'<text x="{x:.1f}" y="{base + 12:.1f}"{turn} class="tick end">{escape(name[:9])}</text>')
        elif place % every == 0:
            drawn.append(text_at(x, base + 13, name, "tick mid"))
    return drawn


def _scale(chart: HeatMap, left: float, base: float) -> list[str]:
    """Return the scale of shades, from none to most examples."""
    boxes = [_shade(shade, f"M{left + 9 + 8 * shade:g} {base + 2:g}h8v8h-8Z") for shade in range(SHADES + 1)]
    most = "all of the row" if chart.columns else f"{written(int(chart.counts.max(initial=0)))} examples"
    texts = [
        text_at(left + 4, base + 10, "0", "tick end"),
        text_at(left + 14 + 8 * (SHADES + 1), base + 10, most, "tick"),
    ]
    return [*boxes, *texts]


def _cut(name: str) -> str:
    return name if len(name) <= NAME_LETTERS else f"{name[: NAME_LETTERS - 1]}…"
