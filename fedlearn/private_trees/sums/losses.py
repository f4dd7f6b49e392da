"""Losses of boosting, as two integers for each record: a gradient and a curvature, together at most 1.

A Newton step of a cell needs the sum of its gradients g and the sum of its curvatures h. Both losses have ``sum |g| +
sum h <= 1`` for each record and any score, so the curvature costs nothing on top of the gradient.

*Logistic, two classes*, p the probability of the second: g = y - p and h = p (1 - p). With r = |g|, h = r (1 - r), so
|g| + h = 1 - (1 - r)^2 <= 1.

*Logistic, more classes*: g_k = (1[y = k] - p_k) / 2, whose L1 norm is 1 - p_y; h_k = p_k (1 - p_k), scaled down to the
rest of 1 if their sum is larger.

*Log-cosh* of the error over a width c, which is squared error near 0 and absolute error far from it: g = t =
tanh(error / c), and h = (1 - t^2) / 2, half its curvature. |t| + (1 - t^2) / 2 = 1 - (1 - |t|)^2 / 2 <= 1.

Gradients and curvatures are integers in units of 2^-20. Gradients are rounded towards 0, curvatures down, and
curvatures are limited to the rest of 1. So the bound holds in exact arithmetic, not only up to rounding, and sums are
exact in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedlearn.cache.compiled import compiled

UNIT = 2**20
"""Fixed-point weight of one record."""

FloatArray = NDArray[np.float64]


class Loss(Protocol):
    """A loss of boosting, on scores of shape (rows, outputs)."""

    @property
    def outputs(self) -> int:
        """Number of scores of a record."""

    @property
    def gradient_in(self) -> float:
        """Factor of a released gradient."""

    @property
    def curvature_in(self) -> float:
        """Factor of a released curvature."""

    @property
    def unit(self) -> float:
        """The unit of a step, in scores."""

    @property
    def first_width(self) -> int:
        """Number of sums that are released before the first round."""

    def first_of(self, target: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return (rows, first_width) the contribution of each record to the first sums, of L1 norm UNIT."""

    def first_sums(self, target: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return (first_width,) the sums before the first round; a record adds an L1 norm of UNIT."""

    def start(self, released: FloatArray) -> FloatArray:
        """Return (outputs,) the initial score of every record, from released sums in records."""

    def derivatives(self, score: FloatArray, target: NDArray[np.float64]) -> tuple[FloatArray, FloatArray]:
        """Return gradients and curvatures, each (rows, outputs)."""

    def squares_of(self, n: float, curvature: float) -> float:
        """Return about what the squares of n records' gradients add up to, from the sum of all curvatures."""


@dataclass(frozen=True, slots=True)
class Logistic:
    """Cross-entropy of classes; targets are positions of classes.

    >>> Logistic(2).start(np.array([50.0, 50.0]))
    array([0.])
    """

    classes: int
    curvature_in = 1.0
    unit = 1.0

    @property
    def outputs(self) -> int:
        """Number of scores of a record: one for two classes, else one for each class."""
        return 1 if self.classes == 2 else self.classes

    @property
    def gradient_in(self) -> float:
        """Factor of a released gradient: gradients of more than two classes are released halved."""
        return 1.0 if self.classes == 2 else 2.0

    @property
    def first_width(self) -> int:
        """Number of sums before the first round: one for each class."""
        return self.classes

    def first_of(self, target: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return (rows, classes) with UNIT at the class of each record."""
        return np.asarray(UNIT * (target.astype(np.int64)[:, None] == np.arange(self.classes)))

    def first_sums(self, target: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return (classes,) the number of records of each class, in UNITs."""
        return np.bincount(target.astype(np.int64), minlength=self.classes) * UNIT

    def start(self, released: FloatArray) -> FloatArray:
        """Return (outputs,) log-shares of the classes, or the log-odds of two; a class has at least one record."""
        logarithm = np.log(np.maximum(released, 1.0))
        return logarithm[1:] - logarithm[:1] if self.classes == 2 else logarithm - logarithm.mean()

    def shares(self, score: FloatArray) -> FloatArray:
        """Return (rows, classes) probabilities."""
        wide = np.column_stack([np.zeros(len(score)), score]) if self.classes == 2 else score
        odds = np.exp(wide - wide.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def derivatives(self, score: FloatArray, target: NDArray[np.float64]) -> tuple[FloatArray, FloatArray]:
        """Return gradients and curvatures, each (rows, outputs). Formulas: head of the file."""
        if self.classes == 2:
            share = 1 / (1 + np.exp(-np.clip(score, -500, 500)))
            return target[:, None] - share, share * (1 - share)
        share = self.shares(score)
        return (target[:, None].astype(np.int64) == np.arange(self.classes)) / 2 - share / 2, share * (1 - share)

    def squares_of(self, n: float, curvature: float) -> float:
        """Return the curvature: if probabilities are right, p (1 - p) is a gradient's mean square as well."""
        return curvature / self.gradient_in


@dataclass(frozen=True, slots=True)
class LogCosh:
    """Log-cosh of the error over `width`; targets and scores are shares of the target's bounds.

    >>> LogCosh(0.1).start(np.array([30.0, 10.0]))
    array([0.25])
    """

    width: float
    outputs = 1
    first_width = 2
    gradient_in = 1.0
    curvature_in = 2.0

    @property
    def unit(self) -> float:
        """The unit of a step: the width."""
        return self.width

    def first_of(self, target: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return (rows, 2) 1 - y and y, in UNITs."""
        ones = np.rint(target * UNIT).astype(np.int64)
        return np.column_stack([UNIT - ones, ones])

    def first_sums(self, target: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return (2,) the sums of 1 - y and of y, in UNITs."""
        return np.asarray(self.first_of(target).sum(axis=0))

    def start(self, released: FloatArray) -> FloatArray:
        """Return (1,) the mean, with one added record at each end."""
        zeros, ones = np.maximum(released, 1.0)
        return np.array([ones / (zeros + ones)])

    def derivatives(self, score: FloatArray, target: NDArray[np.float64]) -> tuple[FloatArray, FloatArray]:
        """Return gradients and curvatures, each (rows, 1); scores are clipped. Formulas: head of the file."""
        gradient = np.tanh((target[:, None] - np.clip(score, 0, 1)) / self.width)
        return gradient, (1 - gradient**2) / 2

    def squares_of(self, n: float, curvature: float) -> float:
        """Return n less twice the curvature, as a record's curvature is (1 - t^2) / 2 for a gradient t."""
        return n - 2 * curvature


def pairs_of(loss: Loss, score: FloatArray, target: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return (rows, 2 outputs) gradients, then curvatures, in UNITs; the L1 norm of a row is at most UNIT."""
    gradient, curvature = loss.derivatives(score, target)
    wanted = curvature * UNIT
    out = np.empty((len(gradient), 2 * loss.outputs), np.int32)
    _fill(gradient, wanted, wanted.sum(axis=1), out)
    return out


@compiled()
def _fill(gradient, wanted, total, out):  # type: ignore[no-untyped-def]
    outputs = gradient.shape[1]
    for row in range(len(total)):
        left = np.int64(UNIT)
        for column in range(outputs):
            whole = np.int64(gradient[row, column] * UNIT)  # towards 0
            out[row, column] = whole
            left -= abs(whole)
        share = min(left / max(total[row], 1.0), 1.0)
        for column in range(outputs):
            out[row, outputs + column] = np.int64(wanted[row, column] * share)  # down: none is below 0
