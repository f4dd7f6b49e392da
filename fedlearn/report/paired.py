"""Paired differences over seeds, with intervals and Holm's correction for all comparisons of a table.

Two points of a sweep are compared seed by seed, as runs of one seed share what the seed decides. Each pair of points is
a comparison, since the best point is found by looking at all: Student's t test of the mean difference, and Holm's
correction over all pairs (Holm 1979, "A simple sequentially rejective multiple test procedure"), which holds whatever
the dependence between them. The interval has the level at which Holm's procedure has tested its pair: it excludes 0
exactly where the difference is told apart with a family-wise error of 5 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.metric import Metric
from fedlearn.report.numbers import number

ERROR = 0.05  # of the family of all comparisons
CORRECTION = "Holm"

Scores = Mapping[int, float]  # seed -> score


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better one point is than another, seed by seed.

    Parameters
    ----------
    mean, low, high
        The mean difference and its interval; positive where the one point is better.
    p
        Of Student's t test, corrected.
    seeds
        How many seeds both points have.
    """

    mean: float
    low: float
    high: float
    p: float
    seeds: int

    def text(self) -> str:
        """Return the difference with its interval.

        >>> Difference(0.5, 0.25, 0.75, 0.01, 5).text()
        '0.5000 [0.2500, 0.7500]'
        """
        return f"{number(self.mean)} [{number(self.low)}, {number(self.high)}]"

    def sentence(self, one: str, other: str) -> str:
        """Return the difference in words.

        >>> Difference(0.5, 0.25, 0.75, 0.01, 5).sentence("a", "b")
        'a is better than b by 0.5000 [0.2500, 0.7500]'
        """
        if self.high < 0:
            return f"{other} is better than {one} by {Difference(-self.mean, -self.high, -self.low, self.p, 0).text()}"
        if self.low > 0:
            return f"{one} is better than {other} by {self.text()}"
        return f"{one} is not significantly better than {other}: {self.text()}"


def differences(scores: Sequence[Scores], metric: Metric, reference: int) -> list[Difference | None]:
    """Return how much better the point `reference` is than each point; None without two common seeds, and for itself.

    >>> found = differences([{1: 0.9, 2: 0.8}, {1: 0.7, 2: 0.5}], Metric("accuracy", better="up"), 0)
    >>> round(found[1].mean, 3), found[1].seeds, round(found[1].p, 4)
    (0.25, 2, 0.1257)
    """
    means, errors, seeds = _pairs(scores, -1.0 if metric.better == "down" else 1.0)
    one, other = np.triu_indices(len(scores), 1)
    is_tested = seeds[one, other] > 1
    one, other = one[is_tested], other[is_tested]
    found: list[Difference | None] = [None] * len(scores)
    if not len(one):
        return found
    p = _p_values(means[one, other], errors[one, other], seeds[one, other])
    levels, corrected = holm(p)
    for place in np.flatnonzero((one == reference) | (other == reference)):
        a, b = int(one[place]), int(other[place])
        against = b if a == reference else a
        mean = float(means[reference, against])
        half = _half(float(errors[a, b]), int(seeds[a, b]), float(levels[place]))
        found[against] = Difference(mean, mean - half, mean + half, float(corrected[place]), int(seeds[a, b]))
    return found


def holm(p: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the level at which Holm's procedure tests each comparison, and the corrected p-values.

    Comparisons behind the first that is not rejected have its level: none of them is rejected there either.

    >>> [part.round(4).tolist() for part in holm(np.array([0.01, 0.3, 0.02]))]
    [[0.0167, 0.05, 0.025], [0.03, 0.3, 0.04]]
    """
    order = np.argsort(p, kind="stable")
    left = np.arange(len(p), 0, -1)  # comparisons that are not decided yet, of the smallest p first
    kept = np.flatnonzero(p[order] > ERROR / left)
    first = int(kept[0]) if len(kept) else len(p)
    levels, corrected = np.empty(len(p)), np.empty(len(p))
    levels[order] = ERROR / left[np.minimum(np.arange(len(p)), first if first < len(p) else len(p) - 1)]
    corrected[order] = np.minimum(np.maximum.accumulate(left * p[order]), 1.0)
    return levels, corrected


def _pairs(scores: Sequence[Scores], sign: float) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return the mean difference of each pair, its standard error, and the number of common seeds; (points, points)."""
    seeds = sorted({seed for each in scores for seed in each})
    table = sign * np.array([[each.get(seed, np.nan) for seed in seeds] for each in scores], np.float64)
    shape = (len(scores), len(scores))
    means, errors, counts = np.zeros(shape), np.zeros(shape), np.zeros(shape, np.int64)
    for place, row in enumerate(table):
        apart = row - table
        common = np.isfinite(apart)
        counts[place] = count = common.sum(axis=1)
        apart = np.where(common, apart, 0.0)
        means[place] = mean = apart.sum(axis=1) / np.maximum(count, 1)
        squares = (np.where(common, apart - mean[:, None], 0.0) ** 2).sum(axis=1)
        errors[place] = np.sqrt(squares / np.maximum(count - 1, 1) / np.maximum(count, 1))
    return means, errors, counts


def _p_values(
    means: NDArray[np.float64], errors: NDArray[np.float64], seeds: NDArray[np.int64]
) -> NDArray[np.float64]:  # fmt: skip
    from scipy.special import stdtr

    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(means == 0, 0.0, np.abs(means) / errors)  # infinite where all seeds say the same
    return np.asarray(2 * stdtr(seeds - 1, -t))


def _half(error: float, seeds: int, level: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(seeds - 1, 1 - level / 2) * error)
