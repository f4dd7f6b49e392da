"""A clipping norm that follows a quantile of the norms of the nodes' changes, paid in the same account.

Each node says, beside its clipped change, whether its change was within the norm C: b = 1, or 0. The server gets both
sums with noise, and takes C * exp(-0.2 (share - quantile)) for the next round, where share is the noisy mean of b.

*One Gaussian answer.* The vector of a node is (a u / C, s (2 b - 1)) with a^2 + s^2 = 1: its L2 norm is at most 1,
whatever the node sends. Noise of standard deviation z on the sum of these vectors is one Gaussian mechanism of noise
multiplier z. It puts z C / a on the sum of changes and z / (2 s) on that of b - 1/2, which is equation 1 of the paper:
z_delta = (z^-2 - (2 sigma_b)^-2)^(-1/2). As in the paper sigma_b is a twentieth of the expected cohort, but never so
small that the changes' noise grows by more than 5 %.

Source: Andrew et al. 2021, "Differentially private learning with adaptive clipping" (arXiv:1905.03871), algorithm 1,
theorem 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedlearn.privacy.mechanisms.scale import FloatArray

WITHIN = "within_clip"  # name of the parcel that says whether a node's change was within it, as 1/2 or -1/2
RATE = 0.2  # eta_C of the paper
FRACTION = 20  # expected nodes / standard deviation of the noise on their number within, as in the paper
MOST_SHARE = 0.3  # of the vector, for b: noise of the changes grows by at most 1 / sqrt(1 - 0.09)
FARTHEST = 1e6  # times the first clipping norm, and its inverse


@dataclass(frozen=True, slots=True)
class AdaptiveClip:
    """The steps of one run.

    Parameters
    ----------
    quantile : float
        Share of the changes that are to be within the clipping norm, in (0, 1).
    noise_multiplier : float
        That of the whole vector.
    expected : int
        Expected number of nodes of a round.
    first : float
        Clipping norm of the first round.

    Examples
    --------
    >>> steps = AdaptiveClip(0.5, noise_multiplier=1.0, expected=100, first=1.0)
    >>> round(steps.share, 3), round(steps.growth, 4), round(steps.next(1.0, within=1.0), 4)
    (0.1, 1.005, 0.9048)
    """

    quantile: float
    noise_multiplier: float
    expected: int
    first: float

    @property
    def share(self) -> float:
        """The length s of the part of the vector that says b."""
        return min(self.noise_multiplier * FRACTION / (2 * self.expected), MOST_SHARE)

    @property
    def growth(self) -> float:
        """The noise on the changes, relative to that of a fixed clipping norm: 1 / a."""
        return 1 / math.sqrt(1 - self.share**2)

    def joined(self, changes: FloatArray, within: float, clip: float) -> FloatArray:
        """Return the sum of the nodes' vectors, from the sum of their changes and that of their b - 1/2."""
        return np.append(changes / (clip * self.growth), 2 * self.share * within)

    def parted(self, noisy: FloatArray, clip: float) -> tuple[FloatArray, float]:
        """Return the noisy sum of changes, and the noisy share of the expected nodes that were within."""
        return noisy[:-1] * (clip * self.growth), float(noisy[-1]) / (2 * self.share * self.expected) + 0.5

    def next(self, clip: float, within: float) -> float:
        """Return the clipping norm of the next round; a noisy share is first cut to [0, 1]."""
        step = math.exp(-RATE * (min(max(within, 0.0), 1.0) - self.quantile))
        return min(max(clip * step, self.first / FARTHEST), self.first * FARTHEST)
