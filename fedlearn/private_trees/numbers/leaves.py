"""Private values of nodes: noisy sums, combined up the tree, smoothed down it; medians from histograms.

What is published is a pair of noisy sums (zeros, ones) of (1 - y, y). One record adds (1 - y, y), whose L1 norm is
exactly 1, so Laplace noise of scale 1 / epsilon on both gives count and mean together, with no minimum leaf size. For
medians the target is spread over K even knots by hat functions (weights w and 1 - w on the two knots next to y): L1
norm 1 again.

A median leaf keeps its whole distribution: a forest adds up the distributions that its trees give for a row, and takes
the median of that (`median_of_shares`), which is better than the mean of the trees' medians by 0.002 to 0.003 of the
scaled error on California Housing.

Everything else here is post-processing of published numbers and costs nothing.

* Up: a node's own sums and its children's are two estimates of one number; they are averaged by inverse variance (Hay
  et al. 2010, arXiv:0904.0942, section 4.1).
* Down: each child's mean is taken as Normal(parent's mean, spread^2), observed with its sampling variance and the known
  variance of its noise; the posterior mean leaves a small or empty child with its parent's value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy import geometric
from fedlearn.privacy.noise import Noise
from fedlearn.private_trees.numbers.histograms import UNIT, Rows, hats

FloatArray = NDArray[np.float64]

PRIOR_RECORDS = 4.0
"""Records that the parent's distribution counts for in its child's."""


@dataclass(frozen=True, slots=True, eq=False)
class NoisySums:
    """Sums of (1 - y, y) over each slot, in records, with noise of a known variance; infinite = not published."""

    sums: FloatArray  # (slots, 2)
    variance: float  # of the noise on each of the two; 0 = exact

    @classmethod
    def of(cls, sums: FloatArray, epsilon: float) -> NoisySums:
        """Return sums that got Laplace noise of scale 1 / epsilon."""
        return cls(sums, 2 / epsilon**2)

    @classmethod
    def none(cls, slots: int) -> NoisySums:
        """Return what a level says that published nothing."""
        return cls(np.zeros((slots, 2)), math.inf)

    @property
    def mean(self) -> FloatArray:
        """(slots,) the mean as published, in [0, 1]; 0.5 where the count is not above 0."""
        count = self.sums.sum(axis=1)
        mean = np.divide(self.sums[:, 1], count, out=np.full(len(count), 0.5), where=count > 0)
        return np.asarray(np.clip(mean, 0.0, 1.0))


def combined(own: NoisySums, below: NoisySums) -> NoisySums:
    """Return the best estimate from a level's own sums and those of the level below it (two slots for each here)."""
    children = below.sums.reshape(-1, 2, 2).sum(axis=1)
    variance = 2 * below.variance
    if math.isinf(own.variance) or variance == 0:
        return NoisySums(children, variance)
    share = variance / (variance + own.variance)  # of the own sums
    return NoisySums(share * own.sums + (1 - share) * children, share * own.variance)


def shrunk(observed: NoisySums, prior: FloatArray, spread: float, within: float) -> FloatArray:
    """Return (slots,) the posterior mean of each slot's mean, in [0, 1].

    With m the prior mean, D = (1 - m) ones - m zeros estimates n (mean - m), with noise variance V = v ((1 - m)^2 +
    m^2); the posterior mean is ``m + D / (n + within / spread^2 + V / (n spread^2))``.

    Parameters
    ----------
    prior
        (slots,) mean before anything was seen of the slot: its parent's.
    spread
        Prior standard deviation of the slot's mean around `prior`, > 0.
    within
        Variance of single targets inside a slot.
    """
    zeros, ones = observed.sums[:, 0], observed.sums[:, 1]
    noise = observed.variance * ((1 - prior) ** 2 + prior**2)
    count = np.maximum(zeros + ones, np.maximum(np.sqrt(noise), 1.0))
    weight = count + within / spread**2 + noise / (count * spread**2)
    return np.clip(prior + ((1 - prior) * ones - prior * zeros) / weight, 0.0, 1.0)


def smoothed_means(published: list[NoisySums], spreads: list[float], within: float) -> list[FloatArray]:
    """Return (slots,) the mean of every slot of every level, root first, from all that was published of a tree.

    Parameters
    ----------
    published
        Levels from the root to the leaves; the leaves' sums must be there.
    spreads
        For each level, the `spread` of `shrunk`.
    """
    best = [published[-1]]
    for own in reversed(published[:-1]):
        best.append(combined(own, best[-1]))
    best.reverse()
    means = [shrunk(best[0], np.full(len(best[0].sums), 0.5), spreads[0], within)]
    for level in range(1, len(best)):
        means.append(shrunk(best[level], np.repeat(means[-1], 2), spreads[level], within))
    return means


def plain_means(published: list[NoisySums]) -> list[FloatArray]:
    """Return (slots,) the means as the leaves published them, and for the levels above those of their leaves' sums."""
    best = [published[-1]]
    for _ in published[:-1]:
        best.append(NoisySums(best[-1].sums.reshape(-1, 2, 2).sum(axis=1), 2 * best[-1].variance))
    return [level.mean for level in reversed(best)]


@dataclass(frozen=True, slots=True, eq=False)
class HatCounts:
    """Noisy histograms of the target of each slot on even knots of [0, 1]."""

    counts: FloatArray  # (slots, knots), in records
    variance: float  # of the noise on each count

    def sums(self) -> NoisySums:
        """Return the sums of (1 - y, y) that the histogram implies; hat functions keep the mean exactly."""
        knots = np.linspace(0, 1, self.counts.shape[1])
        both = np.stack([self.counts @ (1 - knots), self.counts @ knots], axis=1)
        return NoisySums(both, self.variance * float((knots**2).sum()))

    def halved(self) -> HatCounts:
        """Return the histograms of the parents."""
        slots, knots = self.counts.shape
        return HatCounts(self.counts.reshape(slots // 2, 2, knots).sum(axis=1), 2 * self.variance)


def hat_counts(rows: Rows, knots: int, epsilon: float, noise: Noise) -> HatCounts:
    """Return noisy histograms of all slots: epsilon-private for the whole level, since the L1 norm of a record is 1."""
    noisy = geometric(hats(rows, knots), sensitivity=UNIT, epsilon=epsilon, noise=noise)
    return HatCounts(noisy / UNIT, 2 / epsilon**2)


def smoothed_shares(
    leaves: HatCounts, depth: int, prior_weight: float = PRIOR_RECORDS, *, smoothing: bool = True
) -> list[FloatArray]:
    """Return (slots, knots) the distribution of the target in every slot of every level, root first; rows sum to 1.

    Down the tree, a slot's distribution is that of its parent, counted as `prior_weight` records plus as many as one
    standard deviation of its own noise, plus what was published of it; counts below 0 count as 0. Without smoothing the
    parent counts for nothing but where a slot is empty.
    """
    levels = [leaves]
    for _ in range(depth):
        levels.append(levels[-1].halved())
    shares = [np.full((len(levels[-1].counts), leaves.counts.shape[1]), 1 / leaves.counts.shape[1])]
    for level, here in enumerate(reversed(levels)):
        parent = shares[-1] if level == 0 else np.repeat(shares[-1], 2, axis=0)
        weight = prior_weight + math.sqrt(here.variance * here.counts.shape[1]) if smoothing else 1e-6
        kept = np.maximum(here.counts + weight * parent, 0.0) + 1e-12
        shares.append(kept / kept.sum(axis=1, keepdims=True))
    return shares[1:]


def median_of_shares(shares: FloatArray) -> FloatArray:
    """Return (rows,) the medians, in [0, 1], of distributions on even knots, (rows, knots); linear in between."""
    knots = shares.shape[1]
    # Mass between knots j and j + 1: half of each hat that reaches into it; the outer hats reach into one gap only.
    half = shares / 2
    half[:, [0, -1]] *= 2
    gaps = half[:, :-1] + half[:, 1:]
    below = np.concatenate([np.zeros((len(shares), 1)), np.cumsum(gaps, axis=1)], axis=1)
    gap = np.minimum((below[:, 1:] < 0.5).sum(axis=1), knots - 2)
    slot = np.arange(len(shares))
    return np.asarray((gap + np.clip((0.5 - below[slot, gap]) / gaps[slot, gap], 0, 1)) / (knots - 1), np.float64)
