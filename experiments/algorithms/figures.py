"""Figures of a grid: scores with intervals beside print, ranks, and curves by round; a panel for each cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from experiments.algorithms.grids import ALGORITHM, Grid
from experiments.algorithms.ranks import ranks_of
from experiments.intervals import Interval
from experiments.looks import legend, styles_of
from fedlearn.report.charts.curves import line_of
from fedlearn.report.charts.plots import PALETTE, add_line, drawn, whole_ticks
from fedlearn.sweeps.results import PlannedPoint

Points = Mapping[str, Sequence[PlannedPoint]]  # cell -> its algorithms that have runs
PRINTED = ("D", "s", "^", "v")  # markers of published numbers
COLUMNS = 2  # panels in a line
WIDTH, ROW, HEAD = 4.4, 0.34, 1.5  # of a panel, a line of it, and what stands around it, in inches


def draw(grid: Grid, points: Points, folder: Path) -> list[str]:
    """Draw the figures of the cells that have runs; return the names of the files, without their endings."""
    names = ["scores", "by_round"]
    _scores(grid, points, folder)
    _by_round(grid, points, folder)
    if len(points) > 1:
        _ranks(grid, points, folder)
        names.append("ranks")
    return names


@contextmanager
def _panels(folder: Path, name: str, points: Points, size: tuple[float, float]) -> Iterator[list[Any]]:
    """Yield a panel for each cell; they stand in lines of `COLUMNS`."""
    columns = min(len(points), COLUMNS)
    with drawn(folder, name, rows=-(-len(points) // columns), columns=columns, size=size) as panels:
        for panel in panels[len(points) :]:
            panel.set_visible(False)
        yield panels[: len(points)]


def _scores(grid: Grid, points: Points, folder: Path) -> None:
    """Draw each seed's score, the mean with its interval, and what is printed; the mean's rank is written beside it."""
    names = list(grid.algorithms)
    places = {name: len(names) - 1 - place for place, name in enumerate(names)}
    size = (WIDTH, HEAD + ROW * len(names))
    with _panels(folder, "scores", points, size) as panels:
        for panel, (cell, mine) in zip(panels, points.items(), strict=True):
            ranks = ranks_of(mine, grid.score)
            for point in mine:
                _score(panel, grid, point, places[point.labels[ALGORITHM]], ranks[point.labels[ALGORITHM]])
            for slot, source in enumerate(grid.published):
                found = [(value.mean, places[name]) for name in names if (value := source.of(cell, name))]
                x, y = zip(*found, strict=True) if found else ((), ())
                color, marker = PALETTE[1 + slot % (len(PALETTE) - 1)], PRINTED[slot % len(PRINTED)]
                panel.scatter(x, y, s=26, marker=marker, facecolors="none", edgecolors=color, label=source.source)
            panel.set(title=cell, xlabel=grid.score_title)
            panel.set_yticks(list(places.values()), list(places))
            panel.set_ylim(-0.6, len(names) - 0.4)
        if all(0 <= value <= 1 for mine in points.values() for point in mine for value in _values(grid, point)):
            left, right = panels[0].get_xlim()  # the intervals of few seeds may leave the range of a share
            panels[0].set_xlim(max(left, -0.02), min(right, 1.02))
        last = panels[min(len(panels), COLUMNS) - 1]
        last.scatter((), (), s=12, color=PALETTE[0], alpha=0.5, label="a seed")
        last.errorbar((), (), xerr=(), color=PALETTE[0], marker="o", markersize=5, label="mean, 95 % interval")
        legend(last, "number: rank")


def _values(grid: Grid, point: PlannedPoint) -> list[float]:
    return [value for run in point.runs if (value := run.latest(grid.score)) is not None]


def _score(panel: Any, grid: Grid, point: PlannedPoint, place: int, rank: float) -> None:
    values = _values(grid, point)
    if not values:
        return
    mean, half = Interval.of(values)
    panel.scatter(values, [place] * len(values), s=12, color=PALETTE[0], alpha=0.5)
    panel.errorbar([mean], [place], xerr=None if half is None else [half], color=PALETTE[0], marker="o", markersize=5)
    look: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontsize": 7, "color": "#5b616b"}
    panel.annotate(f"{rank:.2g}", (mean, place), xytext=(0, 5), **look)


def _by_round(grid: Grid, points: Points, folder: Path) -> None:
    """Draw the score by round: a line for each algorithm, the mean over seeds with a deviation to each side."""
    styles = styles_of(list(grid.algorithms), ordered=False)
    with _panels(folder, "by_round", points, (WIDTH, 3.4)) as panels:
        for panel, (cell, mine) in zip(panels, points.items(), strict=True):
            for point in mine:
                name = point.labels[ALGORITHM]
                if (line := line_of(point, grid.score, "rounds")) is not None:
                    add_line(panel, line, **{**styles[name], "linestyle": "-", "label": name, "markevery": 0.1})
            panel.axhline(grid.target, color="#8b919a", linestyle=(0, (6, 4)), linewidth=1)
            whole_ticks(panel)
            panel.set(title=cell, xlabel="round")
        panels[0].set_ylabel(grid.score_title)
        named = [panel.get_legend_handles_labels() for panel in panels]
        lines = {label: line for found in named for line, label in zip(*found, strict=True)}
        look: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "alignment": "left"}
        last = panels[min(len(panels), COLUMNS) - 1]
        last.legend(lines.values(), lines.keys(), title=f"dashed: {grid.target:g}", **look)


def _ranks(grid: Grid, points: Points, folder: Path) -> None:
    """Draw the mean rank of each algorithm in each cell as a heat map, the best dark."""
    names = list(grid.algorithms)
    found = {cell: ranks_of(mine, grid.score) for cell, mine in points.items()}
    table = np.array([[found[cell].get(name, np.nan) for cell in found] for name in names])
    with drawn(folder, "ranks", size=(2.4 + 0.9 * len(found), HEAD + ROW * len(names))) as (panel,):
        image = panel.imshow(table, cmap="viridis", vmin=1, vmax=len(names), aspect="auto")
        for (row, column), rank in np.ndenumerate(table):
            if np.isfinite(rank):
                color = "white" if rank < 1 + 0.6 * (len(names) - 1) else "black"
                panel.text(column, row, f"{rank:.2g}", ha="center", va="center", fontsize=8, color=color)
        panel.set_xticks(range(len(found)), list(found), rotation=25, ha="right")
        panel.set_yticks(range(len(names)), names)
        panel.grid(visible=False)
        panel.figure.colorbar(image, ax=panel, label="mean rank over seeds")
