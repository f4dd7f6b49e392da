"""Ranked: each draw of a node is independent of all other nodes, so that a node can be forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from fedlearn.core.cohort import At
from fedlearn.core.seeding import rng_for
from server.selectors.selector import Partitions, Selector


class Ranked(Selector):
    """Gives each node a rank, and draws the first of those that are ready.

    The rank of node i is the i-th number of a stream keyed by a hash of seed, round and attempt. No node changes the
    rank of another: without one node of a cohort, the cohort is the others and the next node in the order of ranks.
    Nodes are invited in the same order. Each cohort is as likely as by `uniform`.

    Parameters
    ----------
    clients, seed
        Of the run.

    Examples
    --------
    >>> ranked, ready = Ranked(clients=9, seed=1), np.arange(9)
    >>> drawn = ranked.draw(ready, 3, At(1, 1))
    >>> others = ranked.draw(np.setdiff1d(ready, drawn[:1]), 3, At(1, 1))
    >>> others[:2] == drawn[1:]
    True
    """

    invites_as_drawn: ClassVar[bool] = True

    def draw(self, ready: Partitions, count: int, at: At) -> Sequence[int]:
        """Return the ready nodes of the lowest ranks, in the order of ranks."""
        ranks = rng_for(self.seed, purpose="selector/ranked", **at._asdict()).integers(1 << 63, size=self.clients)
        drawn: list[int] = ready[np.argsort(ranks[ready], kind="stable")[:count]].tolist()
        return drawn
