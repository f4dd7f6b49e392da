"""Audit cases of the regression trees: neighboring data sets whose outputs differ as much as we can make them.

*Isolated* cases run one step of the tree's own code on many copies of one small node at once, so a hundred thousand
draws take a second. *Whole* cases grow as many trees at once, and watch everything that is published on the path of one
record. Their event: every published number lies on the side that the record makes unlikely. Each number then loses its
whole share of epsilon, so the tree loses all of it. Whole cases have one greedy level, as the event is too rare with
more; the exact auditor (`numbers_replays.py`) covers deeper trees.

The planted bugs test the auditor itself: it must refute them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.auditing.cases import AuditCase, Release
from fedlearn.privacy.noise import Noise
from fedlearn.private_trees.binning import Grid
from fedlearn.private_trees.domain import Domain
from fedlearn.private_trees.numbers.forest_growing import Grown, grow, noisy_sums
from fedlearn.private_trees.numbers.histograms import Rows, arrange, pairs_of
from fedlearn.private_trees.numbers.leaves import hat_counts, plain_means
from fedlearn.private_trees.numbers.relay import relay_plan
from fedlearn.private_trees.numbers.splitting import Cells, choose
from fedlearn.private_trees.numbers.tree_plan import TreePlan, plan_for
from fedlearn.private_trees.numbers.voted import grow_voted

GRID = Grid.of(Domain.declare(num_features=1, bounds=(0, 1)), candidates=2)
PATH_GRID = Grid.of(Domain.declare(num_features=3, bounds=(0, 1)), candidates=1)
Record = tuple[float | tuple[float, ...], float]  # (x, y), all in [0, 1]

# One candidate separates the record from the crowd, the other does not: the record moves the first one's utility alone.
CROWD: list[Record] = [(0.1, 0.0)]
LONE: list[Record] = [*CROWD, (0.5, 1.0)]  # the last record is the one that is added or removed
MANY: list[Record] = [
    (0.1, 0.0)
] * 20  # squared errors: the larger the crowd, the more one distant record adds to their sum
ONE_OTHER: list[Record] = [*MANY, (0.5, 1.0)]
EMPTY: list[Record] = []
ONE: list[Record] = [(0.9, 1.0)]

# The last record goes left at every split. The bystanders make the votes of all three features even
# without it. With it features 0 and 2 have one vote more, and so has feature 0 to the left of feature 1:
# a root on feature 1 with a left child on feature 2 are unlikely by both choices' whole epsilon.
BYSTANDERS: list[Record] = [((0.9, 0.1, 0.1), 0.0), ((0.9, 0.9, 0.1), 1.0), ((0.9, 0.9, 0.9), 0.0)]
ONE_MORE: list[Record] = [*BYSTANDERS, ((0.1, 0.1, 0.1), 1.0)]
UNLIKELY_FEATURES = (1, 2)  # chosen on the first two levels
ONES_BEFORE = (1, 0)  # sums of ones on these two levels without the last record; 0 in the leaf


def copies(records: list[Record], slots: int, grid: Grid = GRID) -> Rows:
    """Return the same records in each of many slots."""
    x = np.array([record[0] for record in records], np.float64).reshape(-1, len(grid.count))
    y = np.array([record[1] for record in records], np.float64)
    slot = np.repeat(np.arange(slots), len(records))
    return arrange(grid.codes(np.tile(x, (slots, 1))), pairs_of(np.tile(y, slots)), slot, slots)


def _sums(records: list[Record], epsilon: float) -> Release:
    return lambda draws, noise: noisy_sums(copies(records, draws), epsilon, noise).sums


def _hats(records: list[Record], epsilon: float) -> Release:
    return lambda draws, noise: hat_counts(copies(records, draws), 5, epsilon, noise).counts


def _choice(records: list[Record], criterion: str, epsilon: float) -> Release:
    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        rows, cells = copies(records, draws), Cells.whole(GRID, draws)
        center = np.full(draws, 0.5)
        return choose(rows, cells, GRID, criterion=criterion, center=center, epsilon=epsilon, noise=noise)[1]

    return draw


def _tree(records: list[Record], plan: TreePlan, show: Callable[[Any, TreePlan], NDArray[Any]]) -> Release:
    """Return many trees at once: each slot of the root is a tree on its own copy of the records."""

    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        return show(grow(copies(records, draws), GRID, plan, noise=noise, rng=np.random.default_rng(0)), plan)

    return draw


def _leaves(values: list[NDArray[np.float64]], trees: int) -> NDArray[np.float64]:
    return values[-1].reshape(trees, -1)


def _plain(grown: Any, plan: TreePlan) -> NDArray[np.float64]:
    return _leaves(plain_means(grown.sums), grown.trees)


def _against(records: list[Record], plan: TreePlan, grower: Callable[..., Grown]) -> Release:
    """Return (trees,) 1 if every number published on the last record's path is unlikely with the record."""

    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        rows = copies(records, draws, PATH_GRID)
        grown = grower(rows, PATH_GRID, plan, noise=noise, rng=np.random.default_rng(0))
        leaf_ones = grown.sums[-1].sums[:, 1] if grown.hats is None else grown.hats.counts[:, -1]
        all_against = _leftmost(leaf_ones, draws) <= 0
        for level in range(plan.greedy_levels):
            all_against &= _leftmost(grown.sums[level].sums[:, 1], draws) <= ONES_BEFORE[level]
            all_against &= _leftmost(grown.feature[level], draws) == UNLIKELY_FEATURES[level]
        return all_against

    return draw


def _leftmost(of_slots: NDArray[Any], trees: int) -> NDArray[Any]:
    """Return (trees,) the value of the first slot of each tree."""
    return of_slots.reshape(trees, -1)[:, 0]


def _published(grown: Any, plan: TreePlan) -> NDArray[np.float64]:
    """Return (trees, numbers) everything that a tree publishes."""
    levels = [s.sums.reshape(grown.trees, -1) for s in grown.sums if np.isfinite(s.variance)]
    cuts = [cut.reshape(grown.trees, -1) for cut in grown.cut]
    return np.concatenate([*cuts, *levels], axis=1)


def _pair(
    show: Callable[[Any, TreePlan], NDArray[Any]], plan: TreePlan, claimed: float = 1.0, cost: int = 1
) -> AuditCase:
    return AuditCase(claimed, _tree(EMPTY, plan, show), _tree(ONE, plan, show), cost=cost)


def _path(plan: TreePlan, cost: int = 1, grower: Callable[..., Grown] = grow) -> AuditCase:
    return AuditCase(1.0, _against(BYSTANDERS, plan, grower), _against(ONE_MORE, plan, grower), cost=cost)


def _alone_in_its_group(rows: Rows, grid: Grid, plan: TreePlan, **randomness: Any) -> Grown:
    """Return the shared trees of groups of one node each, where the group publishes what its node publishes."""
    return grow_voted(rows, grid, plan, groups=rows.slots, **randomness)


TREE_CASES: dict[str, AuditCase] = {
    "tree, noisy sums": AuditCase(1.0, _sums(EMPTY, 1.0), _sums(ONE, 1.0)),
    "tree, histogram of a leaf": AuditCase(1.0, _hats(EMPTY, 1.0), _hats(ONE, 1.0)),
    "tree, choice by vote": AuditCase(1.0, _choice(CROWD, "vote", 1.0), _choice(LONE, "vote", 1.0)),
    "tree, choice by squared error": AuditCase(1.0, _choice(MANY, "squared", 1.0), _choice(ONE_OTHER, "squared", 1.0)),
    "tree, choice by absolute error": AuditCase(1.0, _choice(CROWD, "absolute", 1.0), _choice(LONE, "absolute", 1.0)),
    "regression tree, path of a record, means": _path(plan_for(1.0, greedy_levels=1, random_levels=0)),
    "regression tree, path of a record, medians": _path(plan_for(1.0, greedy_levels=1, random_levels=0, leaf="median")),
    "random tree, path of a record": _path(plan_for(1.0, greedy_levels=0, random_levels=2)),
    "relay round, path of a record": _path(relay_plan(1.0, 200.0)),
    "voted forest, path of a record": _path(
        plan_for(1.0, greedy_levels=1, random_levels=0), grower=_alone_in_its_group
    ),
    "random tree, means": _pair(_plain, plan_for(1.0, greedy_levels=0, random_levels=2)),
}
"""Each must stay below its claim."""

_UNBOOKED = TreePlan("vote", "mean", (0.01,), (1.0,), 0, leaf_epsilon=0.99)  # center and leaf: 2 in all, 1 is claimed

PLANTED_BUGS: dict[str, AuditCase] = {
    "planted: half the noise on the sums": AuditCase(1.0, _sums(EMPTY, 2.0), _sums(ONE, 2.0)),
    "planted: a level that was not booked": _pair(_published, _UNBOOKED),
    "planted: half the noise on the choice": AuditCase(
        0.25, _choice(CROWD, "vote", 2.0), _choice([*CROWD, *LONE[-1:] * 2], "vote", 2.0)
    ),
}
"""Each gives more than it claims: the auditor must refute it."""
