"""Whole numbers of a state, such as counters, after floats were computed with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.state import Array

EXACT = 2.0**53  # beyond it float64 has no place for every whole number
ROUNDING = 64 * np.finfo(np.float64).eps  # relative error of a mean of equal numbers, over many nodes


def as_before(values: NDArray[Any], before: Array) -> Array:
    """Return computed values in the dtype and shape of the array before: whole numbers rounded, and within their range.

    A whole number beyond 2^53 stays what it was where it moved by no more than float64 rounds: nodes that all sent it
    unchanged change nothing.

    >>> as_before(np.array([0.9999999, 2.0**61]), np.array([1, 2**61 - 1]))
    array([                  1, 2305843009213693951])
    """
    after: Array = np.asarray(values).reshape(before.shape)
    if before.dtype.kind not in "iub" or after.dtype == before.dtype:
        return after.astype(before.dtype)
    if before.dtype.kind == "b":
        return np.rint(after).astype(before.dtype)
    old = before.astype(np.float64)
    stays = (np.abs(old) >= EXACT) & (np.abs(after - old) <= ROUNDING * np.abs(old))
    return np.where(stays, before, _in_range(after, np.iinfo(before.dtype)))


def _in_range(values: NDArray[Any], ends: np.iinfo[Any]) -> Array:
    """Return values rounded to an integer dtype; one that lies beyond its range becomes the end of the range."""
    high = np.nextafter(float(ends.max), 0.0) if float(ends.max) > ends.max else float(ends.max)  # 2^63 is none
    whole: Array = np.clip(np.rint(values), float(ends.min), high).astype(ends.dtype)
    return np.where(values > high, ends.max, whole).astype(ends.dtype)
