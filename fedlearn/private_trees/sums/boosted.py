"""The estimators of boosting; `boosting` and `losses` have the algorithm and its proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fedlearn.privacy import Noise, PrivacyAccountant
from fedlearn.private_trees.described import described
from fedlearn.private_trees.domain import finite_range
from fedlearn.private_trees.parameters import Rule, at_least, none_or
from fedlearn.private_trees.sums.additive import FloatArray
from fedlearn.private_trees.sums.boosting import boost
from fedlearn.private_trees.sums.losses import LogCosh, Logistic, Loss
from fedlearn.private_trees.sums.private_sums import PrivateSums
from fedlearn.private_trees.sums.record_partitions import Partitions
from fedlearn.private_trees.sums.sums_classifier import PrivateSumsClassifier
from fedlearn.private_trees.sums.views import Codes, Views
from fedlearn.private_trees.table_cells import numbers_of
from fedlearn.private_trees.weights import Whole

WIDTH = 0.1  # of the log-cosh loss, as a share of the width of the target bounds


@dataclass(kw_only=True, eq=False, repr=False)
class _Boosting(PrivateSums):
    """Base of the estimators that learn by boosting.

    Parameters
    ----------
    n_rounds : int or None, default=None
        Number of rounds, 1 or more. None: by a rule of epsilon and a noisy number of records, for 2 % of epsilon.
    interactions : bool, default=True
        Whether a round may divide the records by two features together.

    Attributes
    ----------
    partitions_ : Partitions
        Partitions that a round may choose from; they follow from the declaration.
    """

    n_rounds: int | None = None
    interactions: bool = True

    ranges: ClassVar[dict[str, Rule]] = {**PrivateSums.ranges, "n_rounds": none_or(at_least(1))}

    def _boost(
        self,
        X: Any,
        target: FloatArray,
        whole: Whole,
        loss: Loss,
        accountant: PrivacyAccountant,
        noise: Noise,
        rng: np.random.Generator,
    ) -> None:
        self._views_, self.model_ = boost(
            X,
            target,
            whole=whole,
            views=self._views_,
            fine=self._fine(X),
            pairs=self.interactions,
            loss=loss,
            epsilon=float(self.epsilon),
            rounds=self.n_rounds,
            accountant=accountant,
            noise=noise,
            rng=rng,
        )
        self.partitions_ = Partitions.of(self._views_, pairs=self.interactions)

    def _fine(self, X: Any) -> Views:
        return self._declared(X, one_each=True).of_numbers


@described
@dataclass(kw_only=True, eq=False, repr=False)
class DPBoostingClassifier(_Boosting, PrivateSumsClassifier):
    """Logistic regression on sums of functions of one or two features, learned by private boosting.

    Pure epsilon, add or remove one record. Each round chooses a partition of the records by one or two features
    (permute-and-flip), releases a noisy gradient and curvature of each cell, and takes a shrunk Newton step.

    Parameters
    ----------
    classes : sequence, default=None
        The labels that can occur, two or more.

    Attributes
    ----------
    model_ : AdditiveModel
        Start, chosen partitions and their steps. All of it may be published.
    classes_ : ndarray of shape (classes,)
        The labels, sorted.

    References
    ----------
    .. [1] Friedman 2001, doi:10.1214/aos/1013203451: gradient boosting.
    .. [2] Nori, Caruana, Bu, Shen, Kulkarni 2021, arXiv:2106.09680: DP-EBM, whose noise is Gaussian.
    .. [3] Hardt, Ligett, McSherry 2012, arXiv:1012.4763: choosing privately what to measure.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (5000, 2))
    >>> y = np.where(X[:, 0] + rng.normal(size=5000) > 5, "high", "low")
    >>> declared = {"bounds": (0, 10), "classes": ["low", "high"]}
    >>> model = DPBoostingClassifier(epsilon=1.0, **declared, noise="seeded", random_state=0).fit(X, y)
    >>> print(model.privacy_spent_)
    epsilon = 1 (add or remove one record; unit: record; not secure: protects nobody)
    >>> model.predict([[1.0, 5.0], [9.0, np.nan]])
    array(['low', 'high'], dtype='<U4')
    """

    def _learn(
        self,
        X: Any,
        target: FloatArray,
        whole: Whole,
        accountant: PrivacyAccountant,
        noise: Noise,
        rng: np.random.Generator,
    ) -> None:
        self._boost(X, target, whole, Logistic(len(self.classes_)), accountant, noise, rng)

    def _shares(self, codes: Codes) -> FloatArray:
        return Logistic(len(self.classes_)).shares(self.model_.score(codes, self.partitions_))


@described
@dataclass(kw_only=True, eq=False, repr=False)
class DPBoostingRegressor(RegressorMixin, _Boosting):  # type: ignore[misc]
    """A sum of functions of one or two features, learned by private boosting of the log-cosh of the error.

    Pure epsilon, add or remove one record. The algorithm is that of `DPBoostingClassifier`; the loss is squared error
    near 0 and absolute error far from it.

    Parameters
    ----------
    target_bounds : tuple, default=None
        (low, high) of the target; targets outside are clipped, predictions lie inside. Never learned from the data.

    Attributes
    ----------
    model_ : AdditiveModel
        Start, chosen partitions and their steps, in widths of the target's bounds. All of it may be published.
    target_bounds_ : tuple
        (low, high) of the target.

    References
    ----------
    .. [1] Friedman 2001, doi:10.1214/aos/1013203451: gradient boosting.
    .. [2] Nori, Caruana, Bu, Shen, Kulkarni 2021, arXiv:2106.09680: DP-EBM, whose noise is Gaussian.
    .. [3] Hardt, Ligett, McSherry 2012, arXiv:1012.4763: choosing privately what to measure.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (5000, 2))
    >>> declared = {"bounds": (0, 10), "target_bounds": (-1, 1)}
    >>> model = DPBoostingRegressor(epsilon=4.0, **declared, noise="seeded", random_state=0).fit(X, np.sin(X[:, 0]))
    >>> print(model.privacy_spent_)
    epsilon = 4 (add or remove one record; unit: record; not secure: protects nobody)
    >>> bool(model.predict([[1.6, 5.0]]) > model.predict([[4.7, 5.0]]))
    True
    """

    target_bounds: Any = None

    def predict(self, X: Any) -> FloatArray:
        """Return (rows,) predictions, inside the target bounds.

        Parameters
        ----------
        X : array-like or DataFrame of shape (rows, features)
            As in `fit`.
        """
        check_is_fitted(self)
        low, high = self.target_bounds_
        score = self.model_.score(self._codes(X), self.partitions_)[:, 0]
        return np.asarray(low + np.clip(score, 0, 1) * (high - low))

    def _learn(
        self,
        X: Any,
        target: FloatArray,
        whole: Whole,
        accountant: PrivacyAccountant,
        noise: Noise,
        rng: np.random.Generator,
    ) -> None:
        self._boost(X, target, whole, LogCosh(WIDTH), accountant, noise, rng)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.target_bounds is None and not self.bounds_from_data:
            raise ValueError("target_bounds: none declared; pass (low, high) from public knowledge")

    def _target(self, y: Any) -> tuple[FloatArray, Any]:
        numbers = numbers_of(np.asarray(y), else_missing=True)
        low, high = self._bounds_of(numbers)
        self.target_bounds_ = (low, high)
        kept = ~np.isnan(numbers)
        return (np.clip(np.where(kept, numbers, low), low, high) - low) / (high - low), kept

    def _bounds_of(self, numbers: FloatArray) -> tuple[float, float]:
        if self.target_bounds is None:
            (low,), (high,) = finite_range(numbers[:, None])
        else:
            low, high = self.target_bounds
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise ValueError(f"target_bounds = {self.target_bounds!r}: two finite numbers, the lower one first")
        return float(low), float(high)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
