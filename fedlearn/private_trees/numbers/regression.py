"""Differentially private regression trees: one that stands alone, and one of a forest that grows elsewhere."""

from __future__ import annotations

import math
from typing import ClassVar

from fedlearn.private_trees.numbers.planned import PlannedRegressor
from fedlearn.private_trees.parameters import Rule, none_or, one_of

FEWEST = 8.0  # records of a leaf, on average, in a tree that stands alone; a forest averages its trees


class DPRegressionTree(PlannedRegressor):
    """One private regression tree that stands alone: its leaves hold at least 8 records on average.

    Pure epsilon, add or remove one record. `DPEnsembleTree` is for one tree of many.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of the fit, in nats; above 0. ``math.inf``: no noise.
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
    n_declared : float or None, default=None
        Number of records, if it is public. None: a noisy number is released for 2 % of epsilon.
    candidates : int, default=40
        Thresholds of each numeric feature, 1 to 254.
    category_order : {"target", "declared"} or None, default=None
        Order in which the categories of a feature with three or more are split. ``"target"``: by their noisy mean
        targets, which cost a tenth of epsilon. ``"declared"``: by their codes. None: declared, as a tree that stands
        alone has enough splits to tell the categories apart.
    max_weight : float or None, default=None
        Declared largest weight of a record, above 0; required if `fit` is given weights. A record counts as its weight
        divided by `max_weight`, while the noise stays the same. None: no weights.
    missing : {"wp", "drop"}, default="wp"
        ``"wp"`` (weight partition): a record without the value goes to both children, with half its weight each.
        ``"drop"``: incomplete records are left out.
    noise : {"secure", "seeded"}, default="secure"
        ``"secure"``: from the operating system. ``"seeded"``: reproducible, gives no privacy, needs `random_state`.
    random_state : int, Generator, SeedSequence, RandomState or None, default=None
        Seed of seeded noise, and of the draws that need no protection.
    accountant : PrivacyAccountant or None, default=None
        Account that pays; it is checked before the data is read. None: a new account with a budget of epsilon.
    bounds_from_data : bool, default=False
        Whether to read all bounds from the data, with a warning: *not private*; ``privacy_spent_`` has an infinite
        epsilon.

    Attributes
    ----------
    table_ : NodeTable
        The tree; all of it may be published.
    plan_ : TreePlan
        Levels of the tree, and the epsilon of each.
    domain_ : Domain
        The declared domain.
    category_order_ : dict of ndarray
        Categories of each feature that is split by target, in ascending order of their mean targets; thresholds of the
        table divide their ranks. It may be published.
    privacy_spent_ : PrivacySpent
        Spending of the account, line by line.
    notice_ : str
        Warning that belongs beside every result, for example that the noise is seeded; empty if there is none.
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
        Privacy loss of the fit, in nats; above 0. ``math.inf``: no noise.
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
    n_declared : float or None, default=None
        Number of records, if it is public. None: a noisy number is released for 2 % of epsilon.
    candidates : int, default=40
        Thresholds of each numeric feature, 1 to 254.
    category_order : {"declared"} or None, default=None
        Categories are split in the order of their codes: trees of several nodes are joined, and must agree on an order.
    max_weight : float or None, default=None
        Declared largest weight of a record, above 0; required if `fit` is given weights. A record counts as its weight
        divided by `max_weight`, while the noise stays the same. None: no weights.
    missing : {"wp", "drop"}, default="wp"
        ``"wp"`` (weight partition): a record without the value goes to both children, with half its weight each.
        ``"drop"``: incomplete records are left out.
    noise : {"secure", "seeded"}, default="secure"
        ``"secure"``: from the operating system. ``"seeded"``: reproducible, gives no privacy, needs `random_state`.
    random_state : int, Generator, SeedSequence, RandomState or None, default=None
        Seed of seeded noise, and of the draws that need no protection.
    accountant : PrivacyAccountant or None, default=None
        Account that pays; it is checked before the data is read. None: a new account with a budget of epsilon.
    bounds_from_data : bool, default=False
        Whether to read all bounds from the data, with a warning: *not private*; ``privacy_spent_`` has an infinite
        epsilon.

    Attributes
    ----------
    table_ : NodeTable
        The tree; all of it may be published.
    plan_ : TreePlan
        Levels of the tree, and the epsilon of each.
    domain_ : Domain
        The declared domain.
    category_order_ : dict of ndarray
        Categories of each feature that is split by target, in ascending order of their mean targets; thresholds of the
        table divide their ranks. It may be published.
    privacy_spent_ : PrivacySpent
        Spending of the account, line by line.
    notice_ : str
        Warning that belongs beside every result, for example that the noise is seeded; empty if there is none.
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

    ranges: ClassVar[dict[str, Rule]] = {**PlannedRegressor.ranges, "category_order": none_or(one_of("declared"))}
