"""Forests of differentially private regression trees on disjoint parts of the records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from fedlearn.privacy import Noise, PrivacyAccountant
from fedlearn.private_trees.described import described
from fedlearn.private_trees.node_table import NodeTable, union
from fedlearn.private_trees.numbers.planned import PlannedRegressor
from fedlearn.private_trees.numbers.randomness import part_sources
from fedlearn.private_trees.numbers.training_set import TrainingSet
from fedlearn.private_trees.parameters import Rule, at_least


@described
@dataclass(kw_only=True, eq=False, repr=False)
class DPRegressionForest(PlannedRegressor):
    """Private trees on disjoint parts of the rows, each with the whole epsilon.

    Pure epsilon, add or remove one record. Each row goes to one of the trees at random, *independently of all other
    rows*: adding or removing a record changes one part only, so the trees compose in parallel.

    Parameters
    ----------
    category_order : {"target", "declared"} or None, default=None
        Order in which the categories of a feature with three or more are split. ``"target"``: by their noisy mean
        targets, which cost a tenth of epsilon. ``"declared"``: by their codes. None: target, or declared if `fit` is
        given parts.
    n_trees : int, default=25
        Number of trees, 1 or more.

    Attributes
    ----------
    table_ : NodeTable
        The trees; all of it may be published.
    plan_ : TreePlan
        Levels of each tree, and the epsilon of each level.

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
    ranges: ClassVar[dict[str, Rule]] = {**PlannedRegressor.ranges, "n_trees": at_least(1)}

    def fit(  # type: ignore[override]
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, *, parts: ArrayLike | None = None
    ) -> Self:
        """Grow the trees on disjoint parts; the account is checked before the data is read.

        Parameters
        ----------
        X : array-like or DataFrame of shape (rows, features)
            Records. NaN is a missing value; categorical features hold codes 0 .. k - 1.
        y : array-like of shape (rows,)
            Targets. Values outside the target bounds are clipped.
        sample_weight : array-like of shape (rows,) or None, default=None
            Weights from 0 to `max_weight`, which must be declared. Larger weights are clipped; negative ones, and cells
            that are not numbers, count as 0. None: all weights are 1.
        parts : array-like of shape (rows,) or None, default=None
            The tree 0 .. n_trees - 1 of each row, for example the node that holds it; rows of other trees are left out.
            A record's part must not depend on other records. None: random parts.

        Returns
        -------
        self

        Raises
        ------
        BudgetExceeded
            If the account does not cover epsilon; nothing is booked and no data is read.
        ValueError
            If a parameter is out of its range, or X, y, weights and parts are not as they were declared.
        """
        if parts is not None and self.category_order == "target":
            raise ValueError("category_order = 'target': records must be in one place; leave it out if parts are given")
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
        """Return the tree of one given part, with randomness of its own, as the node of that part would grow it."""
        noise, rng = part_sources(self.noise, self.random_state, part)
        return self._trees_on(training, np.zeros(len(training.y), np.int64), 1, noise, rng)
