"""Private bins of numeric columns, with about equally many records each, from a noisy histogram of each column.

A record lies in one cell of each column's fine grid, so one record changes the counts of all columns by at most the
number of numeric columns, in the L1 norm; geometric noise protects them. The rest is post-processing: counts that noise
alone explains become 0, and a bin ends where the running sum passes the next sixteenth.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy import Noise, geometric
from fedlearn.private_trees.sums.views import PRIVATE_BINS, Codes, Views
from fedlearn.private_trees.weights import UNIT, Whole

SHARE = 0.08  # of epsilon
FEWEST = 2.0
"""Least ratio of a sixteenth of the records to the standard deviation of a count's noise; below it no bins are made."""


def are_worth_it(fine: Views, epsilon: float, n: float) -> bool:
    """Return whether bins for this epsilon are worth their cost, from a published number of records."""
    return len(fine.sizes) > 0 and n / PRIVATE_BINS >= FEWEST * _deviation(fine, epsilon)


def private_edges(
    codes: Codes, fine: Views, *, epsilon: float, noise: Noise, whole: Whole = None
) -> dict[int, NDArray[np.float64]]:
    """Return for each numeric column the edges of bins with about equally many records; edges may coincide.

    Parameters
    ----------
    codes
        (views, rows) codes on the fine grids.
    fine
        One view of each numeric column, and no other view.
    epsilon
        Privacy loss of all columns together.
    noise
        Source of the noise.
    whole
        (rows,) weights of the records in UNITs: one record then changes a count by at most UNIT. None: no weights.
    """
    widest = int(fine.sizes.max())
    counts = np.zeros((len(fine.sizes), widest), np.int64)
    for view, size in enumerate(fine.sizes):
        counts[view, :size] = np.bincount(codes[view], whole, minlength=size + 1)[:size]
    unit = 1 if whole is None else UNIT
    released = geometric(counts, sensitivity=unit * len(fine.sizes), epsilon=epsilon, noise=noise) / unit
    kept = np.where(released > FEWEST * _deviation(fine, epsilon), released, 0.0)
    edges = {}
    for view, grid in enumerate(fine.edges):
        assert grid is not None
        running = np.cumsum(kept[view, : fine.sizes[view]])
        wanted = running[-1] * np.arange(1, PRIVATE_BINS) / PRIVATE_BINS
        last = np.searchsorted(running, wanted, side="left")
        edges[int(fine.feature[view])] = grid[np.minimum(last, len(grid) - 1)]
    return edges


def _deviation(fine: Views, epsilon: float) -> float:
    return math.sqrt(2) * len(fine.sizes) / epsilon
