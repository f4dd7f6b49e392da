"""Base of the estimators of this folder: parameters, account, declaration, order of a fit.

A fit follows a fixed order: parameters are checked, then the account, and only then is the data read. No error depends
on a single record: an infinite number is clipped, text in a numeric column is missing, a row without a valid target is
left out, and the data may have no rows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from fedlearn.privacy import Noise, PrivacyAccountant
from fedlearn.private_trees.accounts import NOT_DECLARED, account_for
from fedlearn.private_trees.declared_input import DeclaredInput
from fedlearn.private_trees.numbers.randomness import sources
from fedlearn.private_trees.parameters import COMMON, Rule, check_parameters
from fedlearn.private_trees.sums.additive import FloatArray
from fedlearn.private_trees.sums.views import Codes, Views
from fedlearn.private_trees.table_cells import names_of
from fedlearn.private_trees.weights import MAX_WEIGHT, Whole, check_declared, shares_of

RULES = {**{name: COMMON[name] for name in ("epsilon", "noise")}, "max_weight": MAX_WEIGHT}


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSums(DeclaredInput):
    """Base of the estimators made of noisy sums over declared cells.

    Parameters
    ----------
    bounds : tuple, sequence or mapping, default=None
        Declared range of the numeric features: ``(low, high)`` for all of them, one pair for each, or a mapping from
        name or position. A third member, ``"log"``, spaces bins evenly in the logarithm. A linear range has an even
        grid of bins and one that grows from the lower bound, which suits heavy tails. Never learned from the data.
    categories : mapping or sequence, default=None
        Categories of each categorical feature as a list, or as their number k if X holds codes 0 .. k - 1; by name or
        position, or one entry for each feature (None = numeric). Never learned from the data.
    bounds_from_data : bool, default=False
        Whether to take undeclared bounds, categories and classes from the data, with a warning: *not private*;
        ``privacy_spent_`` has an infinite epsilon.
    """

    bounds: Any = None
    categories: Any = None
    max_weight: float | None = None

    ranges: ClassVar[dict[str, Rule]] = RULES
    one_each: ClassVar[bool] = False  # whether a numeric column has a single view

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from X and y; the account is checked before the data is read.

        Parameters
        ----------
        X : array-like or DataFrame of shape (rows, features)
            Numbers, clipped to their declared bounds, and declared categories. None, NaN and undeclared categories are
            missing, which is a bin of its own. X may have no rows.
        y : array-like of shape (rows,)
            Targets; rows whose target is NaN, or not a declared class, are left out.
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
        self._check_parameters()
        check_declared(sample_weight, max_weight=self.max_weight, owner=type(self).__name__)
        accountant = self._account()
        noise, rng = sources(self.noise, self.random_state)
        X, y = self._checked_pair(X, y)
        whole = shares_of(sample_weight, rows=len(y), max_weight=self.max_weight)
        self._views_ = self._declared(X, one_each=self.one_each)
        target, kept = self._target(y)
        if not kept.all():
            X, target = X.iloc[kept] if hasattr(X, "iloc") else X[kept], target[kept]
            whole = None if whole is None else whole[kept]
        self._learn(X, target, whole, accountant, noise, rng)
        self.notice_ = "; ".join(filter(None, [noise.notice, NOT_DECLARED if self.bounds_from_data else ""]))
        self.privacy_spent_ = accountant.spent
        return self

    @abstractmethod
    def _learn(
        self,
        X: Any,
        target: FloatArray,
        whole: Whole,
        accountant: PrivacyAccountant,
        noise: Noise,
        rng: np.random.Generator,
    ) -> None:
        """Book the privacy loss, then learn from X (rows, features) and targets (rows,), and store the model.

        `whole` is (rows,) the weight of each record in UNITs; None: no weights.
        """

    @abstractmethod
    def _target(self, y: Any) -> tuple[FloatArray, Any]:
        """Return (rows,) targets in the model's unit, and (rows,) whether each row is kept."""

    def _codes(self, X: Any) -> Codes:
        return self._views_.encode(self._checked(X, reset=False))

    def _check_parameters(self) -> None:
        check_parameters(self, self.ranges)
        if self.bounds is None and self.categories is None and not self.bounds_from_data:
            raise ValueError(
                "bounds: none declared; pass (low, high) for each feature, or categories, from public knowledge, or "
                "bounds_from_data=True, which is not private"
            )

    def _account(self) -> PrivacyAccountant:
        """Return the account that pays; raises BudgetExceeded if it does not cover the fit."""
        cost = math.inf if self.bounds_from_data else float(self.epsilon)
        accountant = account_for(self, cost, by="a sum over records")
        if self.bounds_from_data:
            accountant.spend(math.inf, what=NOT_DECLARED)
        return accountant

    def _declared(self, X: Any, *, one_each: bool) -> Views:
        if self.bounds_from_data and self.bounds is None:
            return Views.from_data(X, categories=self.categories, names=names_of(self), one_each=one_each)
        return Views.declare(
            self.n_features_in_,
            bounds=self.bounds,
            categories=self.categories,
            names=names_of(self),
            one_each=one_each,
        )
