"""Tiers: nodes of about the same speed in each round, so that none waits long for another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from fedlearn.core.cohort import At
from fedlearn.core.seeding import rng_for
from server.selectors.selector import LearningSelector, Partitions


class Tiers(LearningSelector):
    """Draws a tier of speeds, each as likely, and the cohort from it.

    Nodes that have never taken part come first, as their speed is not known. A tier with fewer nodes than are wanted is
    filled up with the next ones.

    Parameters
    ----------
    tiers
        How many.

    References
    ----------
    Chai et al. 2020, "TiFL: a tier-based federated learning system" (arXiv:2001.09249), section 4.2 (the policy
    "uniform"; profiling is done by the first rounds).
    """

    goes_by_time = True

    def __init__(self, *, clients: int, seed: int, tiers: Annotated[int, Field(ge=1)] = 5) -> None:
        super().__init__(clients=clients, seed=seed)
        self.tiers = tiers

    def draw(self, ready: Partitions, count: int, at: At) -> Sequence[int]:
        """Return new nodes, and nodes of one tier."""
        rng = rng_for(self.seed, purpose="selector/tiers", **at._asdict())
        new, known = ready[self.tried[ready] == 0], ready[self.tried[ready] > 0]
        drawn: list[int] = new[rng.choice(len(new), min(len(new), count), replace=False)].tolist()
        wanted = count - len(drawn)
        if wanted:
            by_speed = known[np.argsort(self.seconds[known], kind="stable")]
            size = -(-len(known) // self.tiers)
            begin = min(size * int(rng.integers(self.tiers)), len(known) - max(size, wanted))
            tier = by_speed[begin : begin + max(size, wanted)]
            drawn += tier[rng.choice(len(tier), wanted, replace=False)].tolist()
        return drawn
