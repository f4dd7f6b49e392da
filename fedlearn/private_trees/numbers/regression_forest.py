"""A forest of differentially private regression trees on disjoint parts of the records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from fedlearn.privacy import Noise, PrivacyAccountant
from fedlearn.private_trees.nodes import NodeTable, union
from fedlearn.private_trees.numbers.planned import PlannedRegressor
from fedlearn.private_trees.numbers.randomness import part_sources
from fedlearn.private_trees.numbers.training_set import TrainingSet
from fedlearn.private_trees.parameters import Rule, at_least


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
