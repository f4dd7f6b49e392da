"""What the auditor is shown of the regression trees: neighboring records whose outputs differ the most we know of.

*Isolated* cases run one step of the tree's own code on many copies of one small node at once, so a hundred thousand
draws take a second. *Whole* cases fit an estimator again and again, and show what one leaf says of a lone record.

The planted bugs are for the auditor itself: it must refute them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy.audit_cases import AuditCase, Release
from fedlearn.privacy.noise import Noise
from fedlearn.trees.binning import Grid
from fedlearn.trees.domain import Domain
from fedlearn.trees.growing import grow, noisy_sums
from fedlearn.trees.histograms import Rows, arrange, parts_of
from fedlearn.trees.leaves import hat_counts, median_of_shares, plain_means, smoothed_means, smoothed_shares
from fedlearn.trees.paper_mode import PaperSettings, grow_paper_forest
from fedlearn.trees.plan import Plan, plan_for
from fedlearn.trees.relay import relay_plan
from fedlearn.trees.splitting import Cells, choose

GRID = Grid.of(Domain.declare(num_features=1, bounds=(0, 1)), candidates=2)
Record = tuple[float, float]  # (x, y), both in [0, 1]

# One candidate tells the record's side from the crowd's, the other does not: the record moves the first one alone.
CROWD: list[Record] = [(0.1, 0.0)]
LONE: list[Record] = [*CROWD, (0.5, 1.0)]  # the last record is the one that is added or removed
EMPTY: list[Record] = []
ONE: list[Record] = [(0.9, 1.0)]


def copies(records: list[Record], slots: int) -> Rows:
    """Return the same records in each of many slots."""
    x, y = (np.tile([record[i] for record in records], slots) for i in range(2))
    slot = np.repeat(np.arange(slots), len(records))
    return arrange(GRID.codes(x.reshape(-1, 1)), parts_of(y), slot, slots)


def _sums(records: list[Record], epsilon: float) -> Release:
    return lambda draws, noise: noisy_sums(copies(records, draws), epsilon, noise).sums


def _hats(records: list[Record], epsilon: float) -> Release:
    return lambda draws, noise: hat_counts(copies(records, draws), 5, epsilon, noise).counts


def _choice(records: list[Record], criterion: str, epsilon: float) -> Release:
    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        rows, cells = copies(records, draws), Cells.whole(GRID, draws)
        centre = np.full(draws, 0.5)
        return choose(rows, cells, GRID, criterion=criterion, centre=centre, epsilon=epsilon, noise=noise)[1]

    return draw


def _tree(records: list[Record], plan: Plan, show: Callable[[Any, Plan], NDArray[Any]]) -> Release:
    """Return many trees at once: each slot of the root is a tree on its own copy of the records."""

    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        return show(grow(copies(records, draws), GRID, plan, noise=noise, rng=np.random.default_rng(0)), plan)

    return draw


def _leaves(values: list[NDArray[np.float64]], trees: int) -> NDArray[np.float64]:
    return values[-1].reshape(trees, -1)


def _means(grown: Any, plan: Plan) -> NDArray[np.float64]:
    return _leaves(smoothed_means(grown.sums, plan.spreads, plan.within), grown.trees)


def _plain(grown: Any, plan: Plan) -> NDArray[np.float64]:
    return _leaves(plain_means(grown.sums), grown.trees)


def _medians(grown: Any, plan: Plan) -> NDArray[np.float64]:
    return _leaves([median_of_shares(smoothed_shares(grown.hats, plan.depth)[-1])], grown.trees)


def _published(grown: Any, plan: Plan) -> NDArray[np.float64]:
    """Return (trees, numbers) everything that a tree publishes."""
    levels = [s.sums.reshape(grown.trees, -1) for s in grown.sums if np.isfinite(s.variance)]
    cuts = [cut.reshape(grown.trees, -1) for cut in grown.cut]
    return np.concatenate([*cuts, *levels], axis=1)


def _pair(show: Callable[[Any, Plan], NDArray[Any]], plan: Plan, claimed: float = 1.0, cost: int = 5) -> AuditCase:
    return AuditCase(claimed, _tree(EMPTY, plan, show), _tree(ONE, plan, show), cost=cost)


def _printed(targets: list[float], epsilon: float) -> Release:
    """Return the lone leaf of many trees as the regression paper prints them, each on its own rows."""

    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        y = np.tile(targets, draws)
        tree_of_row = np.repeat(np.arange(draws), len(targets))
        settings = PaperSettings(epsilon=epsilon, depth=0)
        domain = Domain.declare(num_features=1, bounds=(0, 1), target_bounds=(0, 1))
        table = grow_paper_forest(
            np.zeros((len(y), 1)), y, domain=domain, settings=settings, parts=tree_of_row, trees=draws, noise=noise
        )
        values: NDArray[Any] = table.value[table.root, 0]
        return values

    return draw


_TREE = plan_for(1.0, greedy_levels=2, random_levels=0)

TREE_CASES: dict[str, AuditCase] = {
    "tree, noisy sums": AuditCase(1.0, _sums(EMPTY, 1.0), _sums(ONE, 1.0)),
    "tree, histogram of a leaf": AuditCase(1.0, _hats(EMPTY, 1.0), _hats(ONE, 1.0)),
    "tree, choice by vote": AuditCase(1.0, _choice(CROWD, "vote", 1.0), _choice(LONE, "vote", 1.0)),
    "tree, choice by squared error": AuditCase(1.0, _choice(CROWD, "squared", 1.0), _choice(LONE, "squared", 1.0)),
    "tree, choice by absolute error": AuditCase(1.0, _choice(CROWD, "absolute", 1.0), _choice(LONE, "absolute", 1.0)),
    "regression tree, all it publishes": _pair(_published, _TREE),
    "regression tree, plain means": _pair(_plain, _TREE),
    "regression tree, smoothed means": _pair(_means, _TREE),
    "regression tree, medians": _pair(_medians, plan_for(1.0, greedy_levels=2, random_levels=0, leaf="median")),
    "random tree, means": _pair(_plain, plan_for(1.0, greedy_levels=0, random_levels=2)),
    "relay turn, means": _pair(_means, relay_plan(1.0, 200.0)),
}
"""Each must stay below its claim."""

_UNBOOKED = Plan("vote", "mean", (0.01,), (1.0,), 0, leaf_epsilon=0.99)  # centre and leaf: 2 in all, where 1 is claimed

PLANTED_BUGS: dict[str, AuditCase] = {
    "planted: half the noise on the sums": AuditCase(1.0, _sums(EMPTY, 2.0), _sums(ONE, 2.0)),
    "planted: a level that was not booked": _pair(_published, _UNBOOKED, cost=1),
    "paper mode as printed, a leaf of two records": AuditCase(0.3, _printed([0.0], 0.3), _printed([0.0, 1.0], 0.3)),
    "planted: half the noise on the choice": AuditCase(
        0.25, _choice(CROWD, "vote", 2.0), _choice([*CROWD, *LONE[-1:] * 2], "vote", 2.0)
    ),
}
"""Each gives more than it claims: the auditor must refute it."""
