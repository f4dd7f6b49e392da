"""Growth of all trees of a forest at once, level by level, and the numbers that each level publishes.

The first levels are *greedy*: each node publishes the noisy sums of its targets (if the criterion needs a center),
then chooses its split by permute-and-flip. The levels below are *random*: feature and threshold are drawn without
looking at any data. The leaves publish sums, or a histogram of the target. Every tree has the same depth everywhere,
so the shape of a tree says nothing; an empty node is grown like any other.

Accounting, for one tree (`TreePlan`): along a path, sequential composition; over the nodes of a level, and over trees
of disjoint rows, parallel composition. So a record's loss is at most the sum over the levels of (center + choice), plus
the leaf.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy import geometric
from fedlearn.privacy.noise import Noise
from fedlearn.private_trees.binning import Grid
from fedlearn.private_trees.node_table import LEAF, NodeTable
from fedlearn.private_trees.numbers.histograms import UNIT, Rows, node_sums, route
from fedlearn.private_trees.numbers.leaves import HatCounts, NoisySums, hat_counts, shrunk
from fedlearn.private_trees.numbers.splitting import Cells, choose, choose_at_random
from fedlearn.private_trees.numbers.tree_plan import TreePlan

FloatArray = NDArray[np.float64]


@dataclass(slots=True, eq=False)
class Grown:
    """Grown trees before their values are set: splits and published numbers, level by level, root first."""

    trees: int
    feature: list[NDArray[np.int32]] = field(default_factory=list)  # each (slots,)
    cut: list[NDArray[np.int64]] = field(default_factory=list)  # each (slots,)
    sums: list[NoisySums] = field(default_factory=list)  # one entry more than splits; the leaves' sums are last
    hats: HatCounts | None = None  # histograms of the leaves, if they are medians

    def table(self, grid: Grid, value: list[FloatArray]) -> NodeTable:
        """Return the node table; `value` gives (slots,) or (slots, outputs) for each level, leaves last."""
        slots = [len(level) for level in value]
        first = np.cumsum([0, *slots])
        threshold = [_thresholds(grid, f, c) for f, c in zip(self.feature, self.cut, strict=True)]
        nothing = np.full(slots[-1], np.nan)
        children = [first[level + 1] + 2 * np.arange(slots[level]) for level in range(len(slots) - 1)]
        return NodeTable.of_nodes(
            root=np.arange(self.trees),
            feature=np.concatenate([*self.feature, np.full(slots[-1], LEAF)]),
            threshold=np.concatenate([*threshold, nothing]),
            first_child=np.concatenate([*children, np.full(slots[-1], LEAF)]),
            num_children=np.concatenate([np.full(int(first[-2]), 2), np.zeros(slots[-1])]),
            value=np.concatenate(value).reshape(int(first[-1]), -1),
        )


def grow(rows: Rows, grid: Grid, plan: TreePlan, *, noise: Noise, rng: np.random.Generator) -> Grown:
    """Return the grown trees, one for each slot of `rows`.

    Parameters
    ----------
    rows
        Records of the roots: slot t holds the rows of tree t; the trees' rows are disjoint.
    plan
        Levels of the trees and the budget of each; the caller has booked it.
    noise
        Randomness that protects the records.
    rng
        Randomness that needs no protection: splits of the random levels.
    """
    grown = Grown(rows.slots)
    cells = Cells.whole(grid, rows.slots)
    center = np.full(rows.slots, 0.5)
    for level in range(plan.depth):
        sums = NoisySums.none(rows.slots)
        if level < plan.greedy_levels:
            if plan.center_epsilons[level] > 0:
                sums = noisy_sums(rows, plan.center_epsilons[level], noise)
                center = shrunk(sums, center, plan.spread(level), plan.within)
            feature, cut = choose(
                rows,
                cells,
                grid,
                criterion=plan.criterion,
                center=center,
                epsilon=plan.choice_epsilons[level],
                noise=noise,
            )
        else:
            feature, cut = choose_at_random(cells, rng)
        cut = np.clip(cut, 0, np.maximum(grid.count[feature] - 1, 0))
        rows, cells, center = route(rows, feature, cut), cells.split(feature, cut), np.repeat(center, 2)
        grown.feature.append(feature)
        grown.cut.append(cut)
        grown.sums.append(sums)
    publish_leaves(grown, rows, plan, noise)
    return grown


def publish_leaves(grown: Grown, rows: Rows, plan: TreePlan, noise: Noise) -> None:
    """Publish sums of the leaves or, for medians, histograms, which contain the sums."""
    if plan.leaf == "median":
        grown.hats = hat_counts(rows, plan.knots, plan.leaf_epsilon, noise)
        grown.sums.append(grown.hats.sums())
    else:
        grown.sums.append(noisy_sums(rows, plan.leaf_epsilon, noise))


def noisy_sums(rows: Rows, epsilon: float, noise: Noise) -> NoisySums:
    """Return the sums (1 - y, y) of every slot with discrete Laplace noise: epsilon-private for the whole level.

    One record adds (1 - y, y), of L1 norm 1 (UNIT in fixed point), to one slot; a record in pieces adds a norm of 1 to
    several slots together.
    """
    exact = node_sums(rows)
    noisy = geometric(exact, sensitivity=UNIT, epsilon=epsilon, noise=noise)
    return NoisySums.of(noisy / UNIT, epsilon)


def _thresholds(grid: Grid, feature: NDArray[np.int32], cut: NDArray[np.int64]) -> FloatArray:
    """Return the thresholds in the features' units; a feature with a single category gets 0.5, above its code."""
    return np.where(grid.count[feature] > 0, grid.thresholds[feature, cut], 0.5)
