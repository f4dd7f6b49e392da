"""Helpers of several stages: segments with a scale each, and zeros for entries that were not sent."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedlearn.compression.stages import Lengths
from fedlearn.core.errors import Refused
from fedlearn.core.state import Array, ArraySpec, Entries


def segments(values: Array, lengths: Lengths) -> Iterator[Array]:
    """Return a view of each segment of a vector."""
    start = 0
    for length in lengths:
        yield values[start : start + length]
        start += length


def check_scales(scales: Array, *, least: float) -> None:
    """Raise Refused for scales below `least`, or not finite, as after a training that has diverged."""
    if not np.isfinite(scales).all():
        raise Refused("not-finite", "a scale is NaN or infinity")
    if (scales < least).any():
        raise Refused("undecodable", f"a scale is below {least:g}")


def zero_filled(entries: Entries, spec: ArraySpec) -> Entries:
    """Return all entries of a parameter: the sent values, and zero for the others."""
    if entries.positions is None:
        return entries
    values = np.zeros(spec.size, entries.values.dtype)
    values[entries.positions] = entries.values
    return Entries(values)
