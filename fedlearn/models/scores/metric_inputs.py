"""Predictions: outputs of a torch module in the form that scikit-learn's and torchmetrics' metrics take.

Shapes: N examples, or places of examples that have several labels; K classes; L labels of an example.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SETTING = "evaluation.scores"
RANKING = ("roc", "average_precision")
"""Words in the names of scores that rank the examples of each class."""
ROUNDED = 1e-3  # tolerance of a sum of float32 probabilities


@dataclass(frozen=True, slots=True)
class Predictions:
    """What was predicted of a set, and the truth.

    Parameters
    ----------
    truth
        Shape (N,): classes from 0, or numbers; shape (N, L): labels, 0 or 1, or numbers.
    guess
        The shape of `truth`: predicted classes, labels or numbers.
    shares : array of float64, optional
        Probabilities, (N, K) of classes, (N, L) of labels; None of numbers.
    """

    truth: NDArray[np.int64] | NDArray[np.float64]
    guess: NDArray[np.int64] | NDArray[np.float64]
    shares: NDArray[np.float64] | None = None

    def defines(self, score: str) -> bool:
        """Return whether a score is defined: not where all have one class; of `RANKING`, only where each class occurs.

        Libraries give 0 there, or leave classes out.

        >>> three = Predictions(np.array([0, 1]), np.array([0, 1]), np.full((2, 3), 1 / 3))
        >>> three.defines("f1_macro"), three.defines("multiclass_auroc")
        (True, False)
        """
        if self.shares is None:
            return True
        if bool((self.truth == self.truth.flat[:1]).all()):
            return False
        if not any(word in score for word in RANKING):
            return True
        if self.truth.ndim > 1:
            return bool((self.truth.min(0) < self.truth.max(0)).all())
        return bool(len(np.unique(self.truth)) == self.shares.shape[1])


def of_classes(logits: Tensor, labels: Tensor, classes: int) -> Predictions:
    """Return the predictions of logits (N, K or more), by their float64 softmax; of rows with a class alone.

    Rows that are probabilities already are taken as they are. A label outside of the classes is one that the loss
    ignores.

    >>> found = of_classes(torch.tensor([[0.0, 0.0], [0.0, 5.0]]), torch.tensor([0, -100]), 2)
    >>> found.truth.tolist(), found.guess.tolist(), found.shares.tolist()
    ([0], [0], [[0.5, 0.5]])
    """
    known = (labels >= 0) & (labels < classes)
    logits, labels = logits[known].double(), labels[known]
    guess, logits = logits.argmax(1), logits[:, :classes]
    is_share = bool((logits >= 0).all()) and bool(((logits.sum(1) - 1).abs() < ROUNDED).all())
    shares = logits / logits.sum(1, keepdim=True) if is_share else logits.softmax(1)
    return Predictions(labels.numpy(), guess.numpy(), shares.numpy())


def of_labels(outputs: Tensor, targets: Tensor, threshold: float) -> Predictions:
    """Return the predictions of labels, (N, L) outputs and 0 or 1: logits if `threshold` is 0, else probabilities.

    One label an example, and labels at places of images, become (N,) with two classes.
    """
    outputs, truth = outputs.double(), (targets > 0.5).long()
    shares = outputs.sigmoid() if threshold == 0 else outputs
    guess = (outputs > threshold).long()
    if targets.ndim == 2 and targets.shape[1] > 1:
        return Predictions(truth.numpy(), guess.numpy(), shares.numpy())
    of_one = shares.flatten()
    return Predictions(truth.flatten().numpy(), guess.flatten().numpy(), torch.stack([1 - of_one, of_one], 1).numpy())


def of_numbers(outputs: Tensor, targets: Tensor, *, center: Tensor, unit: Tensor) -> Predictions:
    """Return the predictions of numbers, (N,) or (N, L), in the unit of the targets."""
    both = [each.double() * unit + center for each in (targets, outputs)]
    truth, guess = ((each if each.ndim == 1 else each.flatten(1)).numpy() for each in both)
    return Predictions(truth, guess)


class Predicting(Protocol):
    """What makes predictions of outputs, as an objective."""

    def predictions(self, outputs: Any, targets: Tensor) -> Predictions | None:
        """Return the predictions; None where the outputs are none that are known."""
        ...


def predicted(by: Predicting, outputs: Any, targets: Tensor) -> Predictions:
    """Return the predictions of an objective; raise ValueError where it has none."""
    found = by.predictions(outputs, targets)
    if found is None:
        raise ValueError(
            "the objective has no predictions of such outputs: take one of classes, labels or numbers, or give a "
            "function (outputs, targets)"
        )
    return found
