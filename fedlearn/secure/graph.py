"""The graph of one attempt: which nodes mask with which, and hold shares of one another's secrets.

Source: Bell et al. 2020 (arXiv:2007.06056 in its long form, ePrint 2020/704), whose sparse graph is a Harary graph with
its nodes in random order: on a ring, each node has the k/2 nodes on either side as neighbors. The order follows from
the SHA-256 of all that the nodes have advertised: every node computes it, and no one of them, nor the server, draws it.

Why a ring, and why t > (k + c)/2 is all that a node must look at. A server finds the seed of a node's own mask if t of
the node's k neighbors help: honest ones that have signed the one set of survivors and masked with the sharers in it,
or colluders. It reads two sums, rather than one, if the honest helpers fall apart: where the ring has two rows of k/2
nodes in which none helps but colluders. A node beside such a row has at most the k/2 helpers of its other side and the
colluders in the row: t - k/2 of them or more, in either row, 2 t - k in both.

A node that was told of other sharers has masked with t neighbors or more. Of its t helpers at most c are colluders, and
at most k - t are nodes with which it has not masked: 2 t - k - c, one at least, are honest nodes with which it has, and
its report cannot be read without theirs. So no lie about lost nodes or sharers separates a node from the others.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from fedlearn.secure.question import bits_of


@dataclass(frozen=True, slots=True)
class Graph:
    """Who is whose neighbor; a node is known by its position in the roster.

    Parameters
    ----------
    beside
        For each position the set of its neighbors, as bits (`question.bits_of`).
    """

    beside: tuple[int, ...]

    @classmethod
    def drawn(cls, seed: bytes, *, nodes: int, neighbors: int) -> Graph:
        """Return the graph that a seed determines.

        Parameters
        ----------
        seed
            The digest of the roster.
        nodes
            From 2.
        neighbors
            k: even, or nodes - 1, where each node is the neighbor of every other.
        """
        if neighbors >= nodes - 1:
            everyone = (1 << nodes) - 1
            return cls(tuple(everyone ^ (1 << position) for position in range(nodes)))
        order = sorted(range(nodes), key=lambda each: hashlib.sha256(seed + each.to_bytes(4, "big")).digest())
        beside, half = [0] * nodes, neighbors // 2
        for place, position in enumerate(order):
            around = (order[(place + away) % nodes] for away in (*range(-half, 0), *range(1, half + 1)))
            beside[position] = bits_of(around)
        return cls(tuple(beside))

    def neighbors(self, position: int, *, among: int = -1) -> tuple[int, ...]:
        """Return the neighbors of a node, the lowest position first; `among` is a set as bits, -1 for all."""
        bits, found = self.beside[position] & among, []
        while bits:
            lowest = bits & -bits
            found.append(lowest.bit_length() - 1)
            bits ^= lowest
        return tuple(found)

    def degree(self, position: int, *, among: int) -> int:
        """Return how many neighbors of a node are in a set."""
        return (self.beside[position] & among).bit_count()
