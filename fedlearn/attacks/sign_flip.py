"""Sign flip: the opposite of the change."""

from __future__ import annotations

import numpy as np

from fedlearn.attacks.claim import Attack, Claim, Factor
from fedlearn.core.state import Array


class SignFlip(Attack):
    """Reports the opposite of the change, `scale` times as long.

    Source: Li et al. 2019 (arXiv:1811.03761), section 5.
    """

    def __init__(self, *, scale: Factor = 1.0) -> None:
        self.scale = scale

    def reported(self, claim: Claim, *, memory: dict[str, Array], rng: np.random.Generator) -> Claim:
        """Return the claim with its change times minus `scale`."""
        return claim.changed(lambda change: -self.scale * change)
