"""Power of choice: of some nodes drawn at random, those with the largest loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from fedlearn.core.cohort import At
from fedlearn.core.seeding import rng_for
from server.selectors.selector import LearningSelector, Partitions

Times = Annotated[float, Field(ge=1, allow_inf_nan=False)]


class PowerOfChoice(LearningSelector):
    """Draws candidates by their numbers of examples, and takes those with the largest loss.

    The variant "rpow-d", which asks nodes for nothing: the loss is that of a node's last training, and infinite before
    it has trained. Where a node's number of examples is not known yet, it is taken for the mean of those that are.

    Parameters
    ----------
    candidates
        For each node that is wanted, at least 1: d / m of the paper.

    References
    ----------
    Cho et al. 2020, "Client selection in federated learning: convergence analysis and power-of-choice selection
    strategies" (arXiv:2010.01243), section 4.
    """

    goes_by_loss = True

    def __init__(self, *, clients: int, seed: int, candidates: Times = 2.0) -> None:
        super().__init__(clients=clients, seed=seed)
        self.candidates = candidates

    def draw(self, ready: Partitions, count: int, at: At) -> Sequence[int]:
        """Return the candidates with the largest loss; of equal ones those that were drawn first."""
        rng = rng_for(self.seed, purpose="selector/power-of-choice", **at._asdict())
        known = self.examples[self.examples > 0]
        weight = np.where(self.examples > 0, self.examples, known.mean() if len(known) else 1.0)[ready]
        wanted = min(len(ready), max(count, round(self.candidates * count)))
        drawn = ready[rng.choice(len(ready), wanted, replace=False, p=weight / weight.sum())]
        largest: list[int] = drawn[np.argsort(-self.losses[drawn], kind="stable")][:count].tolist()
        return largest
