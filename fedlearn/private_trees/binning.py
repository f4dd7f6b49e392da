"""Candidate thresholds on declared grids, and features as one byte each.

A numeric feature has 40 thresholds strictly inside its declared bounds (the regression paper's N_range = 40), evenly
spaced, or evenly in the logarithm if the domain declares that. A categorical feature of k categories, which the
regression trees take as ordered codes, has the k - 1 thresholds between them. The code of a value is the number of
thresholds below it, so ``code > j`` is equivalent to ``x > thresholds[j]``. Grids are public: they follow from the
domain alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedlearn.cache.compiled import compiled
from fedlearn.private_trees.domain import Domain

MISSING = 255
"""The code of a missing value; codes of values are below, so a feature has at most 255 bins."""


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The candidate thresholds of all features."""

    thresholds: NDArray[np.float64]  # (features, most) ascending; +inf behind the last one of a feature
    count: NDArray[np.int64]  # (features,) number of thresholds of each feature, at most 254

    @classmethod
    def of(cls, domain: Domain, *, candidates: int = 40) -> Grid:
        """Return the grid of the domain with this many thresholds for each numeric feature, 1 to 254."""
        if not 1 <= candidates <= MISSING - 1:
            raise ValueError(f"candidates: {candidates} is not in 1 .. {MISSING - 1}")
        if (domain.categories > MISSING).any():
            raise ValueError(f"categories: a feature has more than {MISSING}; group the rare ones")
        count = np.where(domain.categories > 0, domain.categories - 1, candidates)
        thresholds = np.full((domain.num_features, max(int(count.max(initial=1)), 1)), np.inf)
        for feature in range(domain.num_features):
            space = np.geomspace if domain.scale[feature] == "log" else np.linspace
            inside = space(domain.low[feature], domain.high[feature], int(count[feature]) + 2)[1:-1]
            thresholds[feature, : count[feature]] = inside
        return cls(thresholds, count)

    def codes(self, X: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Return X (rows, features) as codes (rows, features), `MISSING` for NaN."""
        out = np.empty(X.shape, np.uint8)
        _fill_codes(np.ascontiguousarray(X, np.float64), self.thresholds, self.count, out)
        return out


@compiled()
def _fill_codes(
    X: NDArray[np.float64], thresholds: NDArray[np.float64], count: NDArray[np.int64], out: NDArray[np.uint8]
) -> None:
    for row in range(X.shape[0]):
        for feature in range(X.shape[1]):
            x = X[row, feature]
            if np.isnan(x):
                out[row, feature] = 255
                continue
            below, above = 0, count[feature]
            while below < above:  # thresholds[:below] < x <= thresholds[above:]
                middle = (below + above) >> 1
                if thresholds[feature, middle] < x:
                    below = middle + 1
                else:
                    above = middle
            out[row, feature] = below
