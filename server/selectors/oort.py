"""Oort: nodes whose data matter most, unless they are slow; and some that have not been tried yet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedlearn.config.fields import NonNegative
from fedlearn.core.cohort import At
from fedlearn.core.seeding import rng_for
from server.selectors.selector import LearningSelector, Partitions

Share = Annotated[float, Field(ge=0, le=1)]
CLIPPED = 0.95  # quantile of the utilities above which they are equal
CUT_OFF = 0.95  # of the utility of the last one that would be taken: who has more may be drawn
UNCERTAINTY = 0.1


class Oort(LearningSelector):
    """Exploits nodes of high utility, explores others.

    The utility of a node that last took part in round L is, in round R,

        (scaled(examples * loss) + sqrt(0.1 * ln R / L)) * min(1, T / seconds) ** alpha

    where ``scaled`` goes from 0 to 1 over the known nodes, clipped at their 95 % quantile, and T is a quantile of their
    seconds. Instead of the root of the mean squared loss of a node's examples, which it would have to send, its mean
    loss is taken; T stays at its quantile (the paper's pacer moves it); new nodes are explored uniformly.

    Parameters
    ----------
    explore, decay, least
        The share of the cohort that is new: ``max(least, explore * decay ** (R - 1))``.
    preferred
        Quantile of the known seconds up to which no node is held to be slow.
    alpha
        How much slow nodes lose.

    References
    ----------
    Lai et al. 2021, "Oort: efficient federated learning via guided participant selection" (OSDI 2021,
    arXiv:2010.06081), algorithm 1 and equation 2.
    """

    goes_by_time = True
    goes_by_loss = True

    def __init__(
        self, *, clients: int, seed: int, explore: Share = 0.9, decay: Share = 0.98, least: Share = 0.2,
        preferred: Share = 0.3, alpha: NonNegative = 2.0,
    ) -> None:  # fmt: skip
        super().__init__(clients=clients, seed=seed)
        self.explore, self.decay, self.least = explore, decay, least
        self.preferred, self.alpha = preferred, alpha

    def draw(self, ready: Partitions, count: int, at: At) -> Sequence[int]:
        """Return known nodes by their utility, and new ones."""
        rng = rng_for(self.seed, purpose="selector/oort", **at._asdict())
        new, known = ready[self.tried[ready] == 0], ready[self.tried[ready] > 0]
        share = max(self.least, self.explore * self.decay ** (at.round_number - 1))
        exploited = min(len(known), count - min(len(new), round(share * count)))
        drawn: list[int] = new[rng.choice(len(new), count - exploited, replace=False)].tolist()
        if exploited:
            utility = self.utility(known, at.round_number)
            enough = CUT_OFF * np.sort(utility)[-exploited]
            pool, weight = known[utility >= enough], utility[utility >= enough] + 1e-9
            drawn += pool[rng.choice(len(pool), exploited, replace=False, p=weight / weight.sum())].tolist()
        return drawn

    def utility(self, known: Partitions, round_number: int) -> NDArray[np.float64]:
        """Return the utility of nodes that have taken part; those that were never in time have none."""
        reported = np.isfinite(self.losses[known])
        reward = np.where(reported, self.examples[known] * np.where(reported, self.losses[known], 0.0), 0.0)
        reward = np.minimum(reward, np.quantile(reward, CLIPPED))
        span = reward.max() - reward.min()
        scaled = (reward - reward.min()) / span if span else np.ones(len(known))
        uncertain = np.sqrt(UNCERTAINTY * math.log(round_number) / self.tried[known])
        seconds = self.seconds[known]
        timely = seconds[np.isfinite(seconds)]
        preferred = np.quantile(timely, self.preferred) if len(timely) else np.inf
        slow = seconds > preferred
        factor = np.where(slow, preferred / np.where(slow, seconds, 1.0), 1.0) ** self.alpha
        utility: NDArray[np.float64] = (scaled + uncertain) * factor
        return utility
