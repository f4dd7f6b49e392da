"""Lies about the number of examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedlearn.attacks.claim import Attack, Claim, Factor
from fedlearn.core.state import Array


class ManyExamples(Attack):
    """Claims `factor` times as many examples as the node has, at least one; the change stays honest."""

    def __init__(self, *, factor: Factor = 10.0) -> None:
        self.factor = factor

    def reported(self, claim: Claim, *, memory: dict[str, Array], rng: np.random.Generator) -> Claim:
        """Return the claim with another number of examples."""
        return replace(claim, num_examples=max(1, round(self.factor * claim.num_examples)))
