"""Mimic: all attackers copy one honest node, so that it counts too much."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from fedlearn.attacks.claim import Attack, Float64
from fedlearn.attacks.moments import products, repeated


class Mimic(Attack):
    """Reports the change of the honest node that lies farthest along the direction in which the changes differ most.

    No check of a single report can find it. The direction is that of the round; the paper keeps one of all rounds.

    Source: Karimireddy et al. 2022 (arXiv:2006.09365), appendix B.
    """

    def lies(self, changes: Float64, *, attackers: int, rng: np.random.Generator) -> Float64:
        """Return the same change for every attacker; of equals that of the lowest partition."""
        centered = changes - changes.mean(axis=0)
        with threadpool_limits(1):
            _, vectors = np.linalg.eigh(products(centered, centered))
        return repeated(changes[np.argmax(np.abs(vectors[:, -1]).round(9))], attackers)
