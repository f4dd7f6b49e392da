"""Base of both classifiers of sums: declared classes and prediction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from fedlearn.private_trees.declared_input import check_classes, classes_of
from fedlearn.private_trees.sums.additive import FloatArray
from fedlearn.private_trees.sums.private_sums import PrivateSums
from fedlearn.private_trees.sums.views import Codes


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSumsClassifier(ClassifierMixin, PrivateSums):  # type: ignore[misc]
    """A classifier made of noisy sums."""

    classes: Sequence[object] | None = None

    def predict(self, X: Any) -> NDArray[Any]:
        """Return (rows,) the likeliest class of each row.

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
        check_classes(self.classes, bounds_from_data=self.bounds_from_data)

    def _target(self, y: Any) -> tuple[FloatArray, Any]:
        self.classes_, labels = classes_of(self.classes, y)
        return labels.astype(np.float64), labels >= 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags
