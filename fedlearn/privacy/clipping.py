"""Clipping of what one node changes, to an L2 norm over all parameters together.

One node's change is one vector: a norm for each parameter would bound the whole by the root of their number only.

Source: McMahan et al. 2018 (arXiv:1710.06963), algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fedlearn.core.state import Array, State

SLACK = 1e-6  # relative: by so much rounding may miss the norm, and so much more noise is drawn


def norm_of(arrays: Mapping[str, Array]) -> float:
    """Return the L2 norm of all entries of all arrays, summed in float64; infinity or NaN where an entry is none.

    >>> norm_of({"w": np.array([[3.0]], np.float32), "b": np.array(4.0, np.float32)})
    5.0
    """
    with np.errstate(over="ignore", invalid="ignore"):
        squares = (np.square(np.reshape(array, -1), dtype=np.float64) for array in arrays.values())
        return math.sqrt(sum(float(each.sum()) for each in squares))


def is_clipped(arrays: Mapping[str, Array], clip: float) -> bool:
    """Return whether the norm of all arrays together is at most ``clip``, up to rounding (`SLACK`)."""
    return norm_of(arrays) <= clip * (1 + SLACK)


def within(change: Mapping[str, Array], clip: float) -> Array:
    """Return 1/2 where the norm of a change is at most ``clip``, else -1/2; shape (1,), float32."""
    return np.array([0.5 if norm_of(change) <= clip else -0.5], np.float32)


def clipped(change: State, clip: float) -> dict[str, Array]:
    """Return the change times min(1, clip / its L2 norm), in its own dtypes; zeros where an entry is not finite.

    The result `is_clipped` whatever the change is: where rounding to a narrow dtype has made it longer, it is shortened
    again.

    >>> clipped({"w": np.array([3.0]), "b": np.array(4.0)}, 1.0)
    {'w': array([0.6]), 'b': array(0.8)}
    >>> clipped({"w": np.array([np.nan, 1.0])}, 1.0)
    {'w': array([0., 0.])}
    """
    norm = norm_of(change)
    if not math.isfinite(norm):
        return {name: np.zeros_like(array) for name, array in change.items()}
    factor, short = min(1.0, clip / norm if norm else 1.0), dict(change)
    if factor < 1:
        short = _scaled(change, factor)
    while not is_clipped(short, clip):
        factor *= 1 - 2.0**-10
        short = _scaled(change, factor)
    return short


def _scaled(change: State, factor: float) -> dict[str, Array]:
    wide = ((name, np.multiply(array, factor, dtype=np.float64)) for name, array in change.items())
    return {name: np.asarray(each, change[name].dtype) for name, each in wide}
