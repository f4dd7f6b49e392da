"""Factorizations whose inverse has few bands: less noise than `Banded` where few rows of noise can be kept.

The noise of round t is w_t = z_t + d_1 z_(t-1) + ... + d_(b-1) z_(t-b+1), with 1, d_1, d_2, ... = 1, -1/2, -1/8, ...,
the power series of (1 - x)^(1/2) cut to b terms. So w = D z, and C = D^-1 is the square root of the prefix sums, but
for the cut. b - 1 earlier rows of z are kept. The answers are x + D z; C x + z follows from them, and they from it.

*Sensitivity.* Let c be the first column of C, c_0 = 1, and let it be >= 0 and not increasing, which is checked. The
product of columns i <= j is G(i, j) = sum over s < rounds - j of c_s c_(s + j - i): at least 0, not increasing in
j - i, and for a given j - i not increasing in j. A unit takes part in rounds i_0 < i_1 < ..., counted from 0, at least
`separation` apart, so i_k >= k * separation and i_k - i_l >= (k - l) * separation. With vectors of L2 norm <= 1 the
square of the change of C x is at most the sum of all G(i_k, i_l), hence at most that of rounds 0, separation,
2 * separation ..., as many as there are: the square of the norm of the sum of these columns.

*Rounding.* Answers are X_t + z_t + m_t, where X_t is the sum in steps of the grid, and m_t is what earlier rows give,
rounded to whole steps. Of a neighbor with steps X' = X + d the same answers come from z' = z + v with
v_t = -d_t - sum over k of d_k v_(t-k) + e_t: so v = C (e - d). e_t comes from rounding m_t twice, and from floats: at
most 1 + b 2^-8 reach in each number, reach the sum of the sizes of d_k. So |v| <= |C d| + (sum of c) |e|. The rest is
as in `correlated_noise`.

Source: Kalinin, McKenna, Upadhyay, Lampert 2025 (arXiv:2505.12128), banded inverse square root.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy.factorization.banded import Banded, FloatArray, inverse_series, toeplitz


@dataclass(frozen=True, slots=True, eq=False)
class InverseBanded:
    """The inverse C of a lower triangular Toeplitz matrix D with few bands and ones on the diagonal.

    Parameters
    ----------
    rows : ndarray
        (rounds, bands): ``rows[i, k]`` is D[i, i - k], as in `Banded`.

    Raises
    ------
    ValueError
        If D is not such a matrix, or the first column of C falls below 0 or increases.

    Examples
    --------
    >>> inverse_square_root(4, 3).rows[-1].tolist()
    [1.0, -0.5, -0.125]
    >>> inverse_square_root(4, 4).matrix()[:, 0].tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """

    rows: FloatArray
    column: FloatArray = field(init=False)
    """The first column of C, (rounds,)."""
    keeps_fresh: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Compute the column, and check what the sensitivity rests on."""
        inverse = Banded(self.rows)
        if not (self.rows[:, 0] == 1).all() or not inverse.is_toeplitz():
            raise ValueError("rows: must be those of a Toeplitz matrix with ones on the diagonal")
        column = inverse_series(self.rows[-1], self.rounds)
        if (column < 0).any() or (np.diff(column) > 0).any():
            raise ValueError("the first column of the inverse must be at least 0 and must not increase")
        object.__setattr__(self, "column", column)

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.rows)

    @property
    def bands(self) -> int:
        """Number of bands of the inverse; 1 is the identity."""
        return int(self.rows.shape[1])

    def matrix(self) -> FloatArray:
        """Return C, (rounds, rounds)."""
        return toeplitz(self.column, self.rounds).matrix()

    def sensitivity(self, separation: int) -> float:
        """Return the largest change of C x by one unit in the L2 norm, in clipping norms.

        >>> round(inverse_square_root(100, 4).sensitivity(16), 5)
        3.38438
        """
        if separation < 1:
            raise ValueError(f"separation = {separation}: must be at least 1")
        total = np.zeros(self.rounds)
        for start in range(0, self.rounds, separation):
            total[start:] += self.column[: self.rounds - start]
        return float(np.linalg.norm(total))

    def first(self, rounds: int) -> InverseBanded:
        """Return the matrix of the first rounds alone, 1 or more."""
        return InverseBanded(self.rows[:rounds])

    def row_deviation(self, round_number: int) -> float:
        """Return the standard deviation of a round's row of noise, D z, where z has deviation 1."""
        return float(np.linalg.norm(self.rows[-1, :round_number]))

    def error(self) -> float:
        """Return the root mean square, over rounds, of the prefix sums' noise where z has deviation 1.

        >>> round(inverse_square_root(1000, 4).error() * inverse_square_root(1000, 4).sensitivity(1000), 3)
        9.004
        """
        prefixes = np.full(self.rounds, self.rows[-1].sum())
        few = min(self.bands, self.rounds)
        prefixes[:few] = np.cumsum(self.rows[-1])[:few]
        return math.sqrt(float(prefixes**2 @ np.arange(self.rounds, 0, -1)) / self.rounds)

    def diagonal(self, done: int) -> float:
        """Return the number by which fresh noise is divided."""
        return 1.0

    def correction(self, done: int, kept: Sequence[NDArray[Any]]) -> FloatArray:
        """Return what earlier rows of z, the latest one last, add to the next round's."""
        return np.asarray(sum(d * row for d, row in zip(self.rows[done, 1:], reversed(kept), strict=False)), np.float64)

    def rounding(self) -> float:
        """Return by how much rounding in all rounds changes C x at most, in steps, for one number."""
        reach = float(np.abs(self.rows[-1]).sum())
        return (1 + self.bands * 2.0**-8 * reach) * float(self.column.sum()) * math.sqrt(self.rounds)


Factorization: TypeAlias = Banded | InverseBanded
"""The matrix C of correlated noise."""


def inverse_square_root(rounds: int, bands: int) -> InverseBanded:
    """Return the inverse of the square root of the matrix of prefix sums, cut to its first bands.

    d_0 = 1, d_k = d_(k-1) (2 k - 3) / (2 k): the power series of (1 - x)^(1/2).
    """
    if not 1 <= bands <= rounds:
        raise ValueError(f"bands = {bands}: must be from 1 to the number of rounds, {rounds}")
    k = np.arange(1, bands)
    return InverseBanded(toeplitz(np.concatenate([[1.0], np.cumprod((2 * k - 3) / (2 * k))]), rounds).rows)
