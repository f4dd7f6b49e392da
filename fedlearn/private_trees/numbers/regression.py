"""Differentially private regression trees: one that stands alone, and one of a forest that grows elsewhere."""

from __future__ import annotations

import math
from typing import ClassVar

from fedlearn.private_trees.numbers.planned import PlannedRegressor
from fedlearn.private_trees.parameters import Rule, none_or, one_of

FEWEST = 8.0  # records of a leaf, on average, of a tree that stands alone; those of a forest are averaged anyway


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
