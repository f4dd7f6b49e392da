"""Base of all private regressors: declared parameters, checked input, the account, prediction.

A fit follows a fixed order: parameters are checked, then the account, and only then is the data read.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import assert_all_finite, check_is_fitted, column_or_1d, validate_data

from fedlearn.privacy import Noise, PrivacyAccountant, geometric
from fedlearn.private_trees.accounts import NOT_DECLARED, account_for
from fedlearn.private_trees.binning import Grid
from fedlearn.private_trees.domain import Domain
from fedlearn.private_trees.node_table import NodeTable
from fedlearn.private_trees.numbers.randomness import sources
from fedlearn.private_trees.numbers.training_set import TrainingSet, checked_parts
from fedlearn.private_trees.numbers.tree_plan import N_SHARE
from fedlearn.private_trees.parameters import COMMON, PrivateFit, Rule, check_parameters
from fedlearn.private_trees.predicting import predict
from fedlearn.private_trees.table_cells import names_of, numbers_of, table_of, without_imaginary
from fedlearn.private_trees.tree_drawing import Drawable
from fedlearn.private_trees.weights import UNIT, check_declared, refuse_weights, shares_of

FloatArray = NDArray[np.float64]


class PrivateRegressor(Drawable, RegressorMixin, PrivateFit):  # type: ignore[misc]
    """Base of the private regressors: subclasses build ``table_`` in ``_grow``.

    Parameters
    ----------
    bounds : tuple, sequence of tuples or mapping, default=None
        Declared range of the numeric features, never learned from the data: ``(low, high)`` for all of them, one pair
        for each, or a mapping from a feature's name or position to its pair. A third member, ``"log"``, spaces the
        thresholds evenly in the logarithm. Values outside are clipped.
    target_bounds : tuple of two floats, default=None
        Declared range of the target; values outside are clipped. Needed, like `bounds`, unless `bounds_from_data`.
    categories : mapping or sequence of int, default=None
        Number of categories by the feature's name or position, or one number for each feature, 0 = numeric. Values are
        codes 0 .. k - 1 and are split in that order.
    n_declared : float or None, default=None
        Number of records, if it is public. None: a noisy number is released for 2 % of epsilon.
    candidates : int, default=40
        Thresholds of each numeric feature, 1 to 254.
    missing : {"wp", "drop"}, default="wp"
        ``"wp"`` (weight partition): a record without the value goes to both children, with half its weight each.
        ``"drop"``: incomplete records are left out.
    random_state : int, Generator, SeedSequence, RandomState or None, default=None
        Seed of seeded noise, and of the draws that need no protection.
    accountant : PrivacyAccountant or None, default=None
        Account that pays; it is checked before the data is read. None: a new account with a budget of epsilon.
    bounds_from_data : bool, default=False
        Whether to read all bounds from the data, with a warning: *not private*; ``privacy_spent_`` has an infinite
        epsilon.

    Attributes
    ----------
    domain_ : Domain
        The declared domain.
    privacy_spent_ : PrivacySpent
        Spending of the account, line by line.
    """

    bounds: Any
    target_bounds: Any
    categories: Any
    candidates: int
    missing: str
    max_weight: float | None = None  # a parameter of the regressors that take weights

    ranges: ClassVar[dict[str, Rule]] = COMMON

    def fit(self, X: ArrayLike, y: ArrayLike, **not_taken: Any) -> Self:
        """Grow the trees; the account is checked before the data is read.

        Parameters
        ----------
        X : array-like or DataFrame of shape (rows, features)
            Records. NaN and cells that are not numbers are missing; categorical features hold codes 0 .. k - 1. Values
            outside the bounds are clipped. X may have no rows.
        y : array-like of shape (rows,)
            Targets. Values outside the target bounds are clipped; rows whose target is not a number are left out.

        Returns
        -------
        self

        Raises
        ------
        BudgetExceeded
            If the account does not cover epsilon; nothing is booked and no data is read.
        ValueError
            If a parameter is out of its range, or X and y are not as they were declared.
        """
        refuse_weights(not_taken, owner=type(self).__name__)
        return self._fit(X, y)

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return (rows,) predictions, inside the target bounds.

        Parameters
        ----------
        X : array-like or DataFrame of shape (rows, features)
            Records, as in `fit`; at a missing value the row goes to all children, its weight divided.
        """
        check_is_fitted(self, "table_")
        return self._predict(self._table(X, reset=False))

    def _fit(
        self, X: ArrayLike, y: ArrayLike, parts: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        self._check_parameters()
        check_declared(sample_weight, max_weight=self.max_weight, owner=type(self).__name__)
        accountant = account_for(self, self._cost(), by="a private tree")
        if self.bounds_from_data:
            accountant.spend(math.inf, what=NOT_DECLARED)
        noise, rng = sources(self.noise, self.random_state)
        training = self._training_set(X, y, parts, sample_weight)
        self.table_ = self._grow(training, accountant, noise, rng)
        self.domain_ = training.domain
        self.notice_ = "; ".join(filter(None, [noise.notice, "" if training.domain.is_declared else NOT_DECLARED]))
        self.privacy_spent_: Any = self._spent(accountant)
        return self

    @abstractmethod
    def _grow(
        self, training: TrainingSet, accountant: PrivacyAccountant, noise: Noise, rng: np.random.Generator
    ) -> NodeTable:
        """Return the trees, and book their privacy loss; `rng` is for draws that need no protection."""

    def _predict(self, X: FloatArray) -> FloatArray:
        low, high = self.domain_.target_bounds
        return np.clip(predict(self.table_, X)[:, 0], low, high)

    def _cost(self) -> float:
        """Return the privacy loss of the fit; infinite if bounds are read from the data."""
        return math.inf if self.bounds_from_data else self.epsilon

    def _spent(self, accountant: PrivacyAccountant) -> Any:
        return accountant.spent

    def _check_parameters(self) -> None:
        check_parameters(self, self.ranges)
        if self.bounds is None and not self.bounds_from_data and self.categories is None:
            raise ValueError(
                "bounds: none declared; pass (low, high) for each feature from public knowledge, or "
                "bounds_from_data=True, which is not private"
            )
        if self.target_bounds is None and not self.bounds_from_data:
            raise ValueError("target_bounds: none declared; pass (low, high) from public knowledge")

    def _training_set(
        self, X: ArrayLike, y: ArrayLike, parts: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> TrainingSet:
        table, target = self._checked(X, y)
        domain = self._domain(table, target)
        table = np.where((domain.categories > 0) & ((table < 0) | (table >= domain.categories)), np.nan, table)
        grid = Grid.of(domain, candidates=self.candidates)
        given = checked_parts(parts, rows=len(table), count=self._num_parts())
        whole = shares_of(sample_weight, rows=len(table), max_weight=self.max_weight)
        training = TrainingSet(table, target, domain, grid, given, whole)
        kept = ~np.isnan(target) if given is None else ~np.isnan(target) & (given >= 0)
        if self.missing == "drop":
            kept &= ~np.isnan(table).any(axis=1)
        return training if kept.all() else training.where(kept)

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return X and y as arrays after a check of their form alone: an error about a value would reveal a record."""
        if y is None:
            raise ValueError("y is None: this regressor requires y to be passed, but the target y is None")
        table = self._table(X, reset=True)
        target = column_or_1d(without_imaginary(y), warn=True)
        target = numbers_of(target, else_missing=True) if self._is_total() else np.asarray(target, np.float64)
        if not self._is_total():
            assert_all_finite(target, input_name="y")
        if len(table) != len(target):
            raise ValueError(f"X has {len(table)} rows and y {len(target)} targets: the numbers must be equal")
        return table, target

    def _table(self, X: Any, *, reset: bool) -> FloatArray:
        """Return (rows, features) X as numbers, NaN where one is missing."""
        if not self._is_total():
            return np.asarray(validate_data(self, X, reset=reset, dtype=np.float64))
        if hasattr(X, "iloc"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return table_of(X)
        X = without_imaginary(X)
        return table_of(validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=0))

    def _num_parts(self) -> int:
        """Return the number of disjoint parts of the records."""
        return 1

    def _is_total(self) -> bool:
        """Return whether a fit accepts any cell; the printed algorithms do not."""
        return bool(self.__sklearn_tags__().input_tags.allow_nan)

    def _domain(self, X: FloatArray, y: FloatArray) -> Domain:
        names = names_of(self)
        if self.bounds_from_data:
            return Domain.from_data(X, y, categories=self.categories, feature_names=names)
        return Domain.declare(
            num_features=X.shape[1],
            bounds=self.bounds,
            categories=self.categories,
            target_bounds=self.target_bounds,
            feature_names=names,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True  # a text cell counts as missing
        tags.regressor_tags.poor_score = True  # noise, by design
        tags.non_deterministic = self.noise == "secure"
        return tags


def released_number(
    training: TrainingSet,
    *,
    epsilon: float,
    declared: float | None,
    accountant: PrivacyAccountant,
    noise: Noise,
) -> tuple[float, float]:
    """Return the number of records, at least 1, and the rest of epsilon: the declared number, or a noisy release.

    One record changes the count by 1. Records with weights are counted by weight, in whole UNITs: one record changes
    the sum by at most UNIT.
    """
    if declared is not None:
        return max(float(declared), 1.0), epsilon
    unit = 1 if training.whole is None else UNIT
    number = len(training.y) if training.whole is None else int(training.whole.sum())
    if math.isinf(epsilon):
        return max(number / unit, 1.0), epsilon
    share = N_SHARE * epsilon
    accountant.spend(share, what="number of records", is_secure=noise.is_secure)
    released = geometric(np.array([number]), sensitivity=unit, epsilon=share, noise=noise)
    return max(float(released[0] / unit), 1.0), epsilon - share
