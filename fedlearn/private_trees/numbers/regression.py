"""Differentially private regression trees and partitioned forests.

Pure epsilon, add or remove one record. Splits by permute-and-flip on a criterion of sensitivity 1, leaves from noisy
sums or histograms, smoothed down the tree; `growing` has the accounting, `plan` the budget, and the depth follows from
(epsilon, public number of records) by the rule in `plan.greedy_levels_for`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.privacy import Noise, PrivacyAccountant
from fedlearn.private_trees.domain import Domain
from fedlearn.private_trees.drawing import Words
from fedlearn.private_trees.nodes import NodeTable, union
from fedlearn.private_trees.numbers.growing import Grown, grow
from fedlearn.private_trees.numbers.leaves import median_of_shares, plain_means, smoothed_means, smoothed_shares
from fedlearn.private_trees.numbers.ordering import SHARE as ORDER_SHARE
from fedlearn.private_trees.numbers.ordering import Orders, features_to_order, private_orders, ranked
from fedlearn.private_trees.numbers.plan import LEAF_SHARE, TreePlan, greedy_levels_for, plan_for
from fedlearn.private_trees.numbers.randomness import part_sources
from fedlearn.private_trees.numbers.regressor import PrivateRegressor, released_number
from fedlearn.private_trees.numbers.splitting import CRITERIA
from fedlearn.private_trees.numbers.training_set import TrainingSet
from fedlearn.private_trees.parameters import Rule, at_least, none_or, one_of
from fedlearn.private_trees.predicting import predict
from fedlearn.private_trees.weights import MAX_WEIGHT

OFFSET = 6.2  # doublings of epsilon * records that the first greedy level of a tree needs
SMALLEST = 2.0  # records of a node, on average, below which no split looks at the data
RANDOM_LEVELS = 2  # below the greedy ones; smoothing makes up for the smaller leaves
FEWEST = 8.0  # records of a leaf, on average, of a tree that stands alone; those of a forest are averaged anyway


@dataclass(kw_only=True, eq=False, repr=False)
class PlannedRegressor(PrivateRegressor):
    """Base of the trees that grow after a plan, which says how deep and what each level spends. Grows one tree."""

    epsilon: float = 1.0
    bounds: Any = None
    target_bounds: Any = None
    categories: Any = None
    criterion: str = "vote"
    leaf: str = "median"
    depth: int | None = None
    leaf_share: float = LEAF_SHARE
    smoothing: bool = True
    n_declared: float | None = None
    candidates: int = 40
    category_order: str | None = None
    max_weight: float | None = None
    missing: str = "wp"
    noise: str = "secure"
    random_state: Any = None
    accountant: PrivacyAccountant | None = None
    bounds_from_data: bool = False

    own_order: ClassVar[str] = "declared"  # of categories, where none is given

    rules: ClassVar[dict[str, Rule]] = {
        **PrivateRegressor.rules,
        "criterion": one_of(*CRITERIA, "random"),
        "leaf": one_of("mean", "median"),
        "leaf_share": Rule("in (0, 1)", lambda share: 0 < share < 1),
        "category_order": none_or(one_of("target", "declared")),
        "max_weight": MAX_WEIGHT,
        "depth": none_or(Rule("in 0 .. 20", lambda depth: 0 <= depth <= 20)),
    }

    def fit(  # type: ignore[override]
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Grow the trees; the accountant is asked before the data is touched.

        Parameters
        ----------
        X : array-like or DataFrame of shape (rows, features)
            NaN, and what is no number, = missing; categorical features hold their codes 0 .. k - 1. Values outside the
            bounds are clipped. No row at all is allowed.
        y : array-like of shape (rows,)
            Values outside the target bounds are clipped; a row whose target is no number is left out.
        sample_weight : array-like of shape (rows,) or None, default=None
            Weights from 0 to `max_weight`, which must be declared; what is beyond is clipped, what is no number counts
            as 0. None: all are 1.

        Returns
        -------
        self

        Raises
        ------
        BudgetExceeded
            If the account does not cover epsilon; nothing is booked and no data touched.
        ValueError
            If a parameter is out of its range, or X, y and weights are not as they were declared.
        """
        return self._fit(X, y, sample_weight=sample_weight)

    def _grow(
        self, training: TrainingSet, accountant: PrivacyAccountant, noise: Noise, rng: np.random.Generator
    ) -> NodeTable:
        training, epsilon = self._ordered(training, accountant, noise)
        self._book(training, epsilon, accountant, noise, trees=1)
        return self._trees_on(training, np.zeros(len(training.y), np.int64), 1, noise, rng)

    def _ordered(self, training: TrainingSet, accountant: PrivacyAccountant, noise: Noise) -> tuple[TrainingSet, float]:
        """Return the records, ranks of categories in place of codes, and what is left of epsilon; see `ordering`."""
        self.category_order_: Orders = {}
        wanted = (self.category_order or self.own_order) == "target" and training.given_parts is None
        if not wanted or not len(features_to_order(training.domain)):
            return training, self.epsilon
        share = ORDER_SHARE * self.epsilon
        accountant.spend(share, what="order of the categories", is_secure=noise.is_secure)
        self.category_order_ = private_orders(training, epsilon=share, noise=noise)
        left = self.epsilon if math.isinf(share) else self.epsilon - share
        return replace(training, X=ranked(training.X, self.category_order_)), left

    def _book(
        self, training: TrainingSet, epsilon: float, accountant: PrivacyAccountant, noise: Noise, *, trees: int
    ) -> None:
        """Fix the plan of each of so many trees, and book it: once, as the trees' rows are disjoint."""
        n, epsilon = released_number(
            training, epsilon=epsilon, declared=self.n_declared, accountant=accountant, noise=noise
        )
        self.plan_ = self._plan(epsilon, n / trees)
        self.plan_.spend_from(accountant, is_secure=noise.is_secure)

    def _trees_on(
        self,
        training: TrainingSet,
        tree_of_row: NDArray[np.integer],
        trees: int,
        noise: Noise,
        rng: np.random.Generator,
    ) -> NodeTable:
        return grow_trees(
            training, tree_of_row, trees=trees, plan=self.plan_, noise=noise, rng=rng, smoothing=self.smoothing
        )

    def _plan(self, epsilon: float, n: float) -> TreePlan:
        """Return the plan for a tree of n records: a rule of public numbers."""
        greedy, random = self._levels(epsilon, n)
        return plan_for(
            epsilon,
            greedy_levels=greedy,
            random_levels=random,
            criterion=self.criterion,
            leaf=self.leaf,
            leaf_share=self.leaf_share,
        )

    def _levels(self, epsilon: float, n: float) -> tuple[int, int]:
        """Return how many levels look at the data, and how many below them do not."""
        greedy = greedy_levels_for(epsilon, n, offset=OFFSET, smallest=SMALLEST)
        if self.criterion == "random":
            greedy, random = 0, greedy + RANDOM_LEVELS
        else:
            random = RANDOM_LEVELS if self.smoothing else 0
        if self.depth is None:
            return greedy, random
        greedy = min(greedy, self.depth)
        return greedy, self.depth - greedy

    def _predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        return predict_target(self.table_, ranked(X, self.category_order_), self.domain_)

    def _words(self, decimals: int) -> Words:
        return replace(super()._words(decimals), orders=self.category_order_)

    def _drawn(self) -> NodeTable:
        return replace(self.table_, value=target_of_values(self.table_.value, self.domain_)[:, None])


class DPRegressionTree(PlannedRegressor):
    """One private regression tree that stands alone: its leaves hold at least 8 records on average.

    Pure epsilon, add or remove one record. `DPEnsembleTree` is for one tree of many.

    Parameters
    ----------
    epsilon : float, default=1.0
        What the fit spends, in nats; above 0. ``math.inf``: no noise.
    bounds : tuple, sequence of tuples or mapping, default=None
        Declared range of the numeric features, never learned from the data: ``(low, high)`` for all of them, one pair
        for each, or a mapping from a feature's name or position to its pair. A third member, ``"log"``, spaces the
        thresholds evenly in the logarithm. Values outside are clipped.
    target_bounds : tuple of two floats, default=None
        Declared range of the target; values outside are clipped. Needed, like `bounds`, unless `bounds_from_data`.
    categories : mapping or sequence of int, default=None
        Number of categories by the feature's name or position, or one number for each feature, 0 = numeric. Values are
        codes 0 .. k - 1; `category_order` says how they are split.
    criterion : {"vote", "squared", "absolute", "random"}, default="vote"
        What makes a split good: labels around a private center of the node, squared or absolute errors. ``"random"``:
        splits that do not look at the data, and the whole budget for the leaves.
    leaf : {"median", "mean"}, default="median"
        ``"median"``: leaves hold distributions on 11 knots of the target bounds, a prediction is the median of the
        trees' pooled distributions.
    depth : int or None, default=None
        Levels of splits, 0 to 20. None: a rule of epsilon and the number of records.
    leaf_share : float, default=0.45
        Share of epsilon for the leaves, in (0, 1).
    smoothing : bool, default=True
        Whether leaves lean on their parents: post-processing, free of charge.
    n_declared : float or None, default=None
        Number of records, where it is public. None: 2 % of epsilon release it.
    candidates : int, default=40
        Thresholds of each numeric feature, 1 to 254.
    category_order : {"target", "declared"} or None, default=None
        In which order the categories of a feature of three or more are split. ``"target"``: in that of their noisy mean
        targets, for a tenth of epsilon, so that splits are of the best kinds of them. ``"declared"``: in that of codes.
        None: as declared, as a tree that stands alone has cuts enough to tell them apart.
    max_weight : float or None, default=None
        Declared largest weight of a record, above 0; needed where `fit` is given weights, and the unit of the noise: a
        record counts as its weight over this one. None: no weights.
    missing : {"wp", "drop"}, default="wp"
        ``"wp"``: a record that lacks a value goes to both children, with half its weight each. ``"drop"``: it is left
        out.
    noise : {"secure", "seeded"}, default="secure"
        ``"secure"``: from the operating system. ``"seeded"``: reproducible, protects nobody, needs `random_state`.
    random_state : int, Generator, SeedSequence, RandomState or None, default=None
        Seed of seeded noise, and of all that needs no protection.
    accountant : PrivacyAccountant or None, default=None
        Account to spend from; it is asked before the data is touched. None: one of its own, with a budget of epsilon.
    bounds_from_data : bool, default=False
        Read all bounds from the data, with a warning: *not private*, and ``privacy_spent_`` says an infinite epsilon.

    Attributes
    ----------
    table_ : NodeTable
        The tree; all of it may be published.
    plan_ : TreePlan
        Levels of the tree and what each of them spent.
    domain_ : Domain
        What was declared.
    category_order_ : dict of ndarray
        Of each feature that is split by target its categories, from the smallest mean on; thresholds of the table are
        between their ranks. It may be published.
    privacy_spent_ : PrivacySpent
        What the account has spent, line by line.
    notice_ : str
        What every result must say about this fit, as that its noise protects nobody; empty if there is nothing to say.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where X had names.

    References
    ----------
    .. [1] Vu, Nguyen 2020, HCMUE Journal of Science 17(12), 2251-2261: the greedy trees; accounting and leaves are
           ours.
    .. [2] McKenna, Sheldon 2020, arXiv:2010.12603: permute-and-flip, by which splits are chosen.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (2000, 2))
    >>> y = X[:, 0] / 10
    >>> tree = DPRegressionTree(bounds=(0, 10), target_bounds=(0, 1), noise="seeded", random_state=0).fit(X, y)
    >>> print(tree.privacy_spent_)
    epsilon = 1 (add or remove one record; unit: record; not secure: protects nobody)
    >>> tree.predict([[1.0, 5.0], [9.0, 5.0]]).round(1)
    array([0.1, 0.9])
    """

    def _levels(self, epsilon: float, n: float) -> tuple[int, int]:
        greedy, random = super()._levels(epsilon, n)
        if self.depth is not None:
            return greedy, random
        room = max(math.floor(math.log2(max(n, 1.0) / FEWEST)), 1)
        greedy = min(greedy, room)
        return greedy, min(random, room - greedy)


class DPEnsembleTree(PlannedRegressor):
    """One tree of a forest whose others grow elsewhere, as in a federation; as deep as one of `DPRegressionForest`.

    Pure epsilon, add or remove one record. Tables of several such trees are joined by `union`.

    Parameters
    ----------
    epsilon : float, default=1.0
        What the fit spends, in nats; above 0. ``math.inf``: no noise.
    bounds : tuple, sequence of tuples or mapping, default=None
        Declared range of the numeric features, never learned from the data: ``(low, high)`` for all of them, one pair
        for each, or a mapping from a feature's name or position to its pair. A third member, ``"log"``, spaces the
        thresholds evenly in the logarithm. Values outside are clipped.
    target_bounds : tuple of two floats, default=None
        Declared range of the target; values outside are clipped. Needed, like `bounds`, unless `bounds_from_data`.
    categories : mapping or sequence of int, default=None
        Number of categories by the feature's name or position, or one number for each feature, 0 = numeric. Values are
        codes 0 .. k - 1; `category_order` says how they are split.
    criterion : {"vote", "squared", "absolute", "random"}, default="vote"
        What makes a split good: labels around a private center of the node, squared or absolute errors. ``"random"``:
        splits that do not look at the data, and the whole budget for the leaves.
    leaf : {"median", "mean"}, default="median"
        ``"median"``: leaves hold distributions on 11 knots of the target bounds, a prediction is the median of the
        trees' pooled distributions.
    depth : int or None, default=None
        Levels of splits, 0 to 20. None: a rule of epsilon and the number of records.
    leaf_share : float, default=0.45
        Share of epsilon for the leaves, in (0, 1).
    smoothing : bool, default=True
        Whether leaves lean on their parents: post-processing, free of charge.
    n_declared : float or None, default=None
        Number of records, where it is public. None: 2 % of epsilon release it.
    candidates : int, default=40
        Thresholds of each numeric feature, 1 to 254.
    category_order : {"declared"} or None, default=None
        Trees of several nodes are joined, so the categories of a feature are split in the order of their codes.
    max_weight : float or None, default=None
        Declared largest weight of a record, above 0; needed where `fit` is given weights, and the unit of the noise: a
        record counts as its weight over this one. None: no weights.
    missing : {"wp", "drop"}, default="wp"
        ``"wp"``: a record that lacks a value goes to both children, with half its weight each. ``"drop"``: it is left
        out.
    noise : {"secure", "seeded"}, default="secure"
        ``"secure"``: from the operating system. ``"seeded"``: reproducible, protects nobody, needs `random_state`.
    random_state : int, Generator, SeedSequence, RandomState or None, default=None
        Seed of seeded noise, and of all that needs no protection.
    accountant : PrivacyAccountant or None, default=None
        Account to spend from; it is asked before the data is touched. None: one of its own, with a budget of epsilon.
    bounds_from_data : bool, default=False
        Read all bounds from the data, with a warning: *not private*, and ``privacy_spent_`` says an infinite epsilon.

    Attributes
    ----------
    table_ : NodeTable
        The tree; all of it may be published.
    plan_ : TreePlan
        Levels of the tree and what each of them spent.
    domain_ : Domain
        What was declared.
    category_order_ : dict of ndarray
        Of each feature that is split by target its categories, from the smallest mean on; thresholds of the table are
        between their ranks. It may be published.
    privacy_spent_ : PrivacySpent
        What the account has spent, line by line.
    notice_ : str
        What every result must say about this fit, as that its noise protects nobody; empty if there is nothing to say.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where X had names.

    References
    ----------
    .. [1] Vu, Nguyen 2020, HCMUE Journal of Science 17(12), 2251-2261: the greedy trees; accounting and leaves are
           ours.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (2000, 2))
    >>> y = X[:, 0] / 10
    >>> declared = {"bounds": (0, 10), "target_bounds": (0, 1), "noise": "seeded"}
    >>> parts = [DPEnsembleTree(random_state=node, **declared).fit(X[node::2], y[node::2]) for node in range(2)]
    >>> from fedlearn.private_trees import union
    >>> union([tree.table_ for tree in parts]).num_trees
    2
    """

    rules: ClassVar[dict[str, Rule]] = {**PlannedRegressor.rules, "category_order": none_or(one_of("declared"))}


@dataclass(kw_only=True, eq=False, repr=False)
class DPRegressionForest(PlannedRegressor):
    """Private trees on disjoint parts of the rows, each with the whole epsilon.

    Pure epsilon, add or remove one record. Each row goes to one of the trees at random, *independently of all other
    rows*: adding or removing a record changes one part only, so the trees compose in parallel.

    Parameters
    ----------
    epsilon : float, default=1.0
        What the fit spends, in nats; above 0. ``math.inf``: no noise.
    bounds : tuple, sequence of tuples or mapping, default=None
        Declared range of the numeric features, never learned from the data: ``(low, high)`` for all of them, one pair
        for each, or a mapping from a feature's name or position to its pair. A third member, ``"log"``, spaces the
        thresholds evenly in the logarithm. Values outside are clipped.
    target_bounds : tuple of two floats, default=None
        Declared range of the target; values outside are clipped. Needed, like `bounds`, unless `bounds_from_data`.
    categories : mapping or sequence of int, default=None
        Number of categories by the feature's name or position, or one number for each feature, 0 = numeric. Values are
        codes 0 .. k - 1; `category_order` says how they are split.
    criterion : {"vote", "squared", "absolute", "random"}, default="vote"
        What makes a split good: labels around a private center of the node, squared or absolute errors. ``"random"``:
        splits that do not look at the data, and the whole budget for the leaves.
    leaf : {"median", "mean"}, default="median"
        ``"median"``: leaves hold distributions on 11 knots of the target bounds, a prediction is the median of the
        trees' pooled distributions.
    depth : int or None, default=None
        Levels of splits, 0 to 20. None: a rule of epsilon and the number of records.
    leaf_share : float, default=0.45
        Share of epsilon for the leaves, in (0, 1).
    smoothing : bool, default=True
        Whether leaves lean on their parents: post-processing, free of charge.
    n_declared : float or None, default=None
        Number of records, where it is public. None: 2 % of epsilon release it.
    candidates : int, default=40
        Thresholds of each numeric feature, 1 to 254.
    category_order : {"target", "declared"} or None, default=None
        In which order the categories of a feature of three or more are split. ``"target"``: in that of their noisy mean
        targets, for a tenth of epsilon, so that splits are of the best kinds of them. ``"declared"``: in that of codes.
        None: by target, but as declared where parts are given.
    max_weight : float or None, default=None
        Declared largest weight of a record, above 0; needed where `fit` is given weights, and the unit of the noise: a
        record counts as its weight over this one. None: no weights.
    missing : {"wp", "drop"}, default="wp"
        ``"wp"``: a record that lacks a value goes to both children, with half its weight each. ``"drop"``: it is left
        out.
    noise : {"secure", "seeded"}, default="secure"
        ``"secure"``: from the operating system. ``"seeded"``: reproducible, protects nobody, needs `random_state`.
    random_state : int, Generator, SeedSequence, RandomState or None, default=None
        Seed of seeded noise, and of all that needs no protection.
    accountant : PrivacyAccountant or None, default=None
        Account to spend from; it is asked before the data is touched. None: one of its own, with a budget of epsilon.
    bounds_from_data : bool, default=False
        Read all bounds from the data, with a warning: *not private*, and ``privacy_spent_`` says an infinite epsilon.
    n_trees : int, default=25
        Number of trees, 1 or more.

    Attributes
    ----------
    table_ : NodeTable
        The trees; all of it may be published.
    plan_ : TreePlan
        Levels of each tree and what each of them spent.
    domain_ : Domain
        What was declared.
    category_order_ : dict of ndarray
        Of each feature that is split by target its categories, from the smallest mean on; thresholds of the table are
        between their ranks. It may be published.
    privacy_spent_ : PrivacySpent
        What the account has spent, line by line.
    notice_ : str
        What every result must say about this fit, as that its noise protects nobody; empty if there is nothing to say.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where X had names.

    References
    ----------
    .. [1] Vu, Nguyen 2020, HCMUE Journal of Science 17(12), 2251-2261: the greedy trees; accounting and leaves are
           ours.
    .. [2] McSherry 2009, theorem 4: parallel composition.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (2000, 2))
    >>> y = X[:, 0] / 10
    >>> forest = DPRegressionForest(
    ...     n_trees=5, epsilon=4.0, bounds=(0, 10), target_bounds=(0, 1), noise="seeded", random_state=0
    ... ).fit(X, y)
    >>> round(forest.privacy_spent_.epsilon, 9), forest.table_.num_trees
    (4.0, 5)
    >>> forest.predict([[1.0, 5.0], [9.0, 5.0]]).round(1)
    array([0.1, 0.9])
    """

    n_trees: int = 25

    own_order: ClassVar[str] = "target"
    rules: ClassVar[dict[str, Rule]] = {**PlannedRegressor.rules, "n_trees": at_least(1)}

    def fit(  # type: ignore[override]
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, *, parts: ArrayLike | None = None
    ) -> Self:
        """Grow the trees on disjoint parts; the accountant is asked before the data is touched.

        Parameters
        ----------
        X : array-like or DataFrame of shape (rows, features)
            NaN = missing; categorical features hold their codes 0 .. k - 1.
        y : array-like of shape (rows,)
            Values outside the target bounds are clipped.
        sample_weight : array-like of shape (rows,) or None, default=None
            Weights from 0 to `max_weight`, which must be declared; what is beyond is clipped, what is no number counts
            as 0. None: all are 1.
        parts : array-like of shape (rows,) or None, default=None
            The tree 0 .. n_trees - 1 of each row, if the parts are given from outside, as by the nodes that hold the
            rows; a row of no such tree is left out. A record's part must not depend on other records. None: at random.

        Returns
        -------
        self

        Raises
        ------
        BudgetExceeded
            If the account does not cover epsilon; nothing is booked and no data touched.
        ValueError
            If a parameter is out of its range, or X, y, weights and parts are not as they were declared.
        """
        if parts is not None and self.category_order == "target":
            raise ValueError(
                "category_order = 'target': records must be in one place; leave it out where parts are given"
            )
        return self._fit(X, y, parts, sample_weight)

    def _num_parts(self) -> int:
        return int(self.n_trees)

    def _grow(
        self, training: TrainingSet, accountant: PrivacyAccountant, noise: Noise, rng: np.random.Generator
    ) -> NodeTable:
        tree_of_row = training.parts(self.n_trees, rng, is_secure=noise.is_secure)
        training, epsilon = self._ordered(training, accountant, noise)
        self._book(training, epsilon, accountant, noise, trees=self.n_trees)
        if training.given_parts is None:
            return self._trees_on(training, tree_of_row, self.n_trees, noise, rng)
        return union([self._tree_of_part(training.where(tree_of_row == part), part) for part in range(self.n_trees)])

    def _tree_of_part(self, training: TrainingSet, part: int) -> NodeTable:
        """Return the tree of one given part, with randomness of its own: what the node that holds it would grow."""
        noise, rng = part_sources(self.noise, self.random_state, part)
        return self._trees_on(training, np.zeros(len(training.y), np.int64), 1, noise, rng)


def grow_trees(
    training: TrainingSet,
    tree_of_row: NDArray[np.integer],
    *,
    trees: int,
    plan: TreePlan,
    noise: Noise,
    rng: np.random.Generator,
    smoothing: bool = True,
) -> NodeTable:
    """Return trees on disjoint rows, all grown at once; the accountant has been asked for ``plan.epsilon``.

    Parameters
    ----------
    training
        Data and declared domain: ``TrainingSet(X, y, domain, Grid.of(domain))``.
    tree_of_row
        (rows,) in 0 .. trees - 1.
    plan
        As of `plan_for`.
    noise, rng
        The randomness that protects, and the one that does not.
    """
    rows = training.rows(training.unit_target, tree_of_row, trees)
    grown = grow(rows, training.grid, plan, noise=noise, rng=rng)
    return grown.table(training.grid, values_of(grown, plan, training.domain, smoothing=smoothing))


def values_of(grown: Grown, plan: TreePlan, domain: Domain, *, smoothing: bool = True) -> list[NDArray[np.float64]]:
    """Return the values of every node of every level, root first.

    (slots,) means in the target's unit; of median leaves (slots, knots) the distribution over even knots of the target
    bounds, which sums to 1.
    """
    if grown.hats is not None:
        return smoothed_shares(grown.hats, plan.depth, smoothing=smoothing)
    means = smoothed_means(grown.sums, plan.spreads, plan.within) if smoothing else plain_means(grown.sums)
    return [domain.target_of_unit(mean) for mean in means]


def predict_target(table: NodeTable, X: NDArray[np.float64], domain: Domain) -> NDArray[np.float64]:
    """Return (rows,) predictions inside the target bounds: of means the mean, of distributions the pooled median."""
    values = predict(table, X)
    return target_of_values(values, domain)


def target_of_values(values: NDArray[np.float64], domain: Domain) -> NDArray[np.float64]:
    """Return (rows,) what (rows, 1) means or (rows, knots) distributions say of the target, in its unit."""
    if values.shape[1] > 1:
        return domain.target_of_unit(median_of_shares(values))
    return np.clip(values[:, 0], *domain.target_bounds)
