"""Estimators of the printed regression tree and forest, which report their true privacy loss."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.private_trees.as_printed.growing import Leaf, PrintedSettings, Reading, grow_printed_tree
from experiments.private_trees.as_printed.true_loss import PrintedLoss, true_privacy_loss
from fedlearn.privacy import Noise, PrivacyAccountant
from fedlearn.private_trees.described import described
from fedlearn.private_trees.domain import NotPrivateWarning
from fedlearn.private_trees.node_table import NodeTable, union
from fedlearn.private_trees.numbers.regressor import PrivateRegressor
from fedlearn.private_trees.numbers.training_set import TrainingSet
from fedlearn.private_trees.parameters import Rule, at_least
from fedlearn.private_trees.weights import refuse_weights


class PrintedRegressor(PrivateRegressor):
    """Base of the printed regressors: they book their true privacy loss, and warn."""

    categories = None  # features are numbers
    missing = "wp"  # unused: rows with missing values are refused

    depth: int
    min_split: int
    min_leaf: int
    leaf: Leaf
    reading: Reading

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._settings()

    def _settings(self) -> PrintedSettings:
        names = ("epsilon", "depth", "min_split", "min_leaf", "candidates", "leaf", "reading")
        return PrintedSettings(**{name: getattr(self, name) for name in names})

    def _loss(self) -> PrintedLoss:
        return true_privacy_loss(self._settings(), bounds_declared=not self.bounds_from_data)

    def _cost(self) -> float:
        return self._loss().epsilon

    def _spent(self, accountant: PrivacyAccountant) -> PrintedLoss:
        return self._loss()

    def _trees_on(self, training: TrainingSet, tree_of_row: NDArray[np.integer], trees: int, noise: Noise) -> NodeTable:
        options = asdict(self._settings())
        parts = [tree_of_row == tree for tree in range(trees)]
        return union(
            [
                grow_printed_tree(training.X[part], training.y[part], domain=training.domain, noise=noise, **options)
                for part in parts
            ]
        )

    def _book(self, accountant: PrivacyAccountant, noise: Noise) -> None:
        accountant.spend(self._cost(), what="as printed, what it really gives", is_secure=noise.is_secure)
        warnings.warn(
            f"{type(self).__name__} is not {self.epsilon:g}-private: {self._loss()}", NotPrivateWarning, stacklevel=5
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = False
        return tags


@described
@dataclass(kw_only=True, eq=False, repr=False)
class PrintedRegressionTree(PrintedRegressor):
    """The printed tree, one over all rows. *Not private for its epsilon*: for comparison only.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss that the paper claims for a fit, in nats; above 0. ``privacy_spent_`` has the true one.
        ``math.inf``: no noise.
    depth : int, default=15
        l_max, the most levels of splits; 0 or more.
    min_split : int, default=20
        N_split, compared with a noisy count; 1 or more.
    min_leaf : int, default=10
        N_leaf, compared with a noisy count; 1 or more.
    leaf : {"mean", "median"}, default="mean"
        Noisy means with squared errors, or private medians with absolute errors.
    reading : {"fitted", "literal"}, default="fitted"
        Reading of the paper's text where it is ambiguous (see `growing`): the one that reproduces the printed table, or
        the literal one.

    Attributes
    ----------
    table_ : NodeTable
        The tree.
    privacy_spent_ : PrintedLoss
        The claimed privacy loss, and the true one.

    References
    ----------
    .. [1] Vu, Nguyen 2020, HCMUE Journal of Science 17(12), 2251-2261, algorithm 1.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (2000, 2))
    >>> y = X[:, 0] / 10
    >>> declared = {"bounds": (0, 10), "target_bounds": (0, 1), "noise": "seeded", "random_state": 0}
    >>> tree = PrintedRegressionTree(depth=3, **declared)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # the warning that it is not private
    ...     spent = tree.fit(X, y).privacy_spent_
    >>> spent.claimed, round(spent.epsilon, 2)
    (1.0, 2.14)
    """

    bounds: Any = None
    target_bounds: Any = None
    depth: int = 15
    min_split: int = 20
    min_leaf: int = 10
    leaf: Leaf = "mean"
    reading: Reading = "fitted"
    candidates: int = 40

    def _grow(
        self, training: TrainingSet, accountant: PrivacyAccountant, noise: Noise, rng: np.random.Generator
    ) -> NodeTable:
        self._book(accountant, noise)
        return self._trees_on(training, np.zeros(len(training.y), np.int64), 1, noise)


@described
@dataclass(kw_only=True, eq=False, repr=False)
class PrintedRegressionForest(PrintedRegressor):
    """Printed trees on disjoint parts of the rows. *Not private for its epsilon*: for comparison only.

    Parameters
    ----------
    n_trees : int, default=25
        Number of trees, 1 or more.
    epsilon : float, default=1.0
        Privacy loss that the paper claims for a fit, in nats; above 0. ``privacy_spent_`` has the true one.
        ``math.inf``: no noise.
    depth : int, default=5
        l_max, the most levels of splits; 0 or more.
    min_split : int, default=20
        N_split, compared with a noisy count; 1 or more.
    min_leaf : int, default=10
        N_leaf, compared with a noisy count; 1 or more.
    leaf : {"mean", "median"}, default="mean"
        Noisy means with squared errors, or private medians with absolute errors.
    reading : {"fitted", "literal"}, default="fitted"
        Reading of the paper's text where it is ambiguous (see `growing`): the one that reproduces the printed table, or
        the literal one.

    Attributes
    ----------
    table_ : NodeTable
        The trees.
    privacy_spent_ : PrintedLoss
        The claimed privacy loss, and the true one.

    References
    ----------
    .. [1] Vu, Nguyen 2020, HCMUE Journal of Science 17(12), 2251-2261, algorithm 2.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (2000, 2))
    >>> y = X[:, 0] / 10
    >>> declared = {"bounds": (0, 10), "target_bounds": (0, 1), "noise": "seeded", "random_state": 0}
    >>> forest = PrintedRegressionForest(n_trees=4, **declared)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # the warning that it is not private
    ...     spent = forest.fit(X, y).privacy_spent_
    >>> spent.claimed, round(spent.epsilon, 2)
    (1.0, 1.91)
    """

    n_trees: int = 25
    bounds: Any = None
    target_bounds: Any = None
    depth: int = 5
    min_split: int = 20
    min_leaf: int = 10
    leaf: Leaf = "mean"
    reading: Reading = "fitted"
    candidates: int = 40

    ranges: ClassVar[dict[str, Rule]] = {**PrintedRegressor.ranges, "n_trees": at_least(1)}

    def fit(self, X: ArrayLike, y: ArrayLike, *, parts: ArrayLike | None = None, **not_taken: Any) -> Self:
        """Grow the trees on disjoint parts.

        Parameters
        ----------
        X : array-like or DataFrame of shape (rows, features)
            Numbers, none missing.
        y : array-like of shape (rows,)
            Targets. Values outside the target bounds are clipped.
        parts : array-like of shape (rows,) or None, default=None
            The tree 0 .. n_trees - 1 of each row; rows of other trees are left out. None: random trees, each row
            independently of all others.

        Returns
        -------
        self

        Raises
        ------
        BudgetExceeded
            If the account does not cover the true privacy loss; nothing is booked and no data is read.
        """
        refuse_weights(not_taken, owner=type(self).__name__)
        return self._fit(X, y, parts)

    def _num_parts(self) -> int:
        return int(self.n_trees)

    def _grow(
        self, training: TrainingSet, accountant: PrivacyAccountant, noise: Noise, rng: np.random.Generator
    ) -> NodeTable:
        tree_of_row = training.parts(self.n_trees, rng, is_secure=noise.is_secure)
        self._book(accountant, noise)
        return self._trees_on(training, tree_of_row, self.n_trees, noise)
