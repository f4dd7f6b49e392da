"""Poisson sampling: each node takes part with the same probability, independently of all others."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import ClassVar

from fedlearn.core.cohort import At
from fedlearn.core.seeding import rng_for
from server.selectors.selector import Partitions, Selector


class Poisson(Selector):
    """Draws each node with probability cohort / clients, independently; no node at all is a valid draw.

    All nodes are asked, and must be ready: the probability of one node does not depend on the others. Accounts of
    differential privacy amplify by this sampling (`fedlearn.privacy.node_costs`), as long as nobody but the server knows who
    took part. With secure noise the draw is as secret as the noise: no seed gives it.

    Parameters
    ----------
    clients, seed
        Of the run.
    is_secret
        Whether the operating system's randomness replaces the seed.

    References
    ----------
    Abadi et al. 2016, "Deep learning with differential privacy" (arXiv:1607.00133), section 2.2; of nodes: McMahan et
    al. 2018 (arXiv:1710.06963), algorithm 1.
    """

    asks_all: ClassVar[bool] = True
    may_draw_none: ClassVar[bool] = True

    def __init__(self, *, clients: int, seed: int, is_secret: bool = False) -> None:
        super().__init__(clients=clients, seed=secrets.randbits(63) if is_secret else seed)

    def draw(self, ready: Partitions, count: int, at: At) -> Sequence[int]:
        """Return the nodes whose coin, of probability ``count`` / clients, shows heads."""
        rng = rng_for(self.seed, purpose="selector/poisson", **at._asdict())
        coins = rng.random(self.clients)
        drawn: list[int] = ready[coins[ready] < count / self.clients].tolist()
        return drawn
