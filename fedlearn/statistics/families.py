"""Families of generalized linear models with their canonical links: what a record adds to the likelihood.

With linear predictor e = x'b + offset, mean m(e) and outcome y, a record adds

* normal: -(y - e)^2 / 2, gradient x (y - e), information x x';
* binomial (logit): y e - log(1 + exp e), x (y - m), x x' m (1 - m) with m = 1 / (1 + exp -e);
* Poisson (log): y e - exp e - log y!, x (y - m), x x' m with m = exp e.

Source: McCullagh and Nelder 1989, "Generalized Linear Models", section 2.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, gammaln, xlog1py, xlogy

from fedlearn.statistics.design import FloatArray


@dataclass(frozen=True, slots=True)
class Null:
    """What round 1 tells, at coefficients of zero.

    Parameters
    ----------
    weight, outcome
        Sum of weights; of weights times outcomes.
    value, gradient, curvature
        Log-likelihood; sums of w (y - m) and of w m' over all records.
    has_offset
        Whether records have an offset.
    """

    weight: float
    outcome: float
    value: float
    gradient: float
    curvature: float
    has_offset: bool


class Family(ABC):
    """A family: its terms of a record, and their bounds."""

    title: ClassVar[str]
    ratio: ClassVar[str]  # name of exp(b); empty where it means nothing

    @abstractmethod
    def terms(self, y: FloatArray, predictor: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return (rows,) what each record adds to value, residual y - m, and weight of x x'."""

    @abstractmethod
    def largest(self, y: float, predictor: float) -> tuple[float, float, float]:
        """Return the most that these can be, for outcomes and predictors of at most these sizes."""

    def start(self, null: Null) -> float | None:
        """Return the intercept that is best alone; None where Newton's first step is as good."""
        return None

    @abstractmethod
    def null_value(self, null: Null) -> float | None:
        """Return the log-likelihood of the intercept alone; None where there is no closed form."""


class Normal(Family):
    """Normal outcomes with one variance; log-likelihoods are given at variance 1."""

    title, ratio = "linear regression (normal)", ""

    def terms(self, y: FloatArray, predictor: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return value, residual and weight."""
        residual = y - predictor
        return -(residual**2) / 2, residual, np.ones_like(y)

    def largest(self, y: float, predictor: float) -> tuple[float, float, float]:
        """Return their bounds."""
        return (y + predictor) ** 2 / 2, y + predictor, 1.0

    def null_value(self, null: Null) -> float:
        """Return the value at the mean of y - offset: half its square sum is saved."""
        return null.value + null.gradient**2 / (2 * null.weight)


class Binomial(Family):
    """Outcomes 0 and 1."""

    title, ratio = "logistic regression (binomial)", "odds ratio"

    def terms(self, y: FloatArray, predictor: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return value, residual and weight."""
        mean = expit(predictor)
        return y * predictor - np.logaddexp(0, predictor), y - mean, mean * (1 - mean)

    def largest(self, y: float, predictor: float) -> tuple[float, float, float]:
        """Return their bounds."""
        return float(np.logaddexp(0, predictor)), 1.0, 0.25

    def null_value(self, null: Null) -> float | None:
        """Return n (p log p + q log q) for the share p of events and q = 1 - p."""
        share = null.outcome / null.weight
        return None if null.has_offset else float(null.weight * (xlogy(share, share) + xlog1py(1 - share, -share)))


class Poisson(Family):
    """Counts; with an offset, rates."""

    title, ratio = "Poisson regression", "rate ratio"

    def terms(self, y: FloatArray, predictor: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return value, residual and weight."""
        mean = np.exp(predictor)
        return y * predictor - mean - gammaln(y + 1), y - mean, mean

    def largest(self, y: float, predictor: float) -> tuple[float, float, float]:
        """Return their bounds."""
        mean = float(np.exp(predictor))
        return float(y * predictor + mean + gammaln(y + 1)), max(y, mean), mean

    def start(self, null: Null) -> float | None:
        """Return log of the sum of outcomes over that of exp(offset), from which Newton's method climbs at once."""
        return float(np.log(null.outcome / null.curvature)) if null.outcome > 0 else None

    def null_value(self, null: Null) -> float | None:
        """Return the value at `start`: l0 + a sum y - (exp a - 1) sum exp offset."""
        a = self.start(null)
        return None if a is None else null.value + a * null.outcome - np.expm1(a) * null.curvature


FAMILIES: dict[str, Family] = {"normal": Normal(), "logit": Binomial(), "poisson": Poisson()}
"""Name of `model.options.family` -> the family."""
