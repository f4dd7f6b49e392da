"""What both classifiers share: the declared classes, and prediction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from fedlearn.private_trees.binning import MISSING
from fedlearn.private_trees.classes.encoding import positions
from fedlearn.private_trees.sums.additive import FloatArray
from fedlearn.private_trees.sums.fitting import PrivateSums
from fedlearn.private_trees.sums.views import Codes


class PrivateSumsClassifier(ClassifierMixin, PrivateSums):  # type: ignore[misc]
    """A classifier that is made of noisy sums."""

    classes: Sequence[object] | None

    def predict(self, X: Any) -> NDArray[Any]:
        """Return (rows,) the likeliest class.

        Parameters
        ----------
        X : array-like or DataFrame of shape (rows, features)
            As in `fit`.
        """
        likeliest = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def predict_proba(self, X: Any) -> FloatArray:
        """Return (rows, classes) probabilities, in the order of ``classes_``.

        Parameters
        ----------
        X : array-like or DataFrame of shape (rows, features)
            As in `fit`.
        """
        check_is_fitted(self)
        return self._shares(self._codes(X))

    @abstractmethod
    def _shares(self, codes: Codes) -> FloatArray:
        """Return (rows, classes) probabilities of codes (views, rows)."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.classes is None and not self.bounds_from_data:
            raise ValueError(
                "classes is not declared: name the labels that can occur, from public knowledge, or pass "
                "bounds_from_data=True, which is not private"
            )

    def _target(self, y: Any) -> tuple[FloatArray, Any]:
        if self.classes is None:
            check_classification_targets(y)
            self.classes_, found = np.unique(y, return_inverse=True)
            return found.astype(np.float64), np.ones(len(y), np.bool_)
        self.classes_ = np.unique(np.asarray(list(self.classes)))
        labels = positions(y, tuple(self.classes_.tolist()))
        return labels.astype(np.float64), labels != MISSING

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags
