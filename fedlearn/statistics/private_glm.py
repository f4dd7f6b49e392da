"""Generalized linear models with noise: Newton's method on noisy sums, with standard errors that contain the noise.

A round sums, at public coefficients b, the gradient g of w_i x_i (y_i - m_i) and the information I of w_i k_i x_i x_i'
(`fedlearn.statistics.families`), both with geometric noise. b goes to b + I^-1 g: normal outcomes need one round, the
others two. From zero, Poisson regression first takes the intercept that is best alone.

*What a record adds.* Let s_i be the sum of the sizes of its columns, each at most 1. Then the sizes of x_i sum up to
s_i, and those of the upper triangle of x_i x_i' to at most s_i (s_i + 1) / 2. The weight w_i <= 1 keeps w_i s_i at most
at c = 1 + `REACH` times the number of columns, and w_i k_i s_i (s_i + 1) / 2 at K c (c + 1) / 2: K is the largest k, of
Poisson's at most twice that of the intercept. Residuals are bounded by what is declared of outcomes; a mean of
Poisson's is at most the largest outcome. So gradient and information are bounded in the L1 norm. Each gets as large a
share of one `UNIT` (`SHARES`); the number of records and the squares of normal outcomes get a small one. Parts are
rounded towards zero, so that the parts of a record come to at most one `UNIT`, whatever the coefficients.

A weight is a function of columns and public coefficients, not of the outcome: the weighted equations have the same
solution on average, if the model is right (Mallows 1975, "On some topics in robustness").

*Standard errors.* Let d be the last step, s^2 and t^2 the variances of the noise in an entry of g and of I. To first
order b + d is off by I^-1 (n_g - N d) for the noise n_g, N in them, beside the error of sampling:

    V = I^-1 (phi I + s^2 1 + t^2 (|d|^2 1 + d d' - diag d^2)) I^-1

phi is the residual variance of normal outcomes, else 1; as w_i^2 <= w_i, phi I is no less than the variance of g.

*Too much noise.* A fit ends with one line where the noise of the last round is not small beside the information of any
round (`SURE`). The noise of an earlier round is larger, and need not be small: b is public there, and only where the
last round begins. An eigenvalue of I that its noise may have made too small counts as the least that is sure, so that
b goes not too far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from fedlearn.config import RunConfig
from fedlearn.core.metric import EPSILON
from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples
from fedlearn.models.model import Finished
from fedlearn.privacy.released import Released
from fedlearn.runs.analysis_answers import Answer
from fedlearn.statistics.analysis import products, symmetric
from fedlearn.statistics.coefficients import coefficient_table
from fedlearn.statistics.column_histograms import UNIT
from fedlearn.statistics.design import FloatArray, IntArray
from fedlearn.statistics.families import Normal, Poisson
from fedlearn.statistics.glm import LinearModel
from fedlearn.statistics.noisy_analyses import Noisy

REACH = 0.4  # mean size of columns up to which a record counts in full
SHARES = (0.04, 0.06, 0.45, 0.45)  # of records, squares, gradient and information
SURE = 0.3  # largest noise in the information, as a matrix, over its smallest eigenvalue
FARTHEST = 30.0  # size of a coefficient: means beyond have no finite number
BELOW = 1 - 2.0**-30  # so that a record's parts, each rounded, stay below their bound
TOO_NOISY = (
    "the noise of round {} is too large beside what the columns tell: take more records, fewer columns, tighter bounds "
    "or a larger epsilon"
)
NOISY = "standard errors and intervals contain the noise; that in the number of records has a deviation of {:.3g}"
ONE_STEP = "one round is one step of Newton's method from zero: take two, rounds.total = 2, where outcomes vary much"
WEIGHTED = "records with extreme columns count less, which changes nothing on average if the model is right"


class NoisyGLM(LinearModel, Noisy):
    """A generalized linear model of all records, with noise in each sum."""

    name = "dp-glm"
    not_taken = ("least_count", "weights", "l2", "clustered")
    first_share = 0.3  # the last round decides how precise the answer is

    def planned(self, config: RunConfig) -> Self:
        """Return the model of a run with these settings."""
        planned = super().planned(config)
        if config.rounds.total == 1:
            planned.plan = replace(planned.plan, first=1.0)
        return planned

    def length(self, round_number: int) -> int:
        """Return the number of sums: records, squares of outcomes, gradient, information."""
        return 2 + self.design.size + self._products

    def unit(self, round_number: int) -> int:
        """Return the most that a record adds to the sums, in the L1 norm."""
        return UNIT

    def asked(self, state: State, examples: Examples) -> IntArray:
        """Return (length,) what these records add at the coefficients of the next round."""
        path = self._path(state)
        y, x, offset = self._values(self.counted.taken(examples)[0])
        predictor = x @ path.at + offset
        if isinstance(self.family, Poisson):
            predictor = np.minimum(predictor, np.log(self._largest()[0]))
        _, residual, curvature = self.family.terms(y, predictor)
        weight = self._weights(np.abs(x).sum(axis=1), curvature, self._bounds(path.at)[2])
        information = products(x) * (weight * curvature)[:, None]
        parts = [np.ones_like(y), weight * y**2, x * (weight * residual)[:, None], information]
        units = self._units_of(path.at) / BELOW
        return np.asarray(np.trunc(np.column_stack(parts) / units).astype(np.int64).sum(axis=0))

    def _weights(self, size: FloatArray, curvature: FloatArray, most: float) -> FloatArray:
        """Return (rows,) the weights of records, whose columns have some sizes, and whose information is bounded."""
        of_information = most / np.maximum(curvature * size * (size + 1) / 2, 1e-300)
        return np.minimum(np.minimum(self._reach / size, of_information), 1.0)

    def progress(self, state: State) -> Finished:
        """Return whether all rounds are there, or that there is too much noise."""
        path = self._path(state)
        if path.why:
            return Finished(path.why, is_failure=True)
        is_there = self._is_straight or len(state["reports"]) >= self.plan.rounds
        return Finished("all rounds are there") if is_there else Finished()

    def answer(self, state: State) -> Answer:
        """Return coefficients, standard errors and tests."""
        found = self._path(state).last
        assert found is not None
        step, identity = found.step(), np.eye(self.design.size)
        spread, more = 1.0, {}
        if self._is_straight:
            squares = found.squares - 2 * step @ found.gradient + step @ found.information @ step
            spread = float(max(squares, found.deviations[1]) / found.information[0, 0])
            more = {"residual std": self._half * float(np.sqrt(spread))}
        of_gradient, of_information = found.deviations[2] ** 2, found.deviations[3] ** 2
        of_step = float(step @ step) * identity + np.outer(step, step) - np.diag(step**2)
        meat = spread * found.information + of_gradient * identity + of_information * of_step
        bread = np.linalg.inv(found.information)
        estimates, covariance = self._in_own_units(found.at + step, bread @ meat @ bread)
        return Answer(
            title=f"{self.family.title} of {self.outcome}, with noise",
            facts={
                "records": round(found.records),
                "sites": int(state["reports"][-1]),
                **more,
                EPSILON.name: self.plan.epsilon,
                "rounds": len(state["reports"]),
                "standard errors": "model-based, with those of the noise",
            },
            tables=(coefficient_table(self.design.names, estimates, covariance, self.family.ratio, self.level),),
            forest=self.family.ratio or "coef",
            notes=(*self.design.compared(), NOISY.format(found.deviations[0]), WEIGHTED, *self._caution(state)),
        )

    def _caution(self, state: State) -> list[str]:
        return [] if self._is_straight or len(state["reports"]) > 1 else [ONE_STEP]

    @property
    def _is_straight(self) -> bool:
        """Whether the information depends on no coefficient, so that one round from zero tells all."""
        return isinstance(self.family, Normal)

    @property
    def _reach(self) -> float:
        """The most that the sizes of a record's columns, the intercept with them, count in the gradient."""
        return 1 + REACH * len(self.design.columns)

    def _bounds(self, at: FloatArray) -> tuple[float, float, float]:
        """Return the most that a record adds to squares, and in the L1 norm to gradient and information."""
        y, offset = self._largest()
        with np.errstate(over="ignore"):
            _, residual, curvature = self.family.largest(y, offset)
            if isinstance(self.family, Poisson):
                typical = 2 * np.exp(at[0] + offset)
                residual, curvature = y, float(min(y, typical, np.exp(self.design.largest(at) + offset)))
        reach = self._reach
        return y**2, residual * reach, curvature * reach * (reach + 1) / 2

    def _units_of(self, at: FloatArray) -> FloatArray:
        """Return (length,) what one whole number in a sum stands for."""
        bounds = np.array([1.0, *self._bounds(at)]) / np.array(SHARES) / UNIT
        return np.repeat(bounds, [1, 1, self.design.size, self._products])

    def _path(self, state: State) -> Path:
        """Return where the rounds so far have led."""
        path = Path(np.zeros(self.design.size))
        for number, released in enumerate(self.released(state), start=1):
            found: Found | None = self._found(released, path.at)
            if number == 1 and isinstance(self.family, Poisson):
                found = found and found.from_intercept()
            noise_of_last = self.plan.share(number) / self.plan.share(self.plan.rounds)
            if found is None or not found.is_sure(noise_of_last):
                return Path(path.at, why=TOO_NOISY.format(number))
            path = Path(path.at if self._is_straight else np.clip(found.at + found.step(), -FARTHEST, FARTHEST), found)
        return path

    def _found(self, released: Released, at: FloatArray) -> Found:
        """Return what the sums of a round tell at its coefficients."""
        units = self._units_of(at)
        records, squares, *others = released.sums * units
        gradient, information = np.split(np.array(others), [self.design.size])
        deviations = np.sqrt(released.variance) * units[[0, 1, 2, -1]]
        return Found(at, records, squares, gradient, symmetric(information, self.design.size), deviations)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What the sums of a round tell.

    Parameters
    ----------
    at
        (q,) the coefficients.
    records, squares, gradient, information
        Number of records; sums of w y^2; (q,) gradient; (q, q) information.
    deviations
        (4,) standard deviations of the noise in one number of each.
    """

    at: FloatArray
    records: float
    squares: float
    gradient: FloatArray
    information: FloatArray
    deviations: FloatArray

    def least(self) -> float:
        """Return the least eigenvalue of the information beside which its noise is small."""
        return float(self.deviations[3]) * math.sqrt(len(self.at)) / SURE

    def is_sure(self, share: float) -> bool:
        """Return whether a share of the noise in the information is small beside it."""
        return bool(share * self.least() <= np.linalg.eigvalsh(self.information)[0])

    def step(self) -> FloatArray:
        """Return I^-1 g, with eigenvalues of I below `least` raised to it."""
        values, directions = np.linalg.eigh(self.information)
        return np.asarray(directions @ (directions.T @ self.gradient / np.maximum(values, self.least())))

    def from_intercept(self) -> Found | None:
        """Return the same at the best intercept a of a Poisson regression, by sums at zero: means are e^a as large."""
        outcomes = self.gradient + self.information[:, 0]
        if not (outcomes[0] > 0 and self.information[0, 0] > 0):
            return None
        times = outcomes[0] / self.information[0, 0]
        at = self.at + np.log(times) * np.eye(len(self.at))[0]
        gradient, information = outcomes - times * self.information[:, 0], times * self.information
        return Found(at, self.records, self.squares, gradient, information, self.deviations * [1, 1, 1, times])


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """Where the rounds so far have led.

    Parameters
    ----------
    at
        (q,) the coefficients of the next round.
    last
        What the last round has told.
    why
        Why there is no further round; empty where there may be one.
    """

    at: FloatArray
    last: Found | None = None
    why: str = ""
