"""Correlated Gaussian noise for a sum in each round, in whole steps of a public grid, which keeps b - 1 earlier rows.

Row t of the noise w = C^-1 z is w_t = z_t / C[t, t] - sum over k of C[t, t - k] / C[t, t] w_(t-k).

*Claim.* The rounded sums plus w lose no more than one Gaussian mechanism of the given noise multiplier, with whose
sensitivity `Banded.sensitivity` was computed, if each unit's participations are at least ``separation`` rounds apart.

*Proof.* Sums are rounded to the grid; w_t = y_t + m_t, where y_t are independent discrete Gaussian numbers of scale s /
C[t, t], and m_t is the correction by earlier rows, rounded to whole steps: a function of earlier rows alone. Given a
unit's steps d_t, the same answers come from w' = w + d, that is, from y' with y'_t - y_t = d_t + m_t(w) - m_t(w + d)
= (C d)_t / C[t, t] + e_t. e_t comes from rounding m_t twice, and from floats: at most 1 + b 2^-8 reach in each
number, reach the sum of the coefficients' sizes, and 0 in rows that no participation reaches. So the log-ratio of the
answers is that of a Gaussian mechanism with change C d + e': at most sensitivity (clip (1 + 2^-20) + sqrt(n)) + e
sqrt(n rows), n numbers, in the L2 norm, which s multiplies. The rest is as in `mechanisms.gaussian`. Rows stay below
2^45 steps except with a probability below 1e-50.

Where C^-1 is banded, and not C, `inverse_banded` has what differs: earlier rows of z are kept, in place of w.

Rows are *secret state*: who knows them subtracts them. They are drawn before a sum is published and never drawn
again: a round that is run twice with other rows reveals its sum, and the same rows for two sums reveal their
difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.privacy.factorization.banded import FloatArray
from fedlearn.privacy.factorization.inverse_banded import Factorization
from fedlearn.privacy.mechanisms import integers
from fedlearn.privacy.mechanisms.gaussian import GRID_BITS, SUMMING
from fedlearn.privacy.mechanisms.interception import interceptable
from fedlearn.privacy.noise import Noise


@dataclass(slots=True)
class CorrelatedNoise:
    """Noise of the rounds of a run, one after the other.

    Parameters
    ----------
    factorization : Banded or InverseBanded
        Matrix C, with a row for each round.
    separation : int
        Smallest number of rounds from one participation of a unit to its next; somebody else enforces it.
    clip : float
        Largest L2 norm of one unit's vector in one round.
    noise_multiplier : float
        That of one Gaussian mechanism, ``noise_multiplier_for(epsilon, delta=delta, rounds=1)``, for all rounds
        together.
    rows : list of ndarray, default=[]
        The last rows, at most bands - 1, in steps of the grid, the latest one last, to continue a run: of w, or of an
        `InverseBanded` of z.
    done : int, default=0
        Number of rounds whose rows were drawn.
    """

    factorization: Factorization
    separation: int
    clip: float
    noise_multiplier: float
    rows: list[NDArray[np.int64]] = field(default_factory=list)
    done: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for arguments with which nothing is promised."""
        for name, value in (("clip", self.clip), ("noise_multiplier", self.noise_multiplier)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} = {value!r}: must be finite and above 0")
        self.factorization.sensitivity(self.separation)
        if len(self.rows) != min(self.done, self.factorization.bands - 1):
            raise ValueError(f"{len(self.rows)} rows after {self.done} rounds: the state of another run")

    @property
    def deviation(self) -> float:
        """Standard deviation of z, in the unit of the values."""
        return self.noise_multiplier * self.factorization.sensitivity(self.separation) * self.clip

    def draw(self, numbers: int, noise: Noise) -> NDArray[np.int64]:
        """Return the next round's row for a sum of so many numbers, in steps of the grid, and keep it.

        Raises
        ------
        ValueError
            If all rounds have had their row, or earlier rows have another length.
        """
        if self.done == self.factorization.rounds:
            raise ValueError(
                f"round {self.done + 1}: the factorization has {self.done} rounds, and each one row of noise"
            )
        if any(row.shape != (numbers,) for row in self.rows):
            raise ValueError(f"numbers = {numbers}: earlier rows have {self.rows[-1].size}")
        matrix = self.factorization
        fresh = noise.discrete_gaussian(self._scale(numbers) / matrix.diagonal(self.done), (numbers,))
        drawn = fresh + np.rint(matrix.correction(self.done, self.rows)).astype(np.int64)
        kept = matrix.bands - 1
        self.rows = [*self.rows, fresh if matrix.keeps_fresh else drawn][-kept:] if kept else []
        self.done += 1
        return drawn

    @interceptable
    def added(self, values: ArrayLike, row: NDArray[np.int64]) -> FloatArray:
        """Return a sum, rounded to the grid, plus a row of noise; the sum's shape."""
        exact = np.asarray(values, np.float64)
        if not np.isfinite(exact).all():
            raise ValueError("values: must be finite")
        with np.errstate(over="ignore"):
            steps = np.clip(np.rint(np.ldexp(exact, -self.exponent)), -integers.LIMIT, integers.LIMIT).astype(np.int64)
        return np.ldexp(integers.add(steps, row.reshape(steps.shape)).astype(np.float64), self.exponent)

    @property
    def exponent(self) -> int:
        """The power of two that is a step of the grid."""
        return math.frexp(self.deviation)[1] - 1 - GRID_BITS

    def _scale(self, numbers: int) -> float:
        """Return the standard deviation of z in steps, rounded up: it covers all rounding."""
        matrix = self.factorization
        root, clip = math.sqrt(numbers), math.ldexp(self.clip, -self.exponent) * (1 + SUMMING)
        change = matrix.sensitivity(self.separation) * (clip + root) + matrix.rounding() * root
        return math.nextafter(self.noise_multiplier * change, math.inf)
