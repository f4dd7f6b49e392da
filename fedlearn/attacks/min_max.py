"""Min-Max: as far as the two honest changes that are farthest apart."""

from __future__ import annotations

import numpy as np

from fedlearn.attacks.claim import Attack, Float64
from fedlearn.attacks.moments import deviation, distances, products, repeated


def farthest(centered: Float64, direction: Float64) -> float:
    """Return the largest gamma with which the lie is no farther from any change than two changes are from each other.

    For each change c less the mean, |gamma d - c|^2 <= D^2 is a quadratic inequality; the least root counts.
    """
    along = products(centered, direction[np.newaxis])[:, 0]
    length = float(products(direction[np.newaxis], direction[np.newaxis])[0, 0])
    if not length:
        return 0.0
    room = distances(centered).max() - np.square(centered).sum(axis=1)
    return max(float(((along + np.sqrt(np.maximum(along**2 + length * room, 0.0))) / length).min()), 0.0)


class MinMax(Attack):
    """Reports the mean less gamma standard deviations of each entry, with the largest gamma that is not conspicuous.

    Source: Shejwalkar, Houmansadr 2021 (NDSS), eq. 8, with the perturbation "inverse standard deviation".
    """

    def lies(self, changes: Float64, *, attackers: int, rng: np.random.Generator) -> Float64:
        """Return the same lie for every attacker."""
        mean, direction = changes.mean(axis=0), -deviation(changes)
        return repeated(mean + farthest(changes - mean, direction) * direction, attackers)
