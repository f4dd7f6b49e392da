"""Games of coalitions: leave-one-out, Shapley values, and their estimate by permutations.

A game gives each set of players a value. The Shapley value of player i is its mean marginal contribution

    phi_i = sum over S without i of |S|! (n - |S| - 1)! / n! * (v(S + i) - v(S))

It is the only division of v(all) - v(none) that is efficient, symmetric, additive, and gives a dummy nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from fedlearn.core.seeding import rng_for

MOST_EXACT = 10  # players, of 1,024 coalitions
Value = Callable[[frozenset[int]], float]


class Share(NamedTuple):
    """The value of one player, with the standard error of its estimate; 0 of an exact one."""

    value: float
    error: float = 0.0


def leave_one_out(players: Sequence[int], value: Value) -> dict[int, float]:
    """Return what the value of all loses without each player.

    >>> leave_one_out([0, 1], lambda coalition: len(coalition) ** 2)
    {0: 3, 1: 3}
    """
    everyone = frozenset(players)
    return {player: value(everyone) - value(everyone - {player}) for player in players}


def shapley(players: Sequence[int], value: Value) -> dict[int, Share]:
    """Return the exact Shapley values; every coalition is valued once.

    >>> shapley([0, 1, 2], lambda coalition: float({0, 1} <= coalition))
    {0: Share(value=0.5, error=0.0), 1: Share(value=0.5, error=0.0), 2: Share(value=0.0, error=0.0)}
    """
    known, count = cache(value), len(players)
    found = dict.fromkeys(players, 0.0)
    for size in range(count):
        share = 1 / (count * comb(count - 1, size))
        for player in players:
            others = [each for each in players if each != player]
            gains = (known(frozenset({*each, player})) - known(frozenset(each)) for each in combinations(others, size))
            found[player] += share * sum(gains)
    return {player: Share(value) for player, value in found.items()}


def sampled(players: Sequence[int], value: Value, *, permutations: int, seed: int) -> dict[int, Share]:
    """Return estimates of Shapley values: the mean marginal contribution over random orders of the players.

    They are unbiased, and their sum is exact: each order divides v(all) - v(none).

    References
    ----------
    Castro et al. 2009, "Polynomial calculation of the Shapley value based on sampling", algorithm 1.
    """
    known = cache(value)
    rng = rng_for(seed, purpose="permutations of clients")
    gains = np.empty((permutations, len(players)))
    for row in gains:
        coalition: frozenset[int] = frozenset()
        for place in rng.permutation(len(players)):
            larger = coalition | {players[place]}
            row[place] = known(larger) - known(coalition)
            coalition = larger
    errors = gains.std(axis=0, ddof=1) / np.sqrt(permutations)
    means = gains.mean(axis=0)
    return {player: Share(float(means[i]), float(errors[i])) for i, player in enumerate(players)}
