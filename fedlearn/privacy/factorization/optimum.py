"""The banded factorization with the least error, found once by L-BFGS and kept in the cache folder.

Among matrices whose columns have norm 1 the sensitivity is that of the identity, sqrt(number of participations), and
the error is |A C^-1|_F. Its gradient in C is -2 B^T B C^-T, B = A C^-1; columns are normalized within the function,
so the search is free. Whatever the search ends at, or a file holds, is a valid factorization: sensitivity and noise
are computed from the matrix itself.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy.accounts.kept import kept_bytes
from fedlearn.privacy.factorization.banded import Banded, FloatArray, square_root

Places: TypeAlias = tuple[NDArray[np.intp], ...]
MOST_ROUNDS = 1024  # a step takes the cube of the rounds: half a second here
SEARCH = {"maxiter": 300, "maxcor": 20, "ftol": 1e-8, "gtol": 1e-9}


def optimal(rounds: int, bands: int) -> Banded:
    """Return the banded factorization with columns of norm 1 that has the least root mean square error.

    Beyond `MOST_ROUNDS` rounds it is the closed form, whose error is 1 to 6 % larger.

    >>> round(optimal(20, 4).error() / square_root(20, 1).error(), 3)
    0.633
    """
    if bands == 1 or rounds > MOST_ROUNDS:
        return square_root(rounds, bands)
    found = kept_bytes(("factorization", rounds, bands), lambda: _searched(rounds, bands).tobytes())
    rows = np.frombuffer(found, np.float64)
    if rows.size == rounds * bands:
        with suppress(ValueError):
            return Banded(rows.reshape(rounds, bands).copy())
    return Banded(_searched(rounds, bands))


def _searched(rounds: int, bands: int) -> FloatArray:
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
    return rows * np.where(rows[:, :1] < 0, -1.0, 1.0)


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
