"""Min-Sum: in sum as near to the honest changes as the one of them that is farthest from all."""

from __future__ import annotations

import math

import numpy as np

from fedlearn.attacks.claim import Attack, Float64
from fedlearn.attacks.moments import deviation, distances, repeated


def farthest(centered: Float64, direction: Float64) -> float:
    """Return the largest gamma with which the sum of squared distances is at most that of a change to all others."""
    length = float(np.square(direction).sum())
    if not length:
        return 0.0
    room = distances(centered).sum(axis=1).max() - np.square(centered).sum()
    return math.sqrt(max(float(room), 0.0) / (len(centered) * length))


class MinSum(Attack):
    """Reports the mean less gamma standard deviations of each entry, with the largest gamma that is not conspicuous.

    Source: Shejwalkar, Houmansadr 2021 (NDSS), eq. 9, with the perturbation "inverse standard deviation".
    """

    def lies(self, changes: Float64, *, attackers: int, rng: np.random.Generator) -> Float64:
        """Return the same lie for every attacker."""
        mean, direction = changes.mean(axis=0), -deviation(changes)
        return repeated(mean + farthest(changes - mean, direction) * direction, attackers)
