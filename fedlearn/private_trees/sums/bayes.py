"""Naive Bayes on noisy counts: post-processing of one release.

Source: Laplace counts for naive Bayes, Vaidya, Shafiq, Basu, Hong 2013 (doi:10.1109/WI-IAT.2013.80), with a bound in
the L1 norm over all columns; the grouping and shrinking of counts are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy import Noise, geometric
from fedlearn.private_trees.sums.additive import FloatArray
from fedlearn.private_trees.sums.views import Codes, Views
from fedlearn.private_trees.weights import Whole

GROUPS = 12  # largest number of groups of a numeric column's bins


def counts_of(codes: Codes, labels: FloatArray, views: Views, classes: int, whole: Whole = None) -> NDArray[np.int64]:
    """Return (cells of all views side by side, classes) the number of records, or their weight in UNITs.

    A record lies in one cell of each view: one record changes the counts, in the L1 norm, by the number of views, or by
    that many UNITs.
    """
    starts = starts_of(views)
    out = np.zeros((int(starts[-1]), classes), np.int64)
    label = labels.astype(np.int64)
    for view, (first, last) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        cell = codes[view].astype(np.int64) * classes + label
        of_view = np.bincount(cell, whole, minlength=(last - first) * classes)  # sums below 2^53 are exact as floats
        out[first:last] = of_view.reshape(-1, classes)
    return out


def starts_of(views: Views) -> NDArray[np.int64]:
    """Return (views + 1,) the first cell of each view, and the number of cells."""
    return np.cumsum([0, *(views.sizes + 1)])


def released_counts(
    counts: NDArray[np.int64], views: Views, *, epsilon: float, noise: Noise, unit: int = 1
) -> NDArray[np.number[Any]]:
    """Return the counts with geometric noise, in records; epsilon-private in all, add or remove one record.

    `unit` is the count of the heaviest record; `counts_of` has the sensitivity.
    """
    released = geometric(counts, sensitivity=unit * max(len(views.sizes), 1), epsilon=epsilon, noise=noise)
    return released if unit == 1 else released / unit


@dataclass(frozen=True, slots=True, eq=False)
class BayesTables:
    """The release of naive Bayes."""

    prior: FloatArray  # (classes,) logarithms of shares
    steps: tuple[FloatArray, ...]  # of each view (size + 1, classes): logarithms of ratios

    def score(self, codes: Codes) -> FloatArray:
        """Return (rows, classes) logarithms of probabilities, up to a constant for each row."""
        total = np.tile(self.prior, (codes.shape[1], 1))
        for view, step in enumerate(self.steps):
            total += step[codes[view]]
        return total


def tables_of(
    released: NDArray[np.number[Any]], views: Views, variance: float, start: FloatArray | None = None
) -> BayesTables:
    """Return the tables from released counts (cells, classes) with noise of the given variance; reads no data.

    `start`: (classes,) the records of each class, if they were released separately. Ratios are then shrunk towards 0,
    by the number of records that a group would have if records were spread evenly, compared with its noise.
    """
    starts = starts_of(views)
    parts = [released[a:b].astype(np.float64) for a, b in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)]
    totals = np.mean([part.sum(axis=0) for part in parts], axis=0) if parts else np.ones(released.shape[1])
    totals = totals if start is None else start
    shares = np.maximum(totals, 1.0) / np.maximum(totals, 1.0).sum()
    steps = []
    for part, edges in zip(parts, views.edges, strict=True):
        group = np.arange(len(part)) if edges is None else groups_of(part.sum(axis=1), variance * part.shape[1])
        ratios = _ratios(part, group, shares, variance)[group]
        if start is not None:
            groups = int(group.max()) + 1
            usual = max(float(start.sum()), 0.0) / groups / part.shape[1]
            ratios *= usual**2 / (usual**2 + 2 * variance * len(part) / groups)
        steps.append(ratios)
    return BayesTables(np.log(shares), tuple(steps))


def groups_of(counts: FloatArray, variance: float) -> NDArray[np.int64]:
    """Return (bins,) the group of each bin: adjacent bins, about equally many records in each group, more than noise.

    The last bin, for missing values, is a group of its own.

    >>> groups_of(np.array([90.0, 1.0, 2.0, 3.0, 40.0, 5.0]), variance=1.0).tolist()
    [0, 1, 1, 1, 1, 2]
    """
    kept = np.maximum(counts[:-1], 0.0)
    least = max(kept.sum() / GROUPS, 2 * np.sqrt(variance))
    group, here, number = np.zeros(len(counts), np.int64), 0.0, 0
    for bin_, count in enumerate(kept):
        group[bin_] = number
        here += count
        if here >= least:
            number, here = number + 1, 0.0
    group[-1] = group[-2] + 1 if len(counts) > 1 else 0
    return group


def _ratios(part: FloatArray, group: NDArray[np.int64], shares: FloatArray, variance: float) -> FloatArray:
    """Return (groups, classes) logarithms of P(class | group) / P(class), shrunk towards 0 according to the noise."""
    sums = np.zeros((int(group.max()) + 1, part.shape[1]))
    np.add.at(sums, group, part)
    bins = np.bincount(group)[:, None]
    doubt = 1 + np.sqrt(2 * variance * bins)  # pseudo-records distributed as the prior
    within = np.clip(sums, 0.0, None)
    return np.asarray(np.log((within + doubt * shares) / (within.sum(axis=1, keepdims=True) + doubt) / shares))
