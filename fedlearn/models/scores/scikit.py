"""scikit-learn's scorers and metrics, called with predictions that were made already."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import UndefinedMetricWarning
from torch import Tensor

from fedlearn.core.errors import SettingError
from fedlearn.core.metric import ACCURACY
from fedlearn.models.scores.metric_inputs import SETTING, Predicting, Predictions, predicted
from fedlearn.plugins.registry import did_you_mean

SHARES = (
    ACCURACY.name, "average_precision", "balanced_accuracy", "f1", "fbeta", "jaccard", "precision", "recall", "roc_auc",
    "top_k_accuracy", "zero_one", "hamming",
)  # fmt: skip
"""Beginnings of the names of metrics that lie from 0 to 1."""
AT_MOST_1 = ("r2", "explained_variance", "d2")
AROUND_0 = ("matthews_corrcoef", "cohen_kappa")


class _Stored(BaseEstimator):  # type: ignore[misc]
    """An estimator that was fitted elsewhere, and has predicted already: a scorer asks it for what is stored."""

    def __init__(self, found: Predictions | None = None) -> None:
        self.found = found

    def __sklearn_is_fitted__(self) -> bool:
        """Return that there is nothing to fit."""
        return True

    def predict(self, _rows: Any) -> NDArray[Any]:
        """Return the predicted classes, labels or numbers."""
        assert self.found is not None
        return self.found.guess


class _Numbers(RegressorMixin, _Stored):  # type: ignore[misc]
    """Predictions of numbers."""


class _Classes(ClassifierMixin, _Stored):  # type: ignore[misc]
    """Predictions of classes or of labels."""

    @property
    def classes_(self) -> Any:
        """Return the classes; of labels, those of each label."""
        assert self.found is not None and self.found.shares is not None
        count = self.found.shares.shape[1]
        return np.arange(count) if self.found.truth.ndim == 1 else [np.arange(2)] * count

    def predict_proba(self, _rows: Any) -> NDArray[np.float64]:
        """Return the probabilities of classes, (N, K), or of labels, (N, L)."""
        assert self.found is not None and self.found.shares is not None
        return self.found.shares


def function_or_scorer(name: str) -> Callable[..., Any]:
    """Return scikit-learn's scorer of a name, or its function of two arrays.

    Raises
    ------
    SettingError
        If scikit-learn has neither.
    """
    names = metrics.get_scorer_names()
    if name in names:
        return metrics.get_scorer(name)  # type: ignore[no-any-return]
    function = getattr(metrics, name, None) if name in metrics.__all__ else None
    if (
        function is None
        or inspect.isclass(function)
        or not {"y_true", "y1"} & {*inspect.signature(function).parameters}
    ):
        raise SettingError(
            SETTING, name,
            "scikit-learn has no scorer and no metric of this name: take f1_macro, roc_auc, ... (sklearn.metrics."
            f"get_scorer_names() lists them), or give module:name{did_you_mean(name, [*names, *metrics.__all__])}",
        )  # fmt: skip
    return function  # type: ignore[no-any-return]


def is_scorer(function: Any) -> bool:
    """Return whether a function is a scorer, called with an estimator; of scorers larger values are better."""
    return next(iter(inspect.signature(function).parameters), "") == "estimator"


def bounds_of(name: str) -> tuple[float | None, float | None]:
    """Return the smallest and the largest possible value of a score of scikit-learn's; None where there is none.

    >>> bounds_of("roc_auc_ovr"), bounds_of("neg_log_loss"), bounds_of("max_error")
    ((0.0, 1.0), (None, 0.0), (0.0, None))
    """
    if name.startswith(SHARES):
        return 0.0, 1.0
    if name.startswith(AROUND_0):
        return -1.0, 1.0
    if name.startswith("neg_"):
        return None, 0.0
    return (0.0, None) if name.endswith(("_error", "_loss")) else (None, 1.0 if name.startswith(AT_MOST_1) else None)


def scored(function: Callable[..., Any], name: str, objective: Predicting, outputs: Any, targets: Tensor) -> float:
    """Return what a scorer or a metric makes of all outputs; NaN where it is not defined."""
    found = predicted(objective, outputs, targets)
    if not found.defines(name):
        return nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)  # of a class that was never predicted: it counts as 0
        if is_scorer(function):
            estimator = _Numbers(found) if found.shares is None else _Classes(found)
            return float(function(estimator, found.guess, found.truth))
        return float(function(found.truth, _second(function, found)))


def _second(function: Callable[..., Any], found: Predictions) -> NDArray[Any]:
    """Return what a metric takes beside the truth: classes where its parameter is ``y_pred``, else probabilities."""
    _, second, *_ = (*inspect.signature(function).parameters, "")
    takes_classes = second in ("y_pred", "y2") and "log_loss" not in getattr(function, "__name__", "")
    if found.shares is None or takes_classes:
        return found.guess
    return found.shares[:, 1] if found.truth.ndim == 1 and found.shares.shape[1] == 2 else found.shares
