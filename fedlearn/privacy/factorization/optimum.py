"""Banded factorizations of least noise: the Toeplitz one for any number of rounds, and a search over all for few.

A Toeplitz matrix is its first column c, (bands,). A unit that takes part k times changes C x by at most sqrt(k) |c|,
and the error is that of the prefix sums b of the power series 1 / c: sum over t of (T - t) b_t^2. So the product of
both is a function of a few numbers, and its slope three convolutions.

`searched` drops that form: among matrices whose columns have norm 1 the sensitivity is that of the identity,
sqrt(number of participations), and the error is |A C^-1|_F. Its gradient in C is -2 B^T B C^-T, B = A C^-1; columns are
normalized within the function, so the search is free. It has at most 4 % less noise. A step takes the cube of the
rounds, and from some 700 on it may overflow.

Whatever a search ends at is a valid factorization: sensitivity and noise are computed from the matrix itself.

Source: Choquette-Choo et al. 2023 (arXiv:2306.08153), section 4; Toeplitz: McMahan, Xiao 2024 (arXiv:2404.16706).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy.factorization.banded import Banded, FloatArray, inverse_series, square_root, toeplitz

Places: TypeAlias = tuple[NDArray[np.intp], ...]
TOO_FAR = 1e3  # above the logarithm of any number
FLAT = 1e-3  # largest slope where a search has ended well; one that has not has some 0.5
SEARCH = {"maxiter": 300, "maxcor": 20, "ftol": 1e-8, "gtol": 1e-9}


def optimal(rounds: int, bands: int) -> Banded:
    """Return the banded Toeplitz factorization with the least product of sensitivity and root mean square error.

    Its columns have norm 1, but for the last ones, which are cut.

    Parameters
    ----------
    rounds : int
        Number of rounds.
    bands : int
        From 1 to the number of rounds; at most the separation of participations.

    Examples
    --------
    >>> found = optimal(1500, 20)
    >>> (found.rows[-1, 1:5] / found.rows[-1, 0]).round(3).tolist()
    [0.658, 0.578, 0.538, 0.513]
    >>> round(found.sensitivity(20) * found.error(), 2)
    59.41
    """
    from scipy.optimize import minimize

    closed = square_root(rounds, bands)
    if bands == 1:
        return closed
    left = np.arange(rounds, 0.0, -1.0)  # prefix sums in which a round's noise stands

    def loss(free: FloatArray) -> tuple[float, FloatArray]:
        column = np.concatenate([[1.0], free])
        inverse = inverse_series(column, rounds)
        prefixes = np.cumsum(inverse)
        squares, norm = float(left @ prefixes**2), float(column @ column)
        if not np.isfinite(squares):  # a step too far: the series of 1 / c grows
            return TOO_FAR, TOO_FAR * (free - closed.rows[-1, 1:])
        # d prefixes_t / d c_k = -(prefixes * inverse)_(t - k)
        moved = _convolved(prefixes, inverse)
        slope = -2 * _convolved((left * prefixes)[::-1], moved)[::-1][:bands]
        return np.log(squares * norm), (slope / squares + 2 * column / norm)[1:]

    start = closed.rows[-1, 1:]
    with np.errstate(over="ignore", invalid="ignore"):
        found = minimize(loss, start, jac=True, method="L-BFGS-B")
        if np.abs(found.jac).max() > FLAT and rounds > bands:  # a step went too far: begin nearer to the end
            nearer = optimal(max(rounds // 2, bands), bands).rows[-1]
            again = minimize(loss, nearer[1:] / nearer[0], jac=True, method="L-BFGS-B")
            found = min(found, again, key=lambda each: each.fun)
    column = np.concatenate([[1.0], found.x])
    return toeplitz(column / np.linalg.norm(column), rounds)


def _convolved(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the first coefficients of a product of power series of the same length."""
    length = 2 * len(one)
    return np.asarray(np.fft.irfft(np.fft.rfft(one, length) * np.fft.rfft(other, length), length)[: len(one)])


def searched(rounds: int, bands: int) -> Banded:
    """Return the banded factorization with columns of norm 1 that has the least root mean square error.

    >>> round(searched(20, 4).error() / square_root(20, 1).error(), 3)
    0.633
    """
    from scipy.optimize import minimize

    start = square_root(rounds, bands).rows
    at = np.nonzero(np.arange(rounds)[:, None] >= np.arange(bands))  # entries within the matrix
    column = at[0] - at[1]

    def normalized(entries: FloatArray) -> tuple[FloatArray, FloatArray]:
        norms = np.sqrt(np.bincount(column, entries**2, rounds))
        return entries / norms[column], norms

    def loss(entries: FloatArray) -> tuple[float, FloatArray]:
        unit, norms = normalized(entries)
        squares, slope = _error_and_slope(_full(unit, at, rounds), at)
        along = np.bincount(column, slope * unit, rounds)
        return squares, (slope - unit * along[column]) / norms[column]

    found = minimize(loss, start[at], jac=True, method="L-BFGS-B", options=SEARCH)
    rows = np.zeros((rounds, bands))
    rows[at] = normalized(found.x)[0]
    return Banded(rows * np.where(rows[:, :1] < 0, -1.0, 1.0))


def _full(entries: FloatArray, at: Places, rounds: int) -> FloatArray:
    full = np.zeros((rounds, rounds))
    full[at[0], at[0] - at[1]] = entries
    return full


def _error_and_slope(full: FloatArray, at: Places) -> tuple[float, FloatArray]:
    """Return |A C^-1|_F^2 and its derivatives by the entries of C."""
    from scipy.linalg import solve_triangular

    ones = np.tril(np.ones_like(full))
    prefixes = solve_triangular(full, ones.T, lower=True, trans="T").T  # B = A C^-1
    slope = -2 * solve_triangular(full, prefixes.T @ prefixes, lower=True).T  # (C^-1 B^T B)^T = B^T B C^-T
    return float((prefixes**2).sum()), slope[at[0], at[0] - at[1]]
