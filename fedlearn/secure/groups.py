"""Groups of a cohort: each has a secure sum of its own, over its own members, and drops the same entries.

The nodes of a group are one another's neighbors, and share one drop seed, so that the positions of the entries they
keep cost nothing, and a null entry carries no number: it is in no vector. A group of which too few nodes report is
discarded whole. Groups are drawn anew in each attempt, from the run's seed: no choice depends on what a node holds.

A group stands c colluders *wherever they are*: of a node's g - 1 neighbors more than
(g - 1 + c)/2 must help to open a secret. That all colluders may be in one group costs a higher threshold, and leaves
nothing to the draw, which a server could try again.

The server learns the sum of each group. Noise that is to hide a record in all sums together must be in each of them: of
G groups sqrt(G) times as much, in the mean, as one sum needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedlearn.core.cohort import At
from fedlearn.core.errors import UsageError
from fedlearn.core.seeding import rng_for, seed_for
from fedlearn.secure.level import FEWEST, Level


def groups_of(nodes: Sequence[int], *, size: int, seed: int, at: At, most: int | None = None) -> list[tuple[int, ...]]:
    """Return the groups of an attempt: of `size` nodes each, and more where these do not divide the nodes.

    Parameters
    ----------
    nodes
        Partition ids, at least `size` of them.
    size
        g, from 3.
    seed
        The run's.
    at
        Round and attempt.
    most
        Nodes of the largest group; those beyond are in none. Unless given, there is no bound.

    Returns
    -------
    list of tuple
        The partition ids of each group, the lowest first; groups by their lowest.

    Examples
    --------
    >>> [len(each) for each in groups_of(range(14), size=4, seed=1, at=At(1, 1))]
    [5, 5, 4]
    """
    rng = rng_for(seed, purpose="groups of a secure sum", round_number=at.round_number, attempt=at.attempt)
    drawn = rng.permutation(np.array(sorted(nodes)))
    count = max(len(drawn) // size, 1)
    parts = np.array_split(drawn if most is None else drawn[: count * most], count)
    return sorted(tuple(sorted(part.tolist())) for part in parts)


def drop_seed(group: Sequence[int], *, seed: int, at: At) -> int:
    """Return the seed from which all nodes of a group draw the entries that they send; `seed` is the run's."""
    return seed_for(seed, purpose="codec of a group", round_number=at.round_number, attempt=at.attempt, node=min(group))


def largest_group(size: int, *, fewest: int, most: int) -> int:
    """Return the nodes of the largest group in any cohort of `fewest` to `most` nodes.

    >>> largest_group(4, fewest=16, most=20), largest_group(4, fewest=4, most=7)
    (5, 7)
    """
    return max(math.ceil(nodes / max(nodes // size, 1)) for nodes in range(max(fewest, size), max(most, size) + 1))


def level_within(nodes: int, *, colluders: int) -> Level:
    """Return the level of a group: the lowest threshold that stands so many colluders, all of them in this group.

    Raises
    ------
    UsageError
        If a group of so few nodes stands none such.

    Examples
    --------
    >>> print(level_within(4, colluders=1))
    3 neighbors, threshold 3
    """
    threshold = (nodes - 1 + colluders) // 2 + 1
    if nodes < FEWEST or threshold > nodes - 1:
        raise UsageError(
            f"secure.group_size = {nodes}: a group stands at most {max(nodes - 2, 0)} colluders, all of them in it, "
            f"and secure.colluders = {colluders}: take larger groups"
        )
    return Level(nodes, nodes - 1, threshold, colluders)


def standing(level: Level, dropouts: float) -> float:
    """Return the probability that a group is summed where each of its nodes is lost with a probability.

    So many must report that each has `threshold` others, and so many sign.

    >>> round(standing(level_within(4, colluders=0), 0.1), 4)
    0.9477
    """
    least = max(level.threshold + 1, level.signers)
    return sum(
        math.comb(level.nodes, stay) * (1 - dropouts) ** stay * dropouts ** (level.nodes - stay)
        for stay in range(least, level.nodes + 1)
    )


def coverage(keep_ratio: float, *, groups: int, standing: float = 1.0, senders: int = 1) -> float:
    """Return the expected share of entries that at least so many groups send; one of them: ``1 - (1 - p s)^G``.

    Parameters
    ----------
    keep_ratio
        p: share of the entries that a group sends.
    groups
        G = floor(n / g).
    standing
        s: probability that a group is not discarded.
    senders
        How many groups must send an entry.

    Examples
    --------
    >>> [round(coverage(0.1, groups=n // g), 4) for n, g in [(20, 4), (20, 5), (100, 4), (100, 10)]]
    [0.4095, 0.3439, 0.9282, 0.6513]
    >>> [round(coverage(0.25, groups=n // g), 4) for n, g in [(20, 4), (100, 4)]]
    [0.7627, 0.9992]
    >>> round(coverage(0.5, groups=4, senders=3), 4)
    0.3125
    """
    sent = keep_ratio * standing
    fewer = (math.comb(groups, count) * sent**count * (1 - sent) ** (groups - count) for count in range(senders))
    return 1 - sum(fewer)
