"""Trees by vote: the nodes of a group share one tree, vote on every split, and add up their leaves' sums.

On each level, every node publishes the noisy sums of each tree node; the server adds them and returns the centers. Then
every node publishes one permute-and-flip vote for each tree node, from its own rows. The server takes the feature with
most votes, and the median of its voters' thresholds: post-processing. At the leaves the nodes' noisy sums are added.
The nodes' records are disjoint, so a record loses what its own node spends along its path: epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.privacy import Noise, PrivacyAccountant
from fedlearn.private_trees.binning import Grid
from fedlearn.private_trees.described import described
from fedlearn.private_trees.node_table import NodeTable
from fedlearn.private_trees.numbers.forest_growing import Grown, noisy_sums
from fedlearn.private_trees.numbers.histograms import Rows, route
from fedlearn.private_trees.numbers.leaves import NoisySums, shrunk, smoothed_means
from fedlearn.private_trees.numbers.regressor import PrivateRegressor, released_number
from fedlearn.private_trees.numbers.splitting import Cells, choose, choose_at_random
from fedlearn.private_trees.numbers.training_set import TrainingSet
from fedlearn.private_trees.numbers.tree_plan import TreePlan, greedy_levels_for, plan_for
from fedlearn.private_trees.parameters import Rule, at_least
from fedlearn.private_trees.weights import refuse_weights

OFFSET = 6.0  # see plan.greedy_levels_for, for the records of one node; the votes of a group make a better choice
SMALLEST = 4.0
RANDOM_LEVELS = 1


def grow_voted(rows: Rows, grid: Grid, plan: TreePlan, *, groups: int, noise: Noise, rng: np.random.Generator) -> Grown:
    """Return one tree for each group of nodes.

    Parameters
    ----------
    rows
        Slot i holds the rows of node i; the first ``slots / groups`` nodes are group 0, and so on.
    """
    nodes = rows.slots // groups
    grown = Grown(groups)
    cells, center = Cells.whole(grid, groups), np.full(groups, 0.5)
    for level in range(plan.depth):
        sums = NoisySums.none(len(center))
        if level < plan.greedy_levels:
            sums = added(noisy_sums(rows, plan.center_epsilons[level], noise), groups, nodes)
            center = shrunk(sums, center, plan.spread(level), plan.within)
            seen = Cells(_to_nodes(cells.low, groups, nodes), _to_nodes(cells.high, groups, nodes))
            votes = choose(
                rows,
                seen,
                grid,
                criterion="vote",
                center=_to_nodes(center, groups, nodes),
                epsilon=plan.choice_epsilons[level],
                noise=noise,
            )
            feature, cut = elected(*(_by_slot(vote, groups, nodes) for vote in votes))
        else:
            feature, cut = choose_at_random(cells, rng)
        cut = np.clip(cut, 0, np.maximum(grid.count[feature] - 1, 0))
        rows = route(rows, _to_nodes(feature, groups, nodes), _to_nodes(cut, groups, nodes))
        cells, center = cells.split(feature, cut), np.repeat(center, 2)
        grown.feature.append(feature)
        grown.cut.append(cut)
        grown.sums.append(sums)
    grown.sums.append(added(noisy_sums(rows, plan.leaf_epsilon, noise), groups, nodes))
    return grown


def added(published: NoisySums, groups: int, nodes: int) -> NoisySums:
    """Return the sums of each tree node over the nodes of its group; their variances add up."""
    sums = published.sums.reshape(groups, nodes, -1, 2).sum(axis=1).reshape(-1, 2)
    return NoisySums(sums, nodes * published.variance)


def elected(feature: NDArray[np.integer], cut: NDArray[np.integer]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return (slots,) the feature with most votes (ties: the first), and the lower median of its voters' cuts.

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
    """Return values of tree nodes, repeated for every node of their group: (groups * nodes * slots of a tree, ...)."""
    by_group = array.reshape(groups, 1, -1, *array.shape[1:])
    return np.repeat(by_group, nodes, axis=1).reshape(-1, *array.shape[1:])


def _by_slot(votes: NDArray[Any], groups: int, nodes: int) -> NDArray[Any]:
    """Return (slots of all trees, nodes) the votes on each tree node."""
    by_group = votes.reshape(groups, nodes, -1)
    return by_group.transpose(0, 2, 1).reshape(-1, nodes)


@described
@dataclass(kw_only=True, eq=False, repr=False)
class DPVotedForest(PrivateRegressor):
    """One tree for each group of nodes, grown by their votes; a prediction is the mean over the trees.

    Pure epsilon, add or remove one record: the nodes hold disjoint records.

    Parameters
    ----------
    n_nodes : int, default=25
        Number of nodes, 1 or more.
    n_groups : int, default=5
        Number of trees, 1 or more; divides `n_nodes`.

    Attributes
    ----------
    table_ : NodeTable
        The trees; all of it may be published.
    plan_ : TreePlan
        Levels of each tree, and the epsilon of each level.

    References
    ----------
    .. [1] McKenna, Sheldon 2020, arXiv:2010.12603: permute-and-flip, the mechanism of a vote; the election is ours.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (2000, 2))
    >>> y = X[:, 0] / 10
    >>> forest = DPVotedForest(
    ...     n_nodes=4, n_groups=2, epsilon=4.0, bounds=(0, 10), target_bounds=(0, 1), noise="seeded", random_state=0
    ... ).fit(X, y)
    >>> round(forest.privacy_spent_.epsilon, 9), forest.table_.num_trees
    (4.0, 2)
    >>> forest.predict([[1.0, 5.0], [9.0, 5.0]]).round(1)
    array([0.1, 0.9])
    """

    n_nodes: int = 25
    n_groups: int = 5
    bounds: Any = None
    target_bounds: Any = None
    categories: Any = None
    n_declared: float | None = None
    candidates: int = 40
    missing: str = "wp"

    ranges: ClassVar[dict[str, Rule]] = {**PrivateRegressor.ranges, "n_nodes": at_least(1), "n_groups": at_least(1)}

    def fit(self, X: ArrayLike, y: ArrayLike, *, parts: ArrayLike | None = None, **not_taken: Any) -> Self:
        """Grow the trees; the account is checked before the data is read.

        Parameters
        ----------
        X : array-like or DataFrame of shape (rows, features)
            Records. NaN is a missing value; categorical features hold codes 0 .. k - 1.
        y : array-like of shape (rows,)
            Targets. Values outside the target bounds are clipped.
        parts : array-like of shape (rows,) or None, default=None
            The node 0 .. n_nodes - 1 of each row; rows of other nodes are left out. A record's node must not depend on
            other records. None: random nodes, each row independently of all others.

        Returns
        -------
        self

        Raises
        ------
        BudgetExceeded
            If the account does not cover epsilon; nothing is booked and no data is read.
        ValueError
            If a parameter is out of its range, or X, y and parts are not as they were declared.
        """
        refuse_weights(not_taken, owner=type(self).__name__)
        return self._fit(X, y, parts)

    def _num_parts(self) -> int:
        return int(self.n_nodes)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.n_nodes % self.n_groups:
            raise ValueError(f"n_groups = {self.n_groups}: must divide n_nodes = {self.n_nodes}")

    def _grow(
        self, training: TrainingSet, accountant: PrivacyAccountant, noise: Noise, rng: np.random.Generator
    ) -> NodeTable:
        node_of_row = training.parts(self.n_nodes, rng, is_secure=noise.is_secure)
        n, epsilon = released_number(
            training, epsilon=self.epsilon, declared=self.n_declared, accountant=accountant, noise=noise
        )
        greedy = greedy_levels_for(epsilon, n / self.n_nodes, offset=OFFSET, smallest=SMALLEST)
        self.plan_ = plan_for(epsilon, greedy_levels=greedy, random_levels=RANDOM_LEVELS)
        self.plan_.spend_from(accountant, is_secure=noise.is_secure)
        rows = training.rows(training.unit_target, node_of_row, self.n_nodes)
        grown = grow_voted(rows, training.grid, self.plan_, groups=self.n_groups, noise=noise, rng=rng)
        means = smoothed_means(grown.sums, self.plan_.spreads, self.plan_.within)
        return grown.table(training.grid, [training.domain.target_of_unit(mean) for mean in means])
