"""Voted structure: the nodes of a group share one tree; each votes on every split, and their leaf sums are added.

Per level, each node publishes the noisy sums of every tree node (the server adds them and sends back the centres),
then one permute-and-flip vote for each tree node on its own rows. The server takes the feature with most votes and
the median of its voters' thresholds: post-processing. Leaves: the nodes' noisy sums, added. The nodes' records are
disjoint, so a record loses what its own node spends along its path: epsilon.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.privacy import PrivacyAccountant
from fedlearn.privacy.noise import Noise
from fedlearn.trees.binning import Grid
from fedlearn.trees.nodes import NodeTable
from fedlearn.trees.numbers.growing import Grown, noisy_sums
from fedlearn.trees.numbers.histograms import Rows, partition
from fedlearn.trees.numbers.leaves import NoisySums, shrunk, smoothed_means
from fedlearn.trees.numbers.plan import Plan, greedy_levels_for, plan_for
from fedlearn.trees.numbers.regressor import PrivateRegressor, Records, checked_parts
from fedlearn.trees.numbers.splitting import Cells, choose, choose_at_random

OFFSET = 6.0  # see plan.greedy_levels_for, of the records of one node: votes of a group add up to a better choice
SMALLEST = 4.0
RANDOM_LEVELS = 1


def grow_voted(rows: Rows, grid: Grid, plan: Plan, *, groups: int, noise: Noise, rng: np.random.Generator) -> Grown:
    """Return one tree for each group.

    Parameters
    ----------
    rows
        Slot i holds the rows of node i; the first ``slots / groups`` nodes are group 0, and so on.
    """
    nodes = rows.slots // groups
    grown = Grown(groups)
    cells, centre = Cells.whole(grid, groups), np.full(groups, 0.5)
    for level in range(plan.depth):
        sums = NoisySums.none(len(centre))
        if level < plan.greedy_levels:
            sums = added(noisy_sums(rows, plan.centre_epsilons[level], noise), groups, nodes)
            centre = shrunk(sums, centre, plan.spread(level), plan.within)
            seen = Cells(_to_nodes(cells.low, groups, nodes), _to_nodes(cells.high, groups, nodes))
            votes = choose(
                rows,
                seen,
                grid,
                criterion="vote",
                centre=_to_nodes(centre, groups, nodes),
                epsilon=plan.choice_epsilons[level],
                noise=noise,
            )
            feature, cut = elected(*(_by_slot(vote, groups, nodes) for vote in votes))
        else:
            feature, cut = choose_at_random(cells, rng)
        cut = np.clip(cut, 0, np.maximum(grid.count[feature] - 1, 0))
        rows = partition(rows, _to_nodes(feature, groups, nodes), _to_nodes(cut, groups, nodes))
        cells, centre = cells.split(feature, cut), np.repeat(centre, 2)
        grown.feature.append(feature)
        grown.cut.append(cut)
        grown.sums.append(sums)
    grown.sums.append(added(noisy_sums(rows, plan.leaf_epsilon, noise), groups, nodes))
    return grown


def added(published: NoisySums, groups: int, nodes: int) -> NoisySums:
    """Return the sums of each tree node over the nodes of its group; their noise adds up."""
    sums = published.sums.reshape(groups, nodes, -1, 2).sum(axis=1).reshape(-1, 2)
    return NoisySums(sums, nodes * published.variance)


def elected(feature: NDArray[np.integer], cut: NDArray[np.integer]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the feature with most votes (ties: the first) and the lower median of its voters' cuts.

    Parameters
    ----------
    feature, cut
        (slots, nodes) the votes.

    >>> elected(np.array([[1, 0, 1]]), np.array([[7, 3, 9]]))
    (array([1], dtype=int32), array([7]))
    """
    count = np.zeros((len(feature), int(feature.max(initial=0)) + 1), np.int64)
    np.add.at(count, (np.arange(len(feature))[:, None], feature), 1)
    winner = count.argmax(axis=1)
    voted = np.sort(np.where(feature == winner[:, None], cut, 255), axis=1)
    middle = (count.max(axis=1, initial=1) - 1) // 2
    return winner.astype(np.int32), voted[np.arange(len(feature)), middle].astype(np.int64)


def _to_nodes(array: NDArray[Any], groups: int, nodes: int) -> NDArray[Any]:
    """Return what every tree node has, at every node of its group: (groups * nodes * slots of a tree, ...)."""
    by_group = array.reshape(groups, 1, -1, *array.shape[1:])
    return np.repeat(by_group, nodes, axis=1).reshape(-1, *array.shape[1:])


def _by_slot(votes: NDArray[Any], groups: int, nodes: int) -> NDArray[Any]:
    """Return (slots of all trees, nodes) the votes on each tree node."""
    by_group = votes.reshape(groups, nodes, -1)
    return by_group.transpose(0, 2, 1).reshape(-1, nodes)


class DPVotedForest(PrivateRegressor):
    """One tree for each group of nodes, grown by vote; prediction = mean over the trees.

    Parameters
    ----------
    n_nodes
        Number of nodes. Rows go to nodes at random, independently of each other.
    n_groups
        Number of trees; divides `n_nodes`.
    epsilon, bounds, target_bounds, categories, n_declared, candidates, missing, noise, random_state, accountant
        As in `DPRegressionTree`.
    bounds_from_data
        Likewise.
    """

    def __init__(
        self,
        *,
        n_nodes: int = 25,
        n_groups: int = 5,
        epsilon: float = 1.0,
        bounds: Any = None,
        target_bounds: Any = None,
        categories: Any = None,
        n_declared: float | None = None,
        candidates: int = 40,
        missing: str = "wp",
        noise: str = "secure",
        random_state: Any = None,
        accountant: PrivacyAccountant | None = None,
        bounds_from_data: bool = False,
    ) -> None:
        self.n_nodes = n_nodes
        self.n_groups = n_groups
        self.epsilon = epsilon
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.categories = categories
        self.n_declared = n_declared
        self.candidates = candidates
        self.missing = missing
        self.noise = noise
        self.random_state = random_state
        self.accountant = accountant
        self.bounds_from_data = bounds_from_data

    def fit(self, X: ArrayLike, y: ArrayLike, *, parts: ArrayLike | None = None) -> Self:
        """Grow the trees; `parts` (rows,) gives the node of each row, None = at random."""
        if self.n_groups < 1 or self.n_nodes < 1 or self.n_nodes % self.n_groups:
            raise ValueError(f"n_groups: {self.n_groups} must divide n_nodes = {self.n_nodes}, both 1 or more")
        self._parts = parts
        try:
            return super().fit(X, y)
        finally:
            del self._parts

    def _grow(
        self, records: Records, accountant: PrivacyAccountant, noise: Noise, rng: np.random.Generator
    ) -> NodeTable:
        node_of_row = checked_parts(self._parts, records, self.n_nodes, rng, self.noise)
        n, epsilon = self._number_of_records(records, accountant, noise)
        greedy = greedy_levels_for(epsilon, n / self.n_nodes, offset=OFFSET, smallest=SMALLEST)
        self.plan_ = plan_for(epsilon, greedy_levels=greedy, random_levels=RANDOM_LEVELS)
        self.plan_.spend_from(accountant, is_secure=noise.is_secure)
        rows = records.rows(records.unit_target, node_of_row, self.n_nodes)
        grown = grow_voted(rows, records.grid, self.plan_, groups=self.n_groups, noise=noise, rng=rng)
        means = smoothed_means(grown.sums, self.plan_.spreads, self.plan_.within)
        return grown.table(records.grid, [records.domain.target_of_unit(mean) for mean in means])
