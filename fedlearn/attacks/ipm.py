"""Inner product manipulation: a lie that turns the mean around."""

from __future__ import annotations

import numpy as np

from fedlearn.attacks.claim import Attack, Factor, Float64
from fedlearn.attacks.moments import repeated


class Ipm(Attack):
    """Reports the mean of the honest changes times minus `tau`.

    Source: Xie et al. 2020 (arXiv:1903.03936), section 4.
    """

    def __init__(self, *, tau: Factor = 2.0) -> None:
        self.tau = tau

    def lies(self, changes: Float64, *, attackers: int, rng: np.random.Generator) -> Float64:
        """Return the same lie for every attacker."""
        return repeated(-self.tau * changes.mean(axis=0), attackers)
