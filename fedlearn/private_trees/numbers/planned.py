"""Base of the private regression trees and partitioned forests that follow a plan.

Pure epsilon, add or remove one record. Splits by permute-and-flip on a criterion of sensitivity 1, leaves from noisy
sums or histograms, smoothed down the tree. `growing` has the accounting, `plan` the budget; the depth follows from
epsilon and the public number of records by the rule in `plan.greedy_levels_for`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.privacy import Noise, PrivacyAccountant
from fedlearn.private_trees.node_table import NodeTable
from fedlearn.private_trees.numbers.ordering import SHARE as ORDER_SHARE
from fedlearn.private_trees.numbers.ordering import Orders, features_to_order, private_orders, ranked
from fedlearn.private_trees.numbers.planned_trees import grow_trees, predict_target, target_of_values
from fedlearn.private_trees.numbers.regressor import PrivateRegressor, released_number
from fedlearn.private_trees.numbers.splitting import CRITERIA
from fedlearn.private_trees.numbers.training_set import TrainingSet
from fedlearn.private_trees.numbers.tree_plan import LEAF_SHARE, TreePlan, greedy_levels_for, plan_for
from fedlearn.private_trees.parameters import Rule, none_or, one_of
from fedlearn.private_trees.tree_drawing import Words
from fedlearn.private_trees.weights import MAX_WEIGHT

OFFSET = 6.2  # doublings of epsilon * records before the first greedy level; see plan.greedy_levels_for
SMALLEST = 2.0  # records of a node, on average, below which no split looks at the data
RANDOM_LEVELS = 2  # below the greedy ones; smoothing compensates the smaller leaves


@dataclass(kw_only=True, eq=False, repr=False)
class PlannedRegressor(PrivateRegressor):
    """Base of the trees that follow a plan: their depth, and the budget of each level. Grows one tree.

    Parameters
    ----------
    categories : mapping or sequence of int, default=None
        Number of categories by the feature's name or position, or one number for each feature, 0 = numeric. Values are
        codes 0 .. k - 1; `category_order` says how they are split.
    criterion : {"vote", "squared", "absolute", "random"}, default="vote"
        Criterion of the splits. ``"vote"``: targets above and below a private center of the node; the next two: squared
        or absolute errors. ``"random"``: splits do not look at the data, and the leaves get the whole budget.
    leaf : {"median", "mean"}, default="median"
        ``"median"``: leaves hold distributions on 11 knots of the target bounds; a prediction is the median of the
        trees' pooled distributions. ``"mean"``: leaves hold means.
    depth : int or None, default=None
        Levels of splits, 0 to 20. None: a rule of epsilon and the number of records.
    leaf_share : float, default=0.45
        Share of epsilon for the leaves, in (0, 1).
    smoothing : bool, default=True
        Whether the values of leaves are shrunk towards their parents' values: post-processing, which costs no epsilon.

    Attributes
    ----------
    category_order_ : dict of ndarray
        Categories of each feature that is split by target, in ascending order of their mean targets; thresholds of the
        table divide their ranks. It may be published.
    """

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

    own_order: ClassVar[str] = "declared"  # of categories, if `category_order` is None

    ranges: ClassVar[dict[str, Rule]] = {
        **PrivateRegressor.ranges,
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
        """Grow the trees; the account is checked before the data is read.

        Parameters
        ----------
        X : array-like or DataFrame of shape (rows, features)
            Records. NaN and cells that are not numbers are missing; categorical features hold codes 0 .. k - 1. Values
            outside the bounds are clipped. X may have no rows.
        y : array-like of shape (rows,)
            Targets. Values outside the target bounds are clipped; rows whose target is not a number are left out.
        sample_weight : array-like of shape (rows,) or None, default=None
            Weights from 0 to `max_weight`, which must be declared. Larger weights are clipped; negative ones, and cells
            that are not numbers, count as 0. None: all weights are 1.

        Returns
        -------
        self

        Raises
        ------
        BudgetExceeded
            If the account does not cover epsilon; nothing is booked and no data is read.
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
        """Return the records, with ranks of categories in place of codes, and the rest of epsilon; see `ordering`."""
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
        """Set the plan of each tree and book it: once for all `trees`, as their rows are disjoint."""
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
        """Return the plan for a tree of n records, from public numbers alone."""
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
        """Return the number of levels that look at the data, and of the random levels below them."""
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
