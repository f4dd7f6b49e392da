"""Banded factorizations of prefix sums: their coefficients, sensitivities and errors.

A model is the sum of the rounds' noisy sums x_1 + ... + x_t: a prefix sum. With a lower triangular C, the mechanism
releases C x + z, z independent Gaussian, from which C^-1 (C x + z) = x + C^-1 z follows. The noise of a prefix sum is
the row of A C^-1 z, A the matrix of ones on and below the diagonal: far less than that of independent noise, C = I. C
has b
*bands*, C[i, j] = 0 for i >= j + b, so that only b - 1 earlier rows of noise are kept.

*Sensitivity.* A unit takes part in rounds at least ``separation`` >= b apart. Its columns of C then have no row in
common, so they are orthogonal: with vectors of L2 norm <= 1 in the rounds j of a set J, C x changes by at most
sqrt(sum over J of |C[:, j]|^2), whatever the vectors are, and may depend on earlier answers. The worst set J is found
by dynamic programming over rounds.

Source: Choquette-Choo et al. 2023 (arXiv:2306.08153), banded matrices and minimum separation; the square root of A
cut to b bands: Kalinin, Lampert 2024 (arXiv:2405.13763).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Banded:
    """A lower triangular matrix with few bands.

    Parameters
    ----------
    rows : ndarray
        (rounds, bands): ``rows[i, k]`` is C[i, i - k], 0 where i < k; the diagonal ``rows[:, 0]`` is above 0.

    Raises
    ------
    ValueError
        If the diagonal is not above 0, or a number is not finite.

    Examples
    --------
    >>> square_root(4, 2).rows.tolist()
    [[1.0, 0.0], [1.0, 0.5], [1.0, 0.5], [1.0, 0.5]]
    """

    rows: FloatArray
    keeps_fresh: ClassVar[bool] = False
    """Whether the noise before it was correlated is kept for later rounds, in place of that after."""

    def __post_init__(self) -> None:
        """Raise ValueError for a matrix that has no inverse."""
        if self.rows.ndim != 2 or not self.rows.size or not np.isfinite(self.rows).all():
            raise ValueError(f"rows of shape {self.rows.shape}: must be (rounds, bands), finite, and not empty")
        if not (self.rows[:, 0] > 0).all():
            raise ValueError("rows[:, 0]: the diagonal must be above 0")

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.rows)

    @property
    def bands(self) -> int:
        """Number of bands; 1 is a diagonal matrix."""
        return int(self.rows.shape[1])

    def matrix(self) -> FloatArray:
        """Return C, (rounds, rounds)."""
        full = np.zeros((self.rounds, self.rounds))
        for k in range(min(self.bands, self.rounds)):
            at = np.arange(k, self.rounds)
            full[at, at - k] = self.rows[at, k]
        return full

    def column_squares(self) -> FloatArray:
        """Return the square of the L2 norm of each column, (rounds,)."""
        squares = np.zeros(self.rounds)
        for k in range(min(self.bands, self.rounds)):
            squares[: self.rounds - k] += self.rows[k:, k] ** 2
        return squares

    def sensitivity(self, separation: int) -> float:
        """Return the largest change of C x by one unit in the L2 norm, in clipping norms.

        Parameters
        ----------
        separation : int
            Smallest number of rounds from one participation to the next; at least the number of bands, or of rounds.

        Raises
        ------
        ValueError
            If the columns of two participations may have a row in common.

        Examples
        --------
        >>> round(square_root(100, 4).sensitivity(16), 5)
        3.22769
        """
        if separation < min(self.bands, self.rounds):
            raise ValueError(f"separation = {separation}: must be at least the number of bands, {self.bands}")
        squares = self.column_squares()
        most = np.zeros(self.rounds + 1)  # most[t]: of participations in the first t rounds
        for t in range(1, self.rounds + 1):
            most[t] = max(most[t - 1], squares[t - 1] + most[max(t - separation, 0)])
        return math.sqrt(float(most[-1]))

    def first(self, rounds: int) -> Banded:
        """Return the matrix of the first rounds alone, 1 or more: what has been answered after so many rounds."""
        return Banded(self.rows[:rounds])

    def row_deviation(self, round_number: int) -> float:
        """Return the standard deviation of a round's row of noise, C^-1 z, where z has deviation 1.

        >>> [round(square_root(4, 2).row_deviation(number), 4) for number in (1, 2, 3)]
        [1.0, 1.118, 1.1456]
        """
        from scipy.linalg import solve_banded

        bands, last = min(self.bands, round_number), round_number
        above = np.zeros((bands, last))  # C^T in the form of LAPACK: above[bands - 1 - k, i] = C[i, i - k]
        for k in range(bands):
            above[bands - 1 - k, k:] = self.rows[k:last, k]
        row = solve_banded((0, bands - 1), above, np.eye(1, last, last - 1)[0])
        return float(np.linalg.norm(row))

    def error(self) -> float:
        """Return the root mean square, over rounds, of the prefix sums' noise where z has deviation 1.

        Examples
        --------
        >>> round(square_root(1000, 16).error(), 5)
        5.11922
        """
        return math.sqrt(float((self._prefixes() ** 2).sum()) / self.rounds)

    def diagonal(self, done: int) -> float:
        """Return the number by which the fresh noise of the next round is divided, C[t, t]."""
        return float(self.rows[done, 0])

    def correction(self, done: int, kept: Sequence[NDArray[Any]]) -> FloatArray:
        """Return what earlier rows of noise, the latest one last, add to the next round's."""
        coefficients, total = self.rows[done], np.zeros(kept[-1].size if kept else 1)
        for coefficient, row in zip(coefficients[1:], reversed(kept), strict=False):
            total -= coefficient / coefficients[0] * row
        return total

    def rounding(self) -> float:
        """Return by how much rounding in all rounds changes C x at most, in steps, for one number."""
        reach = float(np.abs(self.rows / self.rows[:, :1]).sum(axis=1).max())
        return (1 + self.bands * 2.0**-8 * reach) * float(self.rows[:, 0].max()) * math.sqrt(self.rounds)

    def _prefixes(self) -> FloatArray:
        """Return numbers whose squares add up to those of A C^-1; where all rows are alike, column by column."""
        if self.is_toeplitz():
            prefixes = np.cumsum(inverse_series(self.rows[-1], self.rounds))
            return np.asarray(prefixes * np.sqrt(np.arange(self.rounds, 0, -1)))
        from scipy.linalg import solve_triangular

        ones = np.tril(np.ones((self.rounds, self.rounds)))
        return np.asarray(solve_triangular(self.matrix(), ones.T, lower=True, trans="T").T)

    def is_toeplitz(self) -> bool:
        """Return whether all rows are alike."""
        return all((self.rows[k:, k] == self.rows[-1, k]).all() for k in range(min(self.bands, self.rounds)))


def inverse_series(column: FloatArray, rounds: int) -> FloatArray:
    """Return the first column of C^-1 for a Toeplitz C: the first coefficients of the power series 1 / column.

    >>> inverse_series(np.array([1.0, 0.5]), 4).tolist()
    [1.0, -0.5, 0.25, -0.125]
    """
    from scipy.signal import lfilter

    return np.asarray(lfilter([1.0], column, np.eye(1, rounds)[0]))


def independent(rounds: int) -> Banded:
    """Return the identity: noise of each round is independent of all others."""
    return square_root(rounds, 1)


def square_root(rounds: int, bands: int) -> Banded:
    """Return the square root of the matrix of prefix sums, cut to its first bands.

    c_0 = 1, c_k = c_(k-1) (2 k - 1) / (2 k): the power series of (1 - x)^(-1/2).

    >>> square_root(4, 4).rows[-1].tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    if not 1 <= bands <= rounds:
        raise ValueError(f"bands = {bands}: must be from 1 to the number of rounds, {rounds}")
    k = np.arange(1, bands)
    return toeplitz(np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))]), rounds)


def toeplitz(coefficients: FloatArray, rounds: int) -> Banded:
    """Return the matrix whose every column begins, on the diagonal, with the same coefficients, (bands,).

    >>> toeplitz(np.array([1.0, 0.5]), 3).matrix().tolist()
    [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.5, 1.0]]
    """
    return Banded(np.where(np.arange(rounds)[:, None] >= np.arange(len(coefficients)), coefficients, 0.0))
