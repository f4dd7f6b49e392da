"""The estimators of boosting; `boosting` and `losses` have the algorithm and its proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fedlearn.privacy import Noise, PrivacyAccountant
from fedlearn.private_trees.columns import numbers_of
from fedlearn.private_trees.domain import finite_range
from fedlearn.private_trees.parameters import Rule, at_least, none_or
from fedlearn.private_trees.sums.additive import FloatArray
from fedlearn.private_trees.sums.boosting import boost
from fedlearn.private_trees.sums.classifier import PrivateSumsClassifier
from fedlearn.private_trees.sums.fitting import PrivateSums
from fedlearn.private_trees.sums.losses import LogCosh, Logistic, Loss
from fedlearn.private_trees.sums.partitions import Partitions
from fedlearn.private_trees.sums.views import Codes, Views
from fedlearn.private_trees.weights import Whole

WIDTH = 0.1  # of the log-cosh loss, as a share of the width of the target bounds


class _Boosting(PrivateSums):
    n_rounds: int | None
    interactions: bool

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


@dataclass(kw_only=True, eq=False, repr=False)
class DPBoostingClassifier(_Boosting, PrivateSumsClassifier):
    """Logistic regression on sums of functions of one or two features, learned by private boosting.

    Pure epsilon, add or remove one record. Each round chooses a partition of the records by one or two features
    (permute-and-flip), releases a noisy gradient and curvature of each cell, and takes a shrunk Newton step.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of the fit, in nats; above 0. ``math.inf``: no noise.
    n_rounds : int or None, default=None
        Number of rounds, 1 or more. None: by a rule of epsilon and a noisy number of records, for 2 % of epsilon.
    interactions : bool, default=True
        Whether a round may divide the records by two features together.
    bounds : tuple, sequence or mapping, default=None
        Declared range of the numeric features: ``(low, high)`` for all of them, one pair for each, or a mapping from
        name or position. A third member, ``"log"``, spaces bins evenly in the logarithm. A linear range has an even
        grid of bins and one that grows from the lower bound, which suits heavy tails. Never learned from the data.
    categories : mapping or sequence, default=None
        Categories of each categorical feature as a list, or as their number k if X holds codes 0 .. k - 1; by name or
        position, or one entry for each feature (None = numeric). Never learned from the data.
    classes : sequence, default=None
        The labels that can occur, two or more.
    max_weight : float or None, default=None
        Declared largest weight of a record, above 0; required if `fit` is given weights. A record counts as its weight
        divided by `max_weight`, while the noise stays the same. None: no weights.
    noise : {"secure", "seeded"}, default="secure"
        ``"secure"``: from the operating system. ``"seeded"``: reproducible, gives no privacy, needs `random_state`.
    random_state : int, RandomState or None, default=None
        Seed of seeded noise, and of the draws that need no protection.
    accountant : PrivacyAccountant or None, default=None
        Account that pays; it is checked before the data is read. None: a new account.
    bounds_from_data : bool, default=False
        Whether to take undeclared bounds, categories and classes from the data, with a warning: *not private*;
        ``privacy_spent_`` has an infinite epsilon.

    Attributes
    ----------
    model_ : AdditiveModel
        Start, chosen partitions and their steps. All of it may be published.
    partitions_ : Partitions
        Partitions that a round may choose from; they follow from the declaration.
    privacy_spent_ : PrivacySpent
        Spending of this fit, line by line; epsilon is infinite if the fit is not private.
    notice_ : str
        Warning that belongs beside every result, for example that the noise is seeded; empty if there is none.
    classes_ : ndarray of shape (classes,)
        The labels, sorted.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where X had names.

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

    epsilon: float = 1.0
    n_rounds: int | None = None
    interactions: bool = True
    bounds: Any = None
    categories: Any = None
    classes: Sequence[object] | None = None
    max_weight: float | None = None
    noise: str = "secure"
    random_state: Any = None
    accountant: PrivacyAccountant | None = None
    bounds_from_data: bool = False

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


@dataclass(kw_only=True, eq=False, repr=False)
class DPBoostingRegressor(RegressorMixin, _Boosting):  # type: ignore[misc]
    """A sum of functions of one or two features, learned by private boosting of the log-cosh of the error.

    Pure epsilon, add or remove one record. The algorithm is that of `DPBoostingClassifier`; the loss is squared error
    near 0 and absolute error far from it.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of the fit, in nats; above 0. ``math.inf``: no noise.
    n_rounds : int or None, default=None
        Number of rounds, 1 or more. None: by a rule of epsilon and a noisy number of records, for 2 % of epsilon.
    interactions : bool, default=True
        Whether a round may divide the records by two features together.
    bounds : tuple, sequence or mapping, default=None
        Declared range of the numeric features: ``(low, high)`` for all of them, one pair for each, or a mapping from
        name or position. A third member, ``"log"``, spaces bins evenly in the logarithm. A linear range has an even
        grid of bins and one that grows from the lower bound, which suits heavy tails. Never learned from the data.
    categories : mapping or sequence, default=None
        Categories of each categorical feature as a list, or as their number k if X holds codes 0 .. k - 1; by name or
        position, or one entry for each feature (None = numeric). Never learned from the data.
    target_bounds : tuple, default=None
        (low, high) of the target; targets outside are clipped, predictions lie inside. Never learned from the data.
    max_weight : float or None, default=None
        Declared largest weight of a record, above 0; required if `fit` is given weights. A record counts as its weight
        divided by `max_weight`, while the noise stays the same. None: no weights.
    noise : {"secure", "seeded"}, default="secure"
        ``"secure"``: from the operating system. ``"seeded"``: reproducible, gives no privacy, needs `random_state`.
    random_state : int, RandomState or None, default=None
        Seed of seeded noise, and of the draws that need no protection.
    accountant : PrivacyAccountant or None, default=None
        Account that pays; it is checked before the data is read. None: a new account.
    bounds_from_data : bool, default=False
        Whether to take undeclared bounds, categories and classes from the data, with a warning: *not private*;
        ``privacy_spent_`` has an infinite epsilon.

    Attributes
    ----------
    model_ : AdditiveModel
        Start, chosen partitions and their steps, in widths of the target's bounds. All of it may be published.
    partitions_ : Partitions
        Partitions that a round may choose from; they follow from the declaration.
    target_bounds_ : tuple
        (low, high) of the target.
    privacy_spent_ : PrivacySpent
        Spending of this fit, line by line; epsilon is infinite if the fit is not private.
    notice_ : str
        Warning that belongs beside every result, for example that the noise is seeded; empty if there is none.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where X had names.

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

    epsilon: float = 1.0
    n_rounds: int | None = None
    interactions: bool = True
    bounds: Any = None
    categories: Any = None
    target_bounds: Any = None
    max_weight: float | None = None
    noise: str = "secure"
    random_state: Any = None
    accountant: PrivacyAccountant | None = None
    bounds_from_data: bool = False

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
