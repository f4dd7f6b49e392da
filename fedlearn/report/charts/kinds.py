"""Kinds of charts, as values without a form: `svg.py` draws them for the page, `plots.py` for files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WHOLE = ("round", "rank", "nodes, the worst first")
"""Titles of axes on which nothing lies between whole numbers."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line; with `low` and `high` a band around it. All of one length."""

    label: str
    slot: int
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines over a common axis."""

    key: str  # name of its file
    title: str
    x_title: str
    y_title: str
    lines: tuple[Line, ...]
    log_x: bool = False


@dataclass(frozen=True, slots=True)
class StackedBars:
    """Bars in a row, each made of layers from the bottom up.

    Parameters
    ----------
    places
        Where each bar stands: its round, the first of its rounds, or its rank.
    layers
        Name -> one height for each bar.
    marks, mark
        A line across each bar, and what it means: what there might have been, or what there was before.
    x_title
        What the places are.
    names
        What each bar is called, where its place does not say it.
    each
        How many rounds a bar stands for.
    """

    key: str
    title: str
    y_title: str
    places: tuple[int, ...]
    layers: dict[str, tuple[float, ...]]
    marks: tuple[float, ...] = ()
    mark: str = ""
    x_title: str = "round"
    names: tuple[str, ...] = ()
    each: int = 1


@dataclass(frozen=True, slots=True)
class Dot:
    """One point of a scatter chart; its name is written beside it if it is on the front."""

    label: str
    slot: int
    x: float
    y: float
    on_front: bool


@dataclass(frozen=True, slots=True)
class ScatterChart:
    """Dots, those that no other dot beats in both directions joined by a line."""

    key: str
    title: str
    x_title: str
    y_title: str
    dots: tuple[Dot, ...]
    log_x: bool


@dataclass(frozen=True, slots=True)
class HeatMap:
    """How many examples there are in each cell; the colour says it.

    Parameters
    ----------
    counts : array of int
        Shape (rows, columns).
    columns
        What the columns are called. With it the colour is the share of the row, as in a confusion matrix; without, the
        columns are nodes, the colour is the count, and how many examples each has stands above it.
    """

    key: str
    title: str
    x_title: str
    y_title: str
    rows: tuple[str, ...]
    counts: NDArray[np.int64]
    columns: tuple[str, ...] = ()

    @property
    def shades(self) -> NDArray[np.float64]:
        """How dark each cell is, from 0, where there is nothing, to 1."""
        most = self.counts.sum(axis=1, keepdims=True) if self.columns else self.counts.max(initial=0)
        shades: NDArray[np.float64] = self.counts / np.maximum(most, 1)
        return shades


Chart = LineChart | StackedBars | ScatterChart | HeatMap


def means(values: Sequence[float], each: int) -> tuple[float, ...]:
    """Return the means of so many values in a row; the last may be of fewer.

    >>> means([1.0, 3.0, 5.0], 2)
    (2.0, 5.0)
    """
    if each == 1 or not values:
        return tuple(values)
    begins = np.arange(0, len(values), each)
    sums = np.add.reduceat(np.asarray(values, np.float64), begins)
    return tuple((sums / np.diff([*begins, len(values)])).tolist())
