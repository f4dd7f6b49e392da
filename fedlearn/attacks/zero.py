"""No change at all."""

from __future__ import annotations

import numpy as np

from fedlearn.attacks.claim import Attack, Claim
from fedlearn.core.state import Array


class Zero(Attack):
    """Reports the state as it came: a node that takes part and does no work."""

    def reported(self, claim: Claim, *, memory: dict[str, Array], rng: np.random.Generator) -> Claim:
        """Return the claim without its change."""
        return claim.changed(np.zeros_like)
