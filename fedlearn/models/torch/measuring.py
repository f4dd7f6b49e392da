"""Metrics of predictions on tables, for every kind of model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.metric import ACCURACY, LOSS, MAE, MAE_SCALED
from fedlearn.data.data_spec import Examples
from fedlearn.models.model import Evaluation, confusion_of

SMALLEST_SHARE = float(np.finfo(np.float64).eps)  # smallest probability in a logarithm; as in scikit-learn's log_loss


def of_classes(shares: NDArray[np.float64], examples: Examples) -> Evaluation:
    """Return cross-entropy and accuracy of (rows, classes) probabilities."""
    of_truth = shares[np.arange(len(examples)), examples.targets.astype(np.int64)]
    loss = float(-np.log(np.maximum(of_truth, SMALLEST_SHARE)).sum())
    guess = shares.argmax(axis=1)
    right = float("nan") if np.isnan(shares).any() else int((guess == examples.targets).sum())  # NaN names no class
    sums = {LOSS.name: loss, ACCURACY.name: right}
    return Evaluation(sums, len(examples), confusion_of(examples.targets, guess, shares.shape[1]))


def of_numbers(predicted: NDArray[np.float64], examples: Examples, bounds: tuple[float, float]) -> Evaluation:
    """Return the absolute error in the target's unit, and as a share of the width of its bounds."""
    low, high = bounds
    error = float(np.abs(predicted - examples.targets).sum())
    return Evaluation({MAE.name: error, MAE_SCALED.name: error / (high - low)}, len(examples))
