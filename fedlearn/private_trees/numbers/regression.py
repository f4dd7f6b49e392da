"""Differentially private regression trees: one that stands alone, and one of a forest that grows elsewhere."""

from __future__ import annotations

import math
from typing import ClassVar

from fedlearn.private_trees.described import described
from fedlearn.private_trees.numbers.planned import PlannedRegressor
from fedlearn.private_trees.parameters import Rule, none_or, one_of

FEWEST = 8.0  # records of a leaf, on average, in a tree that stands alone; a forest averages its trees


@described
class DPRegressionTree(PlannedRegressor):
    """One private regression tree that stands alone: its leaves hold at least 8 records on average.

    Pure epsilon, add or remove one record. `DPEnsembleTree` is for one tree of many.

    Parameters
    ----------
    category_order : {"target", "declared"} or None, default=None
        Order in which the categories of a feature with three or more are split. ``"target"``: by their noisy mean
        targets, which cost a tenth of epsilon. ``"declared"``: by their codes. None: declared, as a tree that stands
        alone has enough splits to tell the categories apart.

    Attributes
    ----------
    table_ : NodeTable
        The tree; all of it may be published.
    plan_ : TreePlan
        Levels of the tree, and the epsilon of each.

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


@described
class DPEnsembleTree(PlannedRegressor):
    """One tree of a forest whose others grow elsewhere, as in a federation; as deep as one of `DPRegressionForest`.

    Pure epsilon, add or remove one record. Tables of several such trees are joined by `union`.

    Parameters
    ----------
    category_order : {"declared"} or None, default=None
        Categories are split in the order of their codes: trees of several nodes are joined, and must agree on an order.

    Attributes
    ----------
    table_ : NodeTable
        The tree; all of it may be published.
    plan_ : TreePlan
        Levels of the tree, and the epsilon of each.

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
