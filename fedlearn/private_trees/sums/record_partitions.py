"""Partitions of the records by the codes of one view or two, on finer and coarser grids.

Partitions follow from the declaration alone. A record lies in exactly one cell of a partition, so the sums of all cells
cost no more than a single sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fedlearn.private_trees.sums.views import BINS, Codes, Views

ALONE = (16, 8, 4)  # bins of the grids of one numeric view
OF_TWO = (16, 8)  # bins of the grids of two numeric views
BESIDE_CATEGORIES = (8, 4)  # bins of the grids beside a categorical view
LARGEST = 320  # largest number of cells of a pair


@dataclass(frozen=True, slots=True, eq=False)
class Partitions:
    """Many partitions, one in each row of the arrays.

    >>> views = Views.declare(2, bounds=(0, 1), categories={1: 2})
    >>> partitions = Partitions.of(views)
    >>> partitions.cells.tolist()  # 16, 8, 4 bins on either grid; two categories; both together; and what is missing
    [17, 9, 5, 17, 9, 5, 3, 27, 15]
    """

    views: NDArray[np.int64]  # (partitions, 2); the second is -1 for a single view
    shifts: NDArray[np.int64]  # (partitions, 2)
    strides: NDArray[np.int64]  # (partitions,) cells of the first view alone
    cells: NDArray[np.int64]  # (partitions,)
    singles: int  # number of partitions of one view, which come first

    @classmethod
    def of(cls, views: Views, *, pairs: bool = True) -> Partitions:
        """Return all partitions of these views; pairs are of the first views of two columns."""
        numeric = [edges is not None for edges in views.edges]

        def shift(view: int, bins: int) -> int:
            return (int(views.sizes[view]) // bins).bit_length() - 1 if numeric[view] else 0

        rows = [(view, -1, shift(view, n), 0) for view, each in enumerate(numeric) for n in (ALONE if each else (1,))]
        singles = len(rows)
        for a, b in combinations(views.firsts, 2) if pairs else ():
            bins = OF_TWO if numeric[a] and numeric[b] else BESIDE_CATEGORIES if numeric[a] or numeric[b] else (1,)
            rows += [(a, b, shift(a, n), shift(b, n)) for n in bins]
        table = np.array(rows, np.int64).reshape(-1, 4)
        strides = (views.sizes[table[:, 0]] >> table[:, 2]) + 1
        cells = strides * np.where(table[:, 1] < 0, 1, (views.sizes[table[:, 1]] >> table[:, 3]) + 1)
        kept = (cells <= LARGEST) | (np.arange(len(cells)) < singles)
        return cls(table[kept, :2], table[kept, 2:], strides[kept], cells[kept], singles)

    def __len__(self) -> int:
        return len(self.cells)

    def drawn(self, pairs: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the numbers of all singles and of at most `pairs` pairs, drawn without data."""
        others = np.arange(self.singles, len(self))
        if len(others) > pairs:
            others = np.sort(rng.choice(others, pairs, replace=False))
        return np.concatenate([np.arange(self.singles), others])

    def cell_of(self, partition: int, codes: Codes) -> NDArray[np.int64]:
        """Return (rows,) the cell of each record, of codes (views, rows)."""
        (a, b), (shift, other) = self.views[partition], self.shifts[partition]
        cell: NDArray[np.int64] = (codes[a] >> shift).astype(np.int64)
        if b >= 0:
            cell += self.strides[partition] * (codes[b] >> other).astype(np.int64)
        return cell


assert BINS & (BINS - 1) == 0  # else missing values would lose their own bin on coarser grids
