"""The drop-out level: how many neighbors, which threshold, against how many colluders and lost nodes.

Every probability is computed exactly, in whole numbers, from the hypergeometric distribution: colluders and lost nodes
are so many of the n nodes, anywhere on the ring. A union over the nodes (or rows of nodes) bounds what is said.

*Privacy.* A server opens the report of one node if it gets t shares of both of the node's secrets from its k neighbors.
An honest neighbor gives one of the two, a colluder both: that takes 2 t - k colluders among them. A server that calls
nodes lost until the honest survivors fall apart into two sums needs two rows of k/2 nodes on the ring, with t - k/2
colluders in each (`graph`): 2 t - k colluders among k nodes again. So t > (k + c)/2, never half or below, is enough
wherever all c colluders are; a lower t, if of the n neighborhoods and n (n - 1)/2 pairs of rows none holds so many.

*Success.* With d nodes lost, every secret is found if each node has at least t neighbors that stay.

*One set.* Each survivor signs the set of survivors once; more than (n + c)/2 signatures cannot be on two sets.

>>> print(chosen(100, colluders=10, dropouts=0.1))
32 neighbors, threshold 22: 100 clients, 10 colluders never open an update; 10 lost clients never spoil the sum
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedlearn.core.errors import UsageError

SECURITY, SUCCESS = 40, 20  # bits: a report is opened with at most 2^-40, a sum fails with at most 2^-20
FEWEST = 3  # a sum of two nodes tells each of them what the other has sent


def tail(draws: int, *, marked: int, of: int, least: int) -> float:
    """Return log2 of the probability of at least so many marked ones among draws without replacement.

    >>> tail(2, marked=2, of=4, least=2) == math.log2(1 / 6)
    True
    """
    least = max(least, 0, draws - (of - marked))
    term = math.comb(marked, least) * math.comb(of - marked, draws - least)
    ways = 0
    for hit in range(least, draws + 1):
        ways += term
        term = term * (marked - hit) * (draws - hit) // ((hit + 1) * (of - marked - draws + hit + 1))
    return math.log2(ways) - math.log2(math.comb(of, draws)) if ways else -math.inf


@dataclass(frozen=True, slots=True)
class Level:
    """What an attempt is protected against.

    Parameters
    ----------
    nodes
        n, the nodes of the roster.
    neighbors
        k: even, or n - 1.
    threshold
        t: so many neighbors must help to find a secret; fewer reveal nothing.
    colluders
        c: so many of the nodes may tell the server all that they know.

    Raises
    ------
    UsageError
        If it protects no node.
    """

    nodes: int
    neighbors: int
    threshold: int
    colluders: int = 0

    def __post_init__(self) -> None:
        if self.nodes < FEWEST:
            raise UsageError(f"secure sums of {self.nodes} clients: at least {FEWEST} must take part")
        if not 0 <= self.colluders <= self.nodes - 2:
            raise UsageError(f"secure.colluders = {self.colluders}: of {self.nodes} clients two must be honest")
        if not (self.is_complete or (2 <= self.neighbors < self.nodes and self.neighbors % 2 == 0)):
            raise UsageError(f"neighbors = {self.neighbors}: must be even, or all {self.nodes - 1} other clients")
        if not self.neighbors < 2 * self.threshold <= 2 * self.neighbors:
            raise UsageError(f"threshold = {self.threshold}: of {self.neighbors} neighbors more than half must help")
        if self.is_complete and 2 * self.threshold <= self.neighbors + self.colluders:
            raise UsageError(
                f"threshold = {self.threshold}: of {self.neighbors} neighbors with {self.colluders} colluders "
                f"more than {(self.neighbors + self.colluders) / 2:g} must help"
            )

    @property
    def is_complete(self) -> bool:
        """Whether each node is the neighbor of every other."""
        return self.neighbors == self.nodes - 1

    @property
    def signers(self) -> int:
        """Number of nodes that must sign the same set of survivors: more than (n + c)/2."""
        return (self.nodes + self.colluders) // 2 + 1

    @property
    def opened(self) -> float:
        """log2 of a bound of the probability that colluders and the server open less than the sum; -inf for never."""
        if 2 * self.threshold > self.neighbors + self.colluders:
            return -math.inf
        places = math.log2(self.nodes * (self.nodes + 1) // 2)
        least = 2 * self.threshold - self.neighbors
        return min(tail(self.neighbors, marked=self.colluders, of=self.nodes - 1, least=least) + places, 0.0)

    def spoiled(self, lost: int) -> float:
        """Return log2 of a bound of the probability that so many lost nodes leave no sum; -inf for never."""
        if self.nodes - lost < self.signers:
            return 0.0
        too_many = self.neighbors - self.threshold + 1
        at_one = tail(self.neighbors, marked=lost, of=self.nodes - 1, least=too_many)
        return min(at_one + math.log2(self.nodes), 0.0)

    def __str__(self) -> str:
        return f"{self.neighbors} neighbors, threshold {self.threshold}"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A level, the nodes that may be lost, and in one line what was computed of both."""

    level: Level
    lost: int

    def __str__(self) -> str:
        level = self.level
        opened, spoiled = level.opened, level.spoiled(self.lost)
        private = "never open an update" if opened == -math.inf else f"open an update with at most 2^{opened:.0f}"
        works = "never spoil the sum" if spoiled == -math.inf else f"spoil the sum with at most 2^{spoiled:.0f}"
        return (
            f"{level}: {level.nodes} clients, {level.colluders} colluders {private}; {self.lost} lost clients {works}"
        )


def chosen(
    nodes: int, *, colluders: int = 0, dropouts: float = 0.1, security: int = SECURITY, success: int = SUCCESS
) -> Chosen:
    """Return the level with the fewest neighbors, and the lowest threshold for them, that stands.

    Parameters
    ----------
    nodes
        n, from 3.
    colluders
        c: so many of the nodes may work with the server.
    dropouts
        Share of the nodes that may be lost in the course of a round, in [0, 1); rounded up to whole nodes.
    security
        Bits: a report is opened with a probability of at most 2^-security.
    success
        Bits: the sum fails with a probability of at most 2^-success where so many nodes are lost.

    Raises
    ------
    UsageError
        If no level stands, in one line that says what to change.
    """
    if nodes < FEWEST:
        raise UsageError(f"secure sums of {nodes} clients: at least {FEWEST} must take part")
    if not 0 <= colluders <= nodes - 2:
        raise UsageError(f"secure.colluders = {colluders}: of {nodes} clients two must be honest")
    if not 0 <= dropouts < 1:
        raise UsageError(f"secure.dropouts = {dropouts}: must be a share of the clients, from 0 to below 1")
    lost = math.ceil(round(nodes * dropouts, 9))
    for neighbors in [*range(2, nodes - 1, 2), nodes - 1]:
        level = _lowest(nodes, neighbors, colluders, security)
        if level is not None and level.spoiled(lost) <= -success:
            return Chosen(level, lost)
    raise UsageError(
        f"secure.dropouts = {dropouts}: no threshold above half stands {lost} lost clients and {colluders} colluders "
        f"of {nodes}: allow fewer of either, or take more clients"
    )


def _lowest(nodes: int, neighbors: int, colluders: int, security: int) -> Level | None:
    """Return the level of the lowest threshold that is secure; None where none is."""
    below, enough = neighbors // 2, min((neighbors + colluders) // 2 + 1, neighbors + 1)
    while enough - below > 1:  # the probability falls with the threshold
        middle = (below + enough) // 2
        if neighbors < nodes - 1 and Level(nodes, neighbors, middle, colluders).opened <= -security:
            enough = middle
        else:
            below = middle
    return Level(nodes, neighbors, enough, colluders) if enough <= neighbors else None
