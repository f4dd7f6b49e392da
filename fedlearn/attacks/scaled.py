"""Scaling: the honest change, many times as long."""

from __future__ import annotations

import numpy as np

from fedlearn.attacks.claim import Attack, Claim, Factor
from fedlearn.core.state import Array


class Scaled(Attack):
    """Reports the change `factor` times as long; the gate refuses more than ``gate.max_ratio`` usual lengths."""

    def __init__(self, *, factor: Factor = 10.0) -> None:
        self.factor = factor

    def reported(self, claim: Claim, *, memory: dict[str, Array], rng: np.random.Generator) -> Claim:
        """Return the claim with its change times `factor`."""
        return claim.changed(lambda change: self.factor * change)
