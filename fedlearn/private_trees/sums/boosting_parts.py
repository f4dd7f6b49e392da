"""Parts of cyclic boosting: divisions of the records by one or two columns, found from released sums, and their steps.

Everything here is post-processing of published sums, and costs no epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fedlearn.private_trees.sums.additive import FloatArray, step_of
from fedlearn.private_trees.sums.losses import Loss
from fedlearn.private_trees.sums.views import Codes, Views

BINS = 16  # of a numeric column alone
BINS_OF_PAIR = 8  # of a numeric column in a pair
COARSE = 4  # bins of a numeric column for the first, coarse step
SPREAD_WITHIN = 0.3  # expected spread of the second, fine step
MOST_OF_PAIR = 9  # largest number of cells of a column in a pair
NOISE_ALONE = 1.0  # standard deviations of the noise, up to which a count is taken for noise

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A division of the records by one column or two."""

    columns: tuple[int, ...]
    groups: tuple[IntArray, ...]  # for each column, (codes,) the group of each code of its fine grid
    are_numbers: tuple[bool, ...]

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(np.prod([group.max() + 1 for group in self.groups]))

    @property
    def coarser(self) -> IntArray:
        """(cells,) the coarse cell of each cell: 4 bins of each numeric column."""
        cell = np.zeros(1, np.int64)
        for group, is_number in zip(self.groups, self.are_numbers, strict=True):
            bins = int(group.max())
            wide = np.append(np.arange(bins) * COARSE // bins, COARSE) if is_number else np.arange(bins + 1)
            cell = (cell[:, None] * (int(wide.max()) + 1) + wide).ravel()
        return cell

    def cell_of(self, codes: Codes) -> IntArray:
        """Return (rows,) the cell of each record."""
        cell = np.zeros(codes.shape[1], np.int64)
        for column, group in zip(self.columns, self.groups, strict=True):
            cell = cell * (int(group.max()) + 1) + group[codes[column]]
        return cell


def parts_of(sums: Sequence[FloatArray], views: Views, variance: float, *, pairs: int) -> list[Part]:
    """Return the parts in the order of their rounds: columns, the best first, and pairs after their second column.

    Parameters
    ----------
    sums
        For each column (codes, width) noisy sums of targets over its fine grid.
    views
        One view of each column.
    variance
        Variance of the noise on one sum.
    pairs
        Number of pairs, of the columns that explain most.
    """
    alone, coarse, gains = [], [], []
    for column, (of_view, edges) in enumerate(zip(sums, views.edges, strict=True)):
        counts = of_view.sum(axis=1)
        noise = variance * of_view.shape[1]
        fine = np.arange(len(counts))
        alone.append(fine if edges is None else grouped(counts, BINS, noise))
        coarse.append(fine if edges is None else grouped(counts, BINS_OF_PAIR, noise))
        gains.append(gain_of(of_view, alone[column], variance))
    numeric = [edges is not None for edges in views.edges]
    order = np.argsort(-np.array(gains), kind="stable").tolist()
    kept = [column for column in order if gains[column] > 0] or order[:1]
    small = [column for column in kept if coarse[column].max() < MOST_OF_PAIR]
    ranked = sorted(combinations(range(len(small)), 2), key=lambda pair: (pair[1], pair[0]))[:pairs]
    parts = []
    for column in kept:
        parts.append(Part((column,), (alone[column],), (numeric[column],)))
        for a, b in ((small[a], small[b]) for a, b in ranked if small[b] == column):
            parts.append(Part((a, b), (coarse[a], coarse[b]), (numeric[a], numeric[b])))
    return parts


def largest_part(views: Views, *, pairs: int) -> int:
    """Return the number of cells of the largest possible part."""
    sizes = [BINS if edges is not None else int(size) for size, edges in zip(views.sizes, views.edges, strict=True)]
    return max([size + 1 for size in sizes] + [MOST_OF_PAIR**2] * (pairs > 0))


def step_on(part: Part, released: FloatArray, loss: Loss, variance: float) -> FloatArray:
    """Return (cells, outputs) the step of released sums (cells, 2 outputs): a coarse step plus a fine one.

    Adjacent cells are alike, and the sum of many cells is less noisy. The fine step fits the residuals of the coarse.
    """
    coarser = part.coarser
    pooled = np.zeros((int(coarser.max()) + 1, released.shape[1]))
    np.add.at(pooled, coarser, released)
    of_pool = np.bincount(coarser)
    first = np.zeros((len(pooled), loss.outputs))
    for size in np.unique(of_pool):
        here = of_pool == size
        first[here] = step_of(pooled[here], loss, variance * size)
    curvature = np.maximum(released[:, loss.outputs :] * loss.curvature_in, 0.0)
    left = released.copy()
    left[:, : loss.outputs] -= curvature * first[coarser] / loss.unit / loss.gradient_in
    return np.asarray(first[coarser] + step_of(left, loss, variance / SPREAD_WITHIN**2))


def grouped(counts: FloatArray, bins: int, variance: float) -> IntArray:
    """Return (codes,) the group of each code: at most `bins` groups of adjacent codes, with about equal counts.

    Counts that noise alone explains are taken as 0. The last code, for missing values, is a group of its own.

    >>> grouped(np.array([90.0, 1.0, 60.0, 40.0, 7.0]), 2, variance=4.0).tolist()
    [0, 0, 1, 1, 2]
    """
    kept = np.where(counts[:-1] > NOISE_ALONE * np.sqrt(variance), counts[:-1], 0.0)
    if not kept.any():
        kept = np.ones_like(kept)
    middle = np.cumsum(kept) - kept / 2
    return np.append(np.minimum((middle / kept.sum() * bins).astype(np.int64), bins - 1), bins)


def gain_of(sums: FloatArray, group: IntArray, variance: float) -> float:
    """Return how much a column explains by itself, beyond its noise, from noisy sums (codes, width)."""
    of_group = np.zeros((int(group.max()) + 1, sums.shape[1]))
    np.add.at(of_group, group, sums)
    noise = np.sqrt(variance * np.bincount(group, minlength=len(of_group)))
    counts = of_group.sum(axis=1)
    share = np.maximum(sums.sum(axis=0), 0.0) / max(float(counts.sum()), 1.0)
    apart = np.abs(of_group - counts[:, None] * share)
    return float(np.maximum(apart - NOISE_ALONE * noise[:, None], 0.0).sum())
