"""How long an update is, and whether all of its values are finite."""

from __future__ import annotations

import math

import numpy as np

from fedlearn.core.errors import Refused
from fedlearn.core.state import Array, Entries, State, Update

NOTHING: State = {}
CHUNK = 8192  # entries of one sum: so few that BLAS does not split it among threads, which would alter its last bits


def norm_of(update: Update, base: State = NOTHING) -> float:
    """Return the L2 norm of all float values, less those of `base` where it has any.

    Raises
    ------
    Refused
        For NaN, infinity and what is no number.
    """
    square = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for name, entries in update.items():
            kind = entries.values.dtype.kind
            if kind not in "fiub":
                raise Refused("wrong-dtype", f"{name} has dtype {entries.values.dtype}")
            if kind == "f":
                square += _square_of(name, entries, base.get(name))
    return math.sqrt(square)


def _square_of(name: str, entries: Entries, base: Array | None) -> float:
    """Return the sum of the squares of one parameter's values, less its base; refuse NaN and infinity.

    A chunk at a time: no copy of the parameter is made.
    """
    square = 0.0
    flat = None if base is None else base.reshape(-1)
    for start in range(0, len(entries.values), CHUNK):
        part = slice(start, start + CHUNK)
        values = entries.values[part]
        if flat is not None:
            values = values - flat[part if entries.positions is None else entries.positions[part]]
        term = float(np.dot(values, values))
        if not math.isfinite(term):  # squares of huge but finite values overflow: look again before refusing
            if not np.isfinite(entries.values[part]).all():
                raise Refused("not-finite", f"{name} holds NaN or infinity")
            wide = values.astype(np.float64)
            term = float(np.dot(wide, wide))
        square += term
    return square
