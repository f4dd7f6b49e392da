"""The kinds of charts, as values: `svg.py` draws them for the page, `plots.py` for files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WHOLE = ("round", "rank", "nodes, the worst first")
"""Titles of axes that have whole numbers only."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line and, with `low` and `high`, a band around it; all tuples have one length."""

    label: str
    slot: int
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines over a common axis; `ceilings` are heights that no line may pass, as the budgets of a privacy loss."""

    key: str  # name of its file
    title: str
    x_title: str
    y_title: str
    lines: tuple[Line, ...]
    log_x: bool = False
    ceilings: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class StackedBars:
    """Bars in a row, each made of layers from the bottom up.

    Parameters
    ----------
    places
        The place of each bar: its round, the first of its rounds, or its rank.
    layers
        Name -> the height of this layer in each bar.
    marks, mark
        The height of a line across each bar, and the meaning of these lines.
    x_title
        The meaning of the places.
    names
        The name of each bar; empty if its place says it.
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
    """Dots; a line joins the dots that no other dot beats in both directions."""

    key: str
    title: str
    x_title: str
    y_title: str
    dots: tuple[Dot, ...]
    log_x: bool


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Cells whose color shows how many examples each of them has.

    Parameters
    ----------
    counts : array of int
        Shape (rows, columns).
    columns
        The names of the columns. With names the color is the share of the row, as in a confusion matrix. Without names
        the columns are nodes, the color is the count, and a bar above each node shows its number of examples.
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
        """How dark each cell is, from 0, without examples, to 1."""
        most = self.counts.sum(axis=1, keepdims=True) if self.columns else self.counts.max(initial=0)
        shades: NDArray[np.float64] = self.counts / np.maximum(most, 1)
        return shades


Chart = LineChart | StackedBars | ScatterChart | HeatMap


def means(values: Sequence[float], each: int) -> tuple[float, ...]:
    """Return the means of groups of `each` consecutive values; the last group may be smaller.

    >>> means([1.0, 3.0, 5.0], 2)
    (2.0, 5.0)
    """
    if each == 1 or not values:
        return tuple(values)
    begins = np.arange(0, len(values), each)
    sums = np.add.reduceat(np.asarray(values, np.float64), begins)
    return tuple((sums / np.diff([*begins, len(values)])).tolist())
