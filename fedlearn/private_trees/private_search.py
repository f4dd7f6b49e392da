"""Private search of an estimator's parameters under one budget: `PrivateSearch`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from fedlearn.privacy import (
    Noise,
    PrivacyAccountant,
    disjoint_parts,
    geometric,
    secure_noise,
    seeded_noise,
)
from fedlearn.privacy.searching import ETAS, best_of, continuation, cost_of_search, number_of_runs
from fedlearn.private_trees.accounts import account_for
from fedlearn.private_trees.binning import MISSING
from fedlearn.private_trees.declared_input import positions
from fedlearn.private_trees.parameters import COMMON, Rule, at_least, check_parameters
from fedlearn.private_trees.table_cells import numbers_of
from fedlearn.private_trees.weights import refuse_weights

Candidate = dict[str, Any]
UNIT = 2**20  # score of a correct prediction
DECIDED = {"epsilon", "noise", "random_state", "accountant"}  # parameters that the search sets itself
RULES = {
    "epsilon": Rule("above 0 and finite", lambda epsilon: 0 < epsilon < math.inf),
    "noise": COMMON["noise"],
    "folds": at_least(2),
    "eta": Rule("0 or 1", lambda eta: eta in ETAS),
    "mean_runs": Rule("above 1 and finite", lambda mean: 1 < mean < math.inf),
}


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSearch(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """The best of a random number of private fits, with parameters drawn from a grid, under one budget.

    Pure epsilon, add or remove one record. scikit-learn's grid search would spend the budget of every fit. This search
    costs three fits (``eta=0``: two), as only the best fit is published; `fedlearn.privacy.searching` has the proof.

    Each record is drawn at random for training or for scoring. A run draws a candidate from the grid, fits it on the
    training records, and adds up a score over the others, with discrete Laplace noise. A classifier scores 1 for a
    correct prediction; a regressor scores 1 less the absolute error, as a share of the width of its target bounds. One
    record changes the score by at most 1. Fit and score cost epsilon / (2 + eta) each, on disjoint records.

    Parameters
    ----------
    estimator : estimator
        Estimator of this package with the parameters epsilon, noise, random_state and accountant, which the search
        sets.
    grid : mapping or sequence of mappings
        Values to try, by parameter; all combinations are equally likely. The grid must not depend on the data.
    epsilon : float, default=1.0
        Privacy loss of the whole search, in nats; above 0.
    mean_runs : float, default=10.0
        Average number of runs, above 1. The actual number is secret.
    eta : {0, 1}, default=1
        Distribution of the number of runs. 0: logarithmic; the search costs two runs, and with a mean of 10 a quarter
        of all searches make only one. 1: geometric; the search costs three runs, and a tenth make only one.
    folds : int, default=5
        One record in `folds` is used for scoring; 2 or more.
    noise : {"secure", "seeded"}, default="secure"
        ``"secure"``: from the operating system. ``"seeded"``: reproducible, gives no privacy, needs `random_state`.
    random_state : int or None, default=None
        Seed of seeded noise.
    accountant : PrivacyAccountant or None, default=None
        Account that pays; it is checked before the data is read. None: a new account with a budget of epsilon.

    Attributes
    ----------
    best_estimator_ : estimator
        The published fit; its ``privacy_spent_`` is that of the whole search.
    best_params_ : dict
        Parameters of the best fit, from the grid.
    best_score_ : float
        Noisy score of the best fit, in records.
    privacy_spent_ : PrivacySpent
        Spending of the account, line by line.
    notice_ : str
        Warning that belongs beside every result, for example that the noise is seeded; empty if there is none.

    References
    ----------
    .. [1] Liu, Talwar 2019, arXiv:1811.07971: private selection from private candidates.
    .. [2] Papernot, Steinke 2022, arXiv:2110.03620: distributions of the number of runs.

    Examples
    --------
    >>> from fedlearn.private_trees import DPRegressionTree
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (4000, 2))
    >>> tree = DPRegressionTree(bounds=(0, 10), target_bounds=(0, 1))
    >>> search = PrivateSearch(estimator=tree, grid={"depth": [0, 4]}, epsilon=2.0, noise="seeded", random_state=1)
    >>> search.fit(X, X[:, 0] / 10).best_params_
    {'depth': 4}
    >>> print(search.privacy_spent_)
    epsilon = 2 (add or remove one record; unit: record; not secure: protects nobody)
    """

    estimator: Any
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
    epsilon: float = 1.0
    mean_runs: float = 10.0
    eta: int = 1
    folds: int = 5
    noise: str = "secure"
    random_state: Any = None
    accountant: PrivacyAccountant | None = None

    def fit(self, X: ArrayLike, y: ArrayLike, **not_taken: Any) -> Self:
        """Search; the account is checked before the data is read.

        Parameters
        ----------
        X : array-like or DataFrame of shape (rows, features)
            As the estimator takes it.
        y : array-like of shape (rows,)
            As the estimator takes it.

        Returns
        -------
        self

        Raises
        ------
        BudgetExceeded
            If the account does not cover epsilon; nothing is booked and no data is read.
        ValueError
            If a parameter is out of its range or one of the grid is not the estimator's.
        """
        refuse_weights(not_taken, owner=type(self).__name__)
        candidates = self._candidates()
        if y is None:
            raise ValueError("y is None: a search requires y to be passed, but the target y is None")
        rows, targets = (table.shape[0] if hasattr(table, "shape") else len(np.asarray(table)) for table in (X, y))
        if rows != targets:
            raise ValueError(f"X has {rows} rows and y {targets} targets: the numbers must be equal")
        accountant = account_for(self, self.epsilon, by="a private search")
        is_secure = self.noise == "secure"
        accountant.spend(self.epsilon, what=f"the best of a secret number of runs, {2 + self.eta} times one of them",
                         is_secure=is_secure)  # fmt: skip
        # Candidates, their number and the parts must stay secret: with secure noise they cannot be reproduced.
        rng = np.random.default_rng() if is_secure else np.random.default_rng(self.random_state)
        is_scored = self._scored(rows, rng)
        runs = number_of_runs(self.mean_runs, eta=self.eta, rng=rng)

        def run() -> tuple[float, tuple[Any, Candidate]]:
            candidate = candidates[rng.integers(len(candidates))]
            score, fitted = self._run(candidate, X, y, is_scored, seed=int(rng.integers(2**31)))
            return score, (fitted, candidate)

        self.best_score_, (self.best_estimator_, self.best_params_) = best_of(run, runs=runs)
        self.privacy_spent_ = self.best_estimator_.privacy_spent_ = accountant.spent
        self.notice_ = "" if is_secure else seeded_noise(0).notice
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return (rows,) the predictions of the best estimator.

        Parameters
        ----------
        X : array-like or DataFrame of shape (rows, features)
            As in `fit`.
        """
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict(X))

    def _candidates(self) -> list[Candidate]:
        """Return all combinations of the grid, after a check that the estimator takes them."""
        check_parameters(self, RULES)
        continuation(self.mean_runs, eta=self.eta)
        grids = [self.grid] if isinstance(self.grid, Mapping) else list(self.grid)
        found = [dict(zip(grid, values, strict=True)) for grid in grids for values in itertools.product(*grid.values())]
        if not found:
            raise ValueError("grid: no candidate; give each parameter at least one value")
        for candidate in found:
            if decided := sorted(DECIDED & candidate.keys()):
                raise ValueError(f"grid: {decided[0]!r} is set by the search; give it to PrivateSearch itself")
            clone(self.estimator).set_params(**candidate)
        if getattr(self.estimator, "bounds_from_data", False):
            raise ValueError("estimator: bounds_from_data=True is not private, so no search with it is")
        return found

    def _scored(self, rows: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Return (rows,) whether each record is used for scoring; the others are for training."""
        return np.asarray(disjoint_parts(rows, count=self.folds, rng=rng) == 0)

    def _run(
        self, candidate: Candidate, X: Any, y: Any, is_scored: NDArray[np.bool_], *, seed: int
    ) -> tuple[float, Any]:
        """Return the noisy score and the fitted estimator of one run, which costs epsilon / (2 + eta)."""
        epsilon = self.epsilon / cost_of_search(1.0, eta=self.eta)
        decided = {"epsilon": epsilon, "noise": self.noise, "random_state": seed, "accountant": None}
        fitted = (
            clone(self.estimator).set_params(**candidate, **decided).fit(_rows(X, ~is_scored), _rows(y, ~is_scored))
        )
        merit = _merit(fitted, _rows(X, is_scored), _rows(y, is_scored)).sum() if is_scored.any() else 0
        noise: Noise = secure_noise() if self.noise == "secure" else seeded_noise(np.random.SeedSequence([seed, 1]))
        return float(geometric([merit], sensitivity=UNIT, epsilon=epsilon, noise=noise)[0] / UNIT), fitted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        wrapped = self.estimator.__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = wrapped.estimator_type, wrapped.classifier_tags
        tags.regressor_tags, tags.input_tags = wrapped.regressor_tags, wrapped.input_tags
        tags.non_deterministic = self.noise == "secure"
        return tags


def _rows(table: Any, kept: NDArray[np.bool_]) -> Any:
    return table.iloc[np.flatnonzero(kept)] if hasattr(table, "iloc") else np.asarray(table)[kept]


def _merit(fitted: Any, X: Any, y: Any) -> NDArray[np.int64]:
    """Return (rows,) the score of each prediction, 0 .. UNIT; integers, so that their sum is exact."""
    if is_classifier(fitted):
        known = tuple(fitted.classes_.tolist())
        predicted, true = (positions(np.asarray(labels), known) for labels in (fitted.predict(X), y))
        return np.where((predicted == true) & (true != MISSING), UNIT, 0)
    low, high = (float(end) for end in fitted.target_bounds)
    targets = numbers_of(y if hasattr(y, "iloc") else np.asarray(y), else_missing=True)
    error = np.abs(np.clip(targets, low, high) - fitted.predict(X)) / (high - low)
    return np.asarray(np.rint(UNIT * np.clip(1 - np.nan_to_num(error, nan=1.0), 0, 1)), np.int64)
