"""Losses of boosting: gradients and curvatures of single records as whole numbers, and the start of all scores.

s is a record's score and y its target.

- ``squared_error``: (s - y)^2 / 2, in the target's unit; the start is the mean.
- ``log_loss``: of two classes the log-odds of the second, of more one score each; the start has the classes' shares.
- ``poisson``: e^s - y s; the prediction is e^s, and the start the logarithm of the mean.

Every number is divided by the most that it can be, which follows from what is declared, times `CAP`, and rounded once
for each record. A score far outside the target's bounds counts as twice their width away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.private_trees.exact import kernels
from fedlearn.private_trees.sums.losses import Logistic

FloatArray = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss, for classes or for a number with bounds.

    Parameters
    ----------
    name
        ``"squared_error"``, ``"log_loss"`` or ``"poisson"``.
    classes
        Number of classes; 0 of a number.
    low, high
        Bounds of a number.
    """

    name: str
    classes: int = 0
    low: float = 0.0
    high: float = 1.0

    @property
    def outputs(self) -> int:
        """Number of scores of a record, and of trees of an iteration."""
        return self.classes if self.classes > 2 else 1

    @property
    def most(self) -> FloatArray:
        """(2,) the most that gradient and curvature can be, in size."""
        width = self.high - self.low
        return np.array(
            {"squared_error": (2 * width, 1.0), "log_loss": (1.0, 0.25), "poisson": (2 * self.high, 2 * self.high)}[
                self.name
            ]
        )

    @property
    def first_width(self) -> int:
        """Number of sums of which the start is made: the weight of each class, or weights and weighed targets."""
        return self.classes or 2

    def first_of(self, target: FloatArray) -> FloatArray:
        """Return (rows, first_width) what a record of weight 1 adds to them, between 0 and 1."""
        if self.classes:
            return np.asarray(target[:, None] == np.arange(self.classes), np.float64)
        return np.column_stack([np.ones(len(target)), (target - self.low) / (self.high - self.low)])

    def start(self, sums: FloatArray) -> FloatArray:
        """Return (outputs,) the score before the first tree, of the sums of all records."""
        if not self.classes:
            mean = self.low + (self.high - self.low) * float(sums[1] / max(sums[0], EPS))
            return np.array([np.log(max(mean, EPS * self.high)) if self.name == "poisson" else mean])
        shares = np.log(np.clip(sums / max(sums.sum(), EPS), EPS, 1 - EPS))
        return np.asarray(shares - shares.mean() if self.outputs > 1 else shares[1:] - shares[:1])

    def parts(self, score: FloatArray, target: FloatArray, weight: FloatArray, cap: int) -> NDArray[np.int32]:
        """Return (rows, 2 outputs) gradient and curvature of each output, in units of `most` / cap."""
        out = np.empty((len(target), 2 * self.outputs), np.int32)
        fill: Callable[..., Any] = getattr(kernels, {"log_loss": "logistic"}.get(self.name, self.name.split("_")[0]))
        fill(score, target, self.most, float(cap), weight, out)
        return out

    def shares(self, score: FloatArray) -> FloatArray:
        """Return (rows, classes) probabilities of scores (rows, outputs)."""
        return Logistic(self.classes).shares(score)

    def predicted(self, score: FloatArray) -> FloatArray:
        """Return (rows,) predictions of a number from scores (rows, 1)."""
        return np.asarray(np.exp(score[:, 0]) if self.name == "poisson" else score[:, 0])
