"""Checked training data of a regressor, and its parts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.privacy import disjoint_parts
from fedlearn.private_trees.binning import Grid
from fedlearn.private_trees.domain import Domain
from fedlearn.private_trees.numbers.histograms import UNIT, Rows, arrange, pairs_of
from fedlearn.private_trees.table_cells import numbers_of

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSet:
    """Records, and public facts about them."""

    X: FloatArray  # (rows, features); NaN = missing
    y: FloatArray  # (rows,)
    domain: Domain
    grid: Grid
    given_parts: NDArray[np.int64] | None = None  # (rows,) the given part of each record
    whole: NDArray[np.int64] | None = None  # (rows,) weight of each record in UNITs; None: UNIT

    @property
    def unit_target(self) -> FloatArray:
        """(rows,) targets clipped and mapped to [0, 1]."""
        return self.domain.unit_target(self.y)

    def rows(self, unit_target: FloatArray, tree_of_row: NDArray[np.integer], trees: int) -> Rows:
        """Return the rows of the roots: slot t holds the rows of tree t."""
        pairs = pairs_of(unit_target, UNIT if self.whole is None else self.whole)
        return arrange(self.grid.codes(self.X), pairs, tree_of_row, trees)

    def where(self, kept: NDArray[np.bool_]) -> TrainingSet:
        """Return the training set of the kept records."""
        parts = None if self.given_parts is None else self.given_parts[kept]
        whole = None if self.whole is None else self.whole[kept]
        return replace(self, X=self.X[kept], y=self.y[kept], given_parts=parts, whole=whole)

    def parts(self, count: int, rng: np.random.Generator, *, is_secure: bool) -> NDArray[np.int64]:
        """Return (rows,) the part 0 .. count - 1 of each record: given, or random.

        With secure noise the draws are fresh and not kept; `disjoint_parts` has the proof.
        """
        if self.given_parts is not None:
            return self.given_parts
        return disjoint_parts(len(self.y), count=count, rng=np.random.default_rng() if is_secure else rng)


def checked_parts(parts: ArrayLike | None, *, rows: int, count: int) -> NDArray[np.int64] | None:
    """Return (rows,) the given parts, -1 for one outside 0 .. count - 1; None if no parts are given."""
    if parts is None:
        return None
    given = np.asarray(parts)
    if given.shape != (rows,):
        raise ValueError(f"parts: shape {given.shape} for {rows} rows; give one part for each row")
    numbers = numbers_of(given, else_missing=True)
    known = (numbers >= 0) & (numbers < count) & (numbers == np.floor(numbers))
    return np.where(known, numbers, -1).astype(np.int64)
