"""The estimator of naive Bayes; `bayes` has the release and its proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedlearn.privacy import Noise, PrivacyAccountant
from fedlearn.private_trees.sums.additive import FloatArray
from fedlearn.private_trees.sums.bayes import counts_of, released_counts, tables_of
from fedlearn.private_trees.sums.classifier import PrivateSumsClassifier
from fedlearn.private_trees.sums.views import Codes
from fedlearn.private_trees.weights import UNIT, Whole


@dataclass(kw_only=True, eq=False, repr=False)
class DPNaiveBayes(PrivateSumsClassifier):
    """Naive Bayes on noisy counts of classes by the bins of each feature.

    Pure epsilon, add or remove one record. The whole budget pays for one release: counts, of which a record changes one
    for each feature. Fast and simple; `DPBoostingClassifier` is nearly always better, as it does not count correlated
    features twice.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of the fit, in nats; above 0. ``math.inf``: no noise.
    bounds : tuple, sequence or mapping, default=None
        Declared range of the numeric features: ``(low, high)`` for all of them, one pair for each, or a mapping from
        name or position. A third member, ``"log"``, spaces bins evenly in the logarithm. A linear range has an even
        grid of bins and one that grows from the lower bound, which suits heavy tails. Never learned from the data.
    categories : mapping or sequence, default=None
        Categories of each categorical feature as a list, or as their number k if X holds codes 0 .. k - 1; by name or
        position, or one entry for each feature (None = numeric). Never learned from the data.
    classes : sequence, default=None
        The labels that can occur.
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
    tables_ : BayesTables
        Logarithms of the classes' shares, and what each bin adds to them. All of it may be published.
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
    .. [1] Vaidya, Shafiq, Basu, Hong 2013, doi:10.1109/WI-IAT.2013.80: private naive Bayes.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.choice(["red", "green"], 2000), rng.choice(["s", "m", "l"], 2000)])
    >>> y = np.where(X[:, 0] == "red", "stop", "go")
    >>> declared = {"categories": [["red", "green"], ["s", "m", "l"]], "classes": ["go", "stop"]}
    >>> model = DPNaiveBayes(epsilon=1.0, **declared, noise="seeded", random_state=0).fit(X, y)
    >>> print(model.privacy_spent_)
    epsilon = 1 (add or remove one record; unit: record; not secure: protects nobody)
    >>> model.predict([["red", "m"], ["green", None]])
    array(['stop', 'go'], dtype='<U4')
    """

    epsilon: float = 1.0
    bounds: Any = None
    categories: Any = None
    classes: Sequence[object] | None = None
    max_weight: float | None = None
    noise: str = "secure"
    random_state: Any = None
    accountant: PrivacyAccountant | None = None
    bounds_from_data: bool = False

    one_each: ClassVar[bool] = True

    def _learn(
        self,
        X: Any,
        target: FloatArray,
        whole: Whole,
        accountant: PrivacyAccountant,
        noise: Noise,
        rng: np.random.Generator,
    ) -> None:
        epsilon = float(self.epsilon)
        accountant.spend(epsilon, what="classes by the bins of each feature", is_secure=noise.is_secure)
        counts = counts_of(self._views_.encode(X), target, self._views_, len(self.classes_), whole)
        unit = 1 if whole is None else UNIT
        released = released_counts(counts, self._views_, epsilon=epsilon, noise=noise, unit=unit)
        self.tables_ = tables_of(released, self._views_, 2 * (len(self._views_.sizes) / epsilon) ** 2)

    def _shares(self, codes: Codes) -> FloatArray:
        score = self.tables_.score(codes)
        odds = np.exp(score - score.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))
