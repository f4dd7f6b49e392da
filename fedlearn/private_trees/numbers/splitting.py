"""Choice of the split of every node of a level: by utilities and permute-and-flip, or without data.

Utilities are in records. Adding one record of weight w <= 1 moves the utilities of *all* candidates of its node in the
same direction, by 0 to w: sensitivity 1 and monotone, so one-sided noise of scale 1 / epsilon suffices (McKenna and
Sheldon 2020, arXiv:2010.12603). A record in pieces (weight partition) moves the utilities of several nodes of a level,
by weights that sum to at most 1: the losses, weight times epsilon each, sum to at most epsilon.

| criterion | utility | why the sensitivity is 1 |
|---|---|---|
| squared | minus the sum of squared errors | a record adds n w / (n + w) (y - mean)^2, in [0, w] |
| absolute | minus the sum of absolute errors around the median | a record adds at most w abs(y - median), in [0, w] |
| vote | ``max(ones, zeros)`` left + right, for the label y > center | a record adds 1 to one of the four numbers |

The vote is the max operator of Friedman and Schuster 2010 (doi:10.1145/1835804.1835868), made a regression
criterion by a private center. A record that lacks a feature counts half on either side of that feature's candidates.

The candidates are public: thresholds of the declared grid inside the node's cell, which the splits above define.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedlearn.cache.compiled import compiled
from fedlearn.privacy import permute_and_flip
from fedlearn.privacy.noise import Noise
from fedlearn.private_trees.binning import Grid
from fedlearn.private_trees.numbers.histograms import UNIT, Rows, histogram, histogram_by_target

CRITERIA = ("vote", "squared", "absolute")
TARGET_STEPS = 33
"""The absolute criterion rounds targets to this many even steps: a change of the question, not of its sensitivity."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Public cells of the grid, one for each slot: its codes lie in low .. high, ends included."""

    low: NDArray[np.uint8]  # (slots, features)
    high: NDArray[np.uint8]  # (slots, features)

    @classmethod
    def whole(cls, grid: Grid, slots: int) -> Cells:
        """Return the cells of roots: the whole grid."""
        high = np.tile(grid.count.astype(np.uint8), (slots, 1))
        return cls(np.zeros_like(high), high)

    def split(self, feature: NDArray[np.int32], cut: NDArray[np.int64]) -> Cells:
        """Return the cells of the children, in the order of their slots."""
        slot = np.arange(len(feature))
        low, high = np.repeat(self.low, 2, axis=0), np.repeat(self.high, 2, axis=0)
        high[2 * slot, feature] = np.minimum(high[2 * slot, feature], cut)
        low[2 * slot + 1, feature] = np.maximum(low[2 * slot + 1, feature], cut + 1)
        return Cells(low, high)


def utilities(rows: Rows, cells: Cells, grid: Grid, *, criterion: str, center: FloatArray) -> FloatArray:
    """Return (slots, features * most thresholds) the utility of every candidate; -inf if there is no candidate.

    Parameters
    ----------
    center
        (slots,) private center of each slot's targets, in [0, 1]; only the vote reads it.
    """
    bins = grid.thresholds.shape[1] + 1
    out = np.full((rows.slots, rows.codes.shape[1], bins - 1), -np.inf)
    if criterion == "absolute":
        counts = histogram_by_target(rows, _steps(rows.pairs), TARGET_STEPS, bins)
        _absolute(counts, cells.low, cells.high, out)
    elif criterion == "squared":
        _squared(histogram(rows, rows.pairs, bins), cells.low, cells.high, out)
    else:
        _vote(histogram(rows, _labels(rows.pairs, rows.start, center), bins), cells.low, cells.high, out)
    return (out / UNIT).reshape(rows.slots, -1)


def choose(
    rows: Rows, cells: Cells, grid: Grid, *, criterion: str, center: FloatArray, epsilon: float, noise: Noise
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return (slots,) feature and cut of every slot by permute-and-flip; the whole level is epsilon-private."""
    scores = utilities(rows, cells, grid, criterion=criterion, center=center)
    nowhere = np.isneginf(scores).all(axis=1)
    scores[nowhere, 0] = 0.0  # a cell without thresholds: all rows go to one child
    chosen = permute_and_flip(scores, sensitivity=1.0, epsilon=epsilon, noise=noise, monotone=True)
    most = grid.thresholds.shape[1]
    return (chosen // most).astype(np.int32), (chosen % most).astype(np.int64)


def choose_at_random(cells: Cells, rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return (slots,) feature and cut of every slot without data: uniform among the thresholds of the cell."""
    room = cells.high.astype(np.int64) - cells.low
    draws = np.where(room > 0, rng.random(room.shape), -1.0)
    feature = draws.argmax(axis=1)
    slot = np.arange(len(feature))
    width = np.maximum(room[slot, feature], 1)
    cut = np.minimum(cells.low[slot, feature] + (rng.random(len(feature)) * width).astype(np.int64), 253)
    return feature.astype(np.int32), np.where(room[slot, feature] > 0, cut, cells.high[slot, feature])


def _steps(pairs: NDArray[np.int32]) -> NDArray[np.uint8]:
    weight = np.maximum(pairs.sum(axis=1), 1)
    return np.asarray(np.rint(pairs[:, 1] / weight * (TARGET_STEPS - 1)), np.uint8)


@compiled()
def _labels(pairs, start, center):  # type: ignore[no-untyped-def]
    """Return (rows, 2) the row's whole weight under its label: column 1 if y > center, else column 0."""
    out = np.zeros_like(pairs)
    for slot in range(start.shape[0] - 1):
        for row in range(start[slot], start[slot + 1]):
            weight = pairs[row, 0] + pairs[row, 1]
            out[row, 1 if pairs[row, 1] > center[slot] * weight else 0] = weight
    return out


@compiled()
def _vote(counts, low, high, out):  # type: ignore[no-untyped-def]
    for slot in range(out.shape[0]):
        for feature in range(out.shape[1]):
            here = counts[slot, feature]
            half = here[-1] / 2  # missing: half on each side
            zeros, ones = here[:-1, 0].sum(), here[:-1, 1].sum()
            left_zeros = left_ones = 0
            for cut in range(high[slot, feature]):
                left_zeros += here[cut, 0]
                left_ones += here[cut, 1]
                if cut >= low[slot, feature]:
                    left = max(left_zeros + half[0], left_ones + half[1])
                    right = max(zeros - left_zeros + half[0], ones - left_ones + half[1])
                    out[slot, feature, cut] = left + right


@compiled()
def _squared(sums, low, high, out):  # type: ignore[no-untyped-def]
    """Write -SSE plus the sum of squares, which is equal for all candidates and so changes no choice."""
    for slot in range(out.shape[0]):
        for feature in range(out.shape[1]):
            here = sums[slot, feature]
            half = here[-1] / 2
            zeros, ones = here[:-1, 0].sum() + half[0], here[:-1, 1].sum() + half[1]
            left_zeros, left_ones = half[0], half[1]
            for cut in range(high[slot, feature]):
                left_zeros += here[cut, 0]
                left_ones += here[cut, 1]
                if cut >= low[slot, feature]:
                    left, right = left_zeros + left_ones, zeros - left_zeros + half[0] + ones - left_ones + half[1]
                    score = left_ones * left_ones / left if left > 0 else 0.0
                    right_ones = ones - left_ones + half[1]
                    out[slot, feature, cut] = score + (right_ones * right_ones / right if right > 0 else 0.0)


@compiled()
def _absolute(counts, low, high, out):  # type: ignore[no-untyped-def]
    steps = counts.shape[3]
    left, right = np.empty(steps), np.empty(steps)
    for slot in range(out.shape[0]):
        for feature in range(out.shape[1]):
            here = counts[slot, feature]
            for step in range(steps):
                left[step] = here[-1, step] / 2
                right[step] = here[:, step].sum() - left[step]
            for cut in range(high[slot, feature]):
                for step in range(steps):
                    left[step] += here[cut, step]
                    right[step] -= here[cut, step]
                if cut >= low[slot, feature]:
                    out[slot, feature, cut] = -_absolute_error(left) - _absolute_error(right)


@compiled(inline="always")
def _absolute_error(weight):  # type: ignore[no-untyped-def]
    """Return the sum of weight * abs(y - median), y = step / (steps - 1).

    It equals the sum over the gaps between neighboring steps of min(weight below, weight above), over (steps - 1).
    """
    total = weight.sum()
    below = error = 0.0
    for step in range(weight.shape[0] - 1):
        below += weight[step]
        error += min(below, total - below)
    return error / (weight.shape[0] - 1)
