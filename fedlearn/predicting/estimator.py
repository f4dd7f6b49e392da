"""A run as a fitted estimator of scikit-learn."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from fedlearn.core.errors import UsageError
from fedlearn.predicting.predictor import Predictor


class FittedRun(BaseEstimator):  # type: ignore[misc]
    """The model of a run: `predict`, `score`, and `predict_proba` where there are classes.

    Parameters
    ----------
    predictor : Predictor
        The model with its preparation.

    Attributes
    ----------
    feature_names_in_ : ndarray of str
        The columns that the model has learned from, if they have names.
    n_features_in_ : int
        Number of columns.
    """

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        return int(self.predictor.spec.shape[0])

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns."""
        if names := self.predictor.preparation.columns:
            return np.array(names, dtype=object)
        raise AttributeError("the columns have no names")

    def __sklearn_is_fitted__(self) -> bool:
        """Return that the model is fitted: scikit-learn asks."""
        return True

    def fit(self, X: Any, y: Any = None) -> NoReturn:
        """Refuse to fit.

        Raises
        ------
        UsageError
            Always: a federation has trained the model.
        """
        raise UsageError("this model was trained by a federation: it predicts, and is not fitted again")

    def predict(self, X: Any) -> Any:
        """Return a prediction for each row; `X` as in `fedlearn.Run.predict`."""
        return self.predictor.predict(X)


class FittedRunClassifier(ClassifierMixin, FittedRun):  # type: ignore[misc]
    """The model of a run that predicts classes."""

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes in the order of the probabilities."""
        return np.array(self.predictor.preparation.classes)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class for each row; `X` as in `fedlearn.Run.predict`."""
        return self.predictor.predict_proba(X)


class FittedRunRegressor(RegressorMixin, FittedRun):  # type: ignore[misc]
    """The model of a run that predicts numbers or labels."""


def estimator_of(predictor: Predictor) -> FittedRun:
    """Return the estimator of a model."""
    return FittedRunClassifier(predictor) if predictor.spec.classes else FittedRunRegressor(predictor)
