"""Depth of a tree and budget of each level: a fixed rule of epsilon, a public number of records and the depth.

A share `leaf_share` of epsilon goes to the leaves. The rest goes to the G greedy levels in *harmonic* shares 1 / (G -
level): deeper levels have smaller nodes and get more (as in the one-page paper on permute-and-flip forests). A share
`center_share` of a level's budget pays for the node's center, if the criterion needs one (only the vote does); the rest
pays for the choice. The leaf gets exactly the remainder, so a path spends exactly epsilon in spite of rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fedlearn.privacy import PrivacyAccountant

LEAF_SHARE = 0.45
CENTRE_SHARE = 0.2
N_SHARE = 0.02
"""Share of epsilon for the release of the number of records, if it is not declared."""


@dataclass(frozen=True, slots=True)
class TreePlan:
    """The levels of a tree and their budgets, made by `plan_for`.

    Parameters
    ----------
    criterion : {"vote", "squared", "absolute", "random"}
        Criterion of the splits.
    leaf : {"mean", "median"}
        Statistic of the leaves.
    choice_epsilons : tuple of float
        Privacy loss of the choice of a split, on each greedy level.
    center_epsilons : tuple of float
        Privacy loss of the center of a node, on each greedy level; 0: none is published.
    random_levels : int
        Levels below the greedy ones, whose splits look at no data.
    leaf_epsilon : float
        Privacy loss of the leaves.
    knots : int, default=11
        Knots of the leaves' histograms.
    within : float, default=0.02
        Public guess of the targets' variance inside a node, the target scaled to [0, 1].
    first_spread : float, default=0.25
        Public guess of the standard deviation of a root's mean around 0.5.
    level_spread : float, default=0.25
        Public guess of the standard deviation of a child's mean around its parent's, right below the root.
    spread_decay : float, default=0.9
        Factor of `level_spread` from one level to the next.

    Examples
    --------
    >>> plan = plan_for(1.0, greedy_levels=2, random_levels=1, criterion="squared")
    >>> plan.depth, round(plan.epsilon, 9)
    (3, 1.0)
    >>> [(what, round(epsilon, 2)) for epsilon, what, level in plan.lines()][-1]
    ('value of the leaf, mean', 0.45)
    """

    criterion: str
    leaf: str
    choice_epsilons: tuple[float, ...]
    center_epsilons: tuple[float, ...]
    random_levels: int
    leaf_epsilon: float
    knots: int = 11
    within: float = 0.02
    first_spread: float = 0.25
    level_spread: float = 0.25
    spread_decay: float = 0.9

    @property
    def greedy_levels(self) -> int:
        """Number of levels whose splits look at the data."""
        return len(self.choice_epsilons)

    @property
    def depth(self) -> int:
        """Number of levels of splits."""
        return self.greedy_levels + self.random_levels

    def spread(self, level: int) -> float:
        """Return the prior standard deviation of a mean on this level around its parent's; the root is level 0."""
        return self.first_spread if level == 0 else self.level_spread * self.spread_decay ** (level - 1)

    @property
    def spreads(self) -> list[float]:
        """The `spread` of all levels, leaves included."""
        return [self.spread(level) for level in range(self.depth + 1)]

    def lines(self) -> Iterator[tuple[float, str, int]]:
        """Yield (epsilon, purpose, level) of every release on a path."""
        for level, (center, choice) in enumerate(zip(self.center_epsilons, self.choice_epsilons, strict=True)):
            if center > 0:
                yield center, "center of the node", level
            yield choice, f"choice of the split, {self.criterion}", level
        yield self.leaf_epsilon, f"value of the leaf, {self.leaf}", self.depth

    @property
    def epsilon(self) -> float:
        """Privacy loss of a path."""
        return math.fsum(epsilon for epsilon, _, _ in self.lines())

    def spend_from(self, accountant: PrivacyAccountant, *, is_secure: bool) -> None:
        """Book every line; the caller has checked that the account covers all of them."""
        for epsilon, what, level in self.lines():
            accountant.spend(epsilon, what=what, level=level, is_secure=is_secure)


def greedy_levels_for(epsilon: float, n: float, *, offset: float, smallest: float) -> int:
    """Return the number of levels that look at the data: ``log2(epsilon n) - offset``, rounded, at least 1.

    A choice by permute-and-flip is good if the node's utilities differ by some multiple of 1 / epsilon, so epsilon
    times the records of a node decides. `offset` is the number of doublings of this product that a tree of one level
    needs. If epsilon is large, nodes of fewer than `smallest` records on average are not split any further.

    >>> [greedy_levels_for(epsilon, 743, offset=6.2, smallest=2) for epsilon in (0.25, 1, 4, 16, 64)]
    [1, 3, 5, 7, 8]
    """
    records = max(n, 1.0)
    most = max(math.floor(math.log2(records / smallest)), 1)
    if math.isinf(epsilon):
        return most
    return min(max(round(math.log2(epsilon * records) - offset), 1), most)


def plan_for(
    epsilon: float,
    *,
    greedy_levels: int,
    random_levels: int,
    criterion: str = "vote",
    leaf: str = "mean",
    leaf_share: float = LEAF_SHARE,
    center_share: float = CENTRE_SHARE,
    **guesses: Any,
) -> TreePlan:
    """Return the plan that spends exactly `epsilon` along every path."""
    if math.isinf(epsilon):
        every = (math.inf,) * greedy_levels
        centers = every if criterion == "vote" else (0.0,) * greedy_levels
        return TreePlan(criterion, leaf, every, centers, random_levels, math.inf, **guesses)
    harmonic = [1 / (greedy_levels - level) for level in range(greedy_levels)]
    levels = [epsilon * (1 - leaf_share) * share / sum(harmonic) for share in harmonic]
    centers = tuple(center_share * level if criterion == "vote" else 0.0 for level in levels)
    choices = tuple(level - center for level, center in zip(levels, centers, strict=True))
    rest = epsilon - math.fsum([*choices, *centers])
    return TreePlan(criterion, leaf, choices, centers, random_levels, rest, **guesses)
