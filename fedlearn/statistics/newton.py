"""Newton's method on the sums of all nodes: for a concave log-likelihood, with its gradient and information.

A round gives value l, gradient g and information I (minus the second derivative) at coefficients b. The next ones are
b + I^-1 g. If the value has fallen, the step was too long and is halved until it rises. The decrement d^2 = g' I^-1 g
is the squared length of a step in standard errors: the fit has converged when d <= 1e-9, when d is no more than what
rounding moves b by, or when d <= 1e-6 falls no more. The last step is still taken.

Source: Boyd and Vandenberghe 2004, "Convex Optimization", section 9.5.

*A separated outcome* has no finite coefficients: the likelihood rises without end while the information in one
direction goes to zero. A fit ends with one line once the information has lost all but `SEPARATED` of what it had in
round 1, in any direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedlearn.models.model import Finished
from fedlearn.statistics.design import FloatArray

CLOSE, CLOSE_ENOUGH = 1e-9, 1e-6  # decrement, in standard errors
SEPARATED = 1e-5
MOST_HALVINGS, MOST_CUTS = 30, 6
SLACK = 10  # standard deviations of rounding by which a value may fall
BLURRED = 3  # standard deviations of rounding that a step of no use is long
SINGULAR = 1e-11  # smallest eigenvalue of the information, of columns scaled to unit information
SEPARATES = "{name!r} separates the outcome: its coefficient has no finite value; leave it out, or draw it to 0 (l2)"
IMPRECISE = (
    "the coefficients of round {round} would let one record add up to {weight:.3g}: the sums cannot hold that to "
    "1e-6 of a standard error; declare tighter bounds, or a smaller gate.max_examples"
)


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """The log-likelihood at some coefficients.

    Parameters
    ----------
    at
        (q,) coefficients.
    value, gradient, information
        Log-likelihood, (q,) its gradient, (q, q) minus its second derivative.
    error, value_error
        (q,) standard deviation of the rounding error of the gradient; that of the value.
    """

    at: FloatArray
    value: float
    gradient: FloatArray
    information: FloatArray
    error: FloatArray
    value_error: float


@dataclass(frozen=True, slots=True, eq=False)
class Climb:
    """Where Newton's method stands.

    Parameters
    ----------
    at
        (q,) the coefficients of the next round; after the last one, the result.
    names
        Names of the coefficients, for messages.
    best
        The evaluation with the highest value so far.
    first
        That of round 1.
    halvings, cuts
        How often the step from `best` was halved; how many steps were too long for sums to hold what they lead to.
    decrement
        Length of the last step in standard errors.
    rounds
        Number of evaluations.
    ended
        Why there is no further round.
    """

    at: FloatArray
    names: Sequence[str]
    best: Evaluated | None = None
    first: Evaluated | None = None
    halvings: int = 0
    cuts: int = 0
    decrement: float = float("inf")
    rounds: int = 0
    ended: Finished = field(default_factory=Finished)

    def taken(
        self, found: Evaluated, weight: Callable[[FloatArray], float], *, start: FloatArray | None = None
    ) -> Climb:
        """Return where the method stands after an evaluation at `at`.

        Parameters
        ----------
        weight
            Returns the most that a record can add to the gradient at some coefficients: rounding errors grow with it.
        start
            After round 1, a better start than a step of Newton's.
        """
        rounds = self.rounds + 1
        if not np.isfinite([found.value, *found.gradient, *found.information.ravel()]).all():
            return self._failed(rounds, "the sums have no finite value")
        if self.best is not None and found.value < self.best.value - SLACK * found.value_error:
            return self._halved(rounds)
        first = self.first or found
        if why := _singular(first, found, self.names):
            return self._failed(rounds, why)
        step = np.linalg.solve(found.information, found.gradient)
        decrement = float(np.sqrt(max(float(found.gradient @ step), 0.0)))
        blur = float(np.sqrt(found.error @ np.linalg.solve(found.information, found.error))) / weight(found.at)
        cut = next((k for k in range(MOST_HALVINGS) if blur * weight(found.at + step / 2**k) <= CLOSE_ENOUGH), None)
        if cut is None or self.cuts + (cut > 0) > MOST_CUTS:
            return self._failed(rounds, IMPRECISE.format(round=rounds + 1, weight=weight(found.at + step)))
        step = step / 2**cut
        if start is not None and self.best is None:
            return Climb(start, self.names, rounds=rounds)
        stalls = decrement <= CLOSE_ENOUGH and decrement > self.decrement / 4
        is_close = decrement <= max(CLOSE, BLURRED * blur * weight(found.at))
        ended = Finished("the fit has converged") if is_close or stalls else Finished()
        return replace(
            self, at=found.at + step, best=found, first=first, halvings=0, cuts=self.cuts + (cut > 0),
            decrement=decrement, rounds=rounds, ended=ended,
        )  # fmt: skip

    def _halved(self, rounds: int) -> Climb:
        assert self.best is not None
        if self.halvings == MOST_HALVINGS:
            return self._failed(rounds, "no step of Newton's method raises the likelihood any more")
        at = (self.at + self.best.at) / 2
        return replace(self, at=at, halvings=self.halvings + 1, rounds=rounds)

    def _failed(self, rounds: int, why: str) -> Climb:
        return replace(self, rounds=rounds, ended=Finished(why, is_failure=True))


def _singular(first: Evaluated, now: Evaluated, names: Sequence[str]) -> str:
    """Return why the information cannot be inverted, naming a column; empty if it can."""
    diagonal = np.diag(first.information)
    if not (diagonal > 0).any():
        return "no record has all columns, or none has an event: there is nothing to fit"
    if (empty := np.flatnonzero(diagonal <= 1e-12 * diagonal.max())).size:
        return f"{names[empty[0]]!r} is the same in all records that have all columns: leave it out"
    unit = 1 / np.sqrt(diagonal)
    values, vectors = np.linalg.eigh(first.information * np.outer(unit, unit))
    if values[0] < SINGULAR:
        most = [names[int(place)] for place in np.argsort(-np.abs(vectors[:, 0]))[:2]]
        return f"{most[0]!r} and {most[-1]!r} follow from one another, or from others: leave one of them out"
    if now is first:
        return ""
    root = np.linalg.inv(np.linalg.cholesky(first.information))
    shares, directions = np.linalg.eigh(root @ now.information @ root.T)
    if shares[0] < SEPARATED:
        name = names[int(np.argmax(np.abs(root.T @ directions[:, 0]) / unit))]
        return SEPARATES.format(name=name)
    return ""
