"""Gaussian noise in place of the change."""

from __future__ import annotations

import math

import numpy as np

from fedlearn.attacks.claim import Attack, Claim, Factor, Float64
from fedlearn.core.state import Array


class Gaussian(Attack):
    """Reports normal noise in place of each parameter's change, expected to be `factor` times as long.

    Source: Blanchard et al. 2017 (arXiv:1703.02757), section 5, there with a fixed deviation.
    """

    def __init__(self, *, factor: Factor = 1.0) -> None:
        self.factor = factor

    def reported(self, claim: Claim, *, memory: dict[str, Array], rng: np.random.Generator) -> Claim:
        """Return the claim with noise of the root mean square of each parameter's change, times `factor`."""
        return claim.changed(lambda change: rng.normal(0.0, self.factor * _root_mean_square(change), change.shape))


def _root_mean_square(change: Float64) -> float:
    return math.sqrt(np.square(change).sum() / max(change.size, 1))
