"""The estimator of naive Bayes; `bayes` has the release and its proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedlearn.privacy import Noise, PrivacyAccountant
from fedlearn.private_trees.described import described
from fedlearn.private_trees.sums.additive import FloatArray
from fedlearn.private_trees.sums.bayes import counts_of, released_counts, tables_of
from fedlearn.private_trees.sums.sums_classifier import PrivateSumsClassifier
from fedlearn.private_trees.sums.views import Codes
from fedlearn.private_trees.weights import UNIT, Whole


@described
@dataclass(kw_only=True, eq=False, repr=False)
class DPNaiveBayes(PrivateSumsClassifier):
    """Naive Bayes on noisy counts of classes by the bins of each feature.

    Pure epsilon, add or remove one record. The whole budget pays for one release: counts, of which a record changes one
    for each feature. Fast and simple; `DPBoostingClassifier` is nearly always better, as it does not count correlated
    features twice.

    Parameters
    ----------
    classes : sequence, default=None
        The labels that can occur.

    Attributes
    ----------
    tables_ : BayesTables
        Logarithms of the classes' shares, and what each bin adds to them. All of it may be published.
    classes_ : ndarray of shape (classes,)
        The labels, sorted.

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
