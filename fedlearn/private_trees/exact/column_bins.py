"""Cells of columns: bins of numbers, made of the first sums; categories as they are declared; missing values.

A number lies in one of `FINE` cells, more or less, that follow from its declared bounds: an even grid, and one whose
steps grow from the lower bound, which suits heavy tails; an even grid of the logarithm if the bounds say ``"log"``. The
first sums count the records of each cell. Adjacent cells are joined until at most `max_bins` are left, with about equal
counts. A value on an edge lies in the lower cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import TableSchema
from fedlearn.private_trees.exact.flat_trees import CODES

FINE = 1024  # cells of an even grid
TAIL = 2.0**20  # width of the bounds over the first step of the growing grid
STEPS = 256  # of the growing grid

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The columns that trees may test: numbers first, then categories.

    Parameters
    ----------
    fine
        (numbers,) the inner edges of each number's fine cells.
    words
        (categories,) how many categories each has.
    max_bins
        Most bins of a number.
    """

    fine: tuple[FloatArray, ...]
    words: tuple[int, ...]
    max_bins: int

    @classmethod
    def declare(cls, schema: TableSchema, max_bins: int) -> Cells:
        """Return the cells of declared columns; raise `SettingError` for more categories than a code can hold."""
        for name, words in schema.categories.items():
            if len(words) >= CODES:
                why = f"column {name!r} has {len(words)} categories: at most {CODES - 1} are supported"
                raise SettingError("model.name", "exact-boosting", why)
        fine = tuple(_grid(*bound) for bound in schema.bounds.values())
        return cls(fine, tuple(len(words) for words in schema.categories.values()), max_bins)

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.fine) + len(self.words)

    @property
    def first_length(self) -> int:
        """Number of the first sums: the fine cells of all numbers."""
        return sum(len(edges) + 1 for edges in self.fine)

    def total(self, edges: int) -> int:
        """Return the number of cells of all columns, where all numbers together have so many edges."""
        return edges + 2 * len(self.fine) + sum(self.words) + len(self.words)

    def counts(self, inputs: FloatArray) -> IntArray:
        """Return (first_length,) the number of records in each fine cell."""
        found = [np.zeros(0, np.int64)]
        for column, edges in enumerate(self.fine):
            values = inputs[:, column]
            places = np.searchsorted(edges, values[~np.isnan(values)], side="left")
            found.append(np.bincount(places, minlength=len(edges) + 1))
        return np.concatenate(found)

    def edges(self, counts: IntArray) -> list[FloatArray]:
        """Return the edges of each number's bins, from the summed counts."""
        ends = np.cumsum([len(edges) + 1 for edges in self.fine])[:-1]
        parts = np.split(counts, ends) if self.fine else []
        return [_joined(part, fine, self.max_bins) for part, fine in zip(parts, self.fine, strict=True)]

    def encode(self, inputs: FloatArray, edges: Sequence[FloatArray]) -> NDArray[np.uint8]:
        """Return (rows, columns) codes; what is missing, or no declared category, has the last code."""
        codes = np.empty((len(inputs), self.columns), np.uint8)
        for column in range(self.columns):
            values = inputs[:, column]
            if column < len(edges):
                missing = np.isnan(values)
                found = np.searchsorted(edges[column], np.where(missing, 0.0, values), side="left")
                codes[:, column] = np.where(missing, len(edges[column]) + 1, found)
                continue
            size = self.words[column - len(edges)]
            is_known = (values >= 0) & (values < size) & (values == np.floor(values))
            codes[:, column] = np.where(is_known, values, size)
        return codes

    def table(self, bins: IntArray, signs: Sequence[int]) -> IntArray:
        """Return (columns, 4) first cell, number of cells of values, whether they are categories, and signs.

        `bins` has the number of edges of each number.
        """
        sizes = np.array([*(bins + 1).tolist(), *self.words], np.int64)
        firsts = np.cumsum(sizes + 1) - sizes - 1
        return np.array([firsts, sizes, np.arange(len(sizes)) >= len(bins), signs], np.int64).T.copy()


def _grid(low: float, high: float, scale: str = "linear") -> FloatArray:
    """Return the inner edges of the fine cells between two bounds."""
    if scale == "log":
        return np.geomspace(low, high, FINE + 1)[1:-1]
    even = np.linspace(low, high, FINE + 1)[1:-1]
    return np.unique([*even, *(low + np.geomspace((high - low) / TAIL, high - low, STEPS)[:-1])])


def _joined(counts: IntArray, fine: FloatArray, bins: int) -> FloatArray:
    """Return the edges of at most as many bins with about equal counts, in the middle between cells that have records.

    >>> _joined(np.array([5, 0, 5, 1, 9]), np.array([0.1, 0.2, 0.3, 0.4]), 2).tolist()
    [0.3]
    """
    some = np.flatnonzero(counts)
    running = np.cumsum(counts[some])
    if len(some) > bins:
        wanted = running[-1] * np.arange(1, bins) / bins
        last = np.unique(np.searchsorted(running, wanted, side="left"))
    else:
        last = np.arange(max(len(some) - 1, 0))
    last = last[last < len(some) - 1]
    return np.asarray((fine[some[last]] + fine[some[last + 1] - 1]) / 2)
