"""The sum of masked reports: whole numbers added modulo a power of two, which have no order and no weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from fedlearn.words.state import Array, Layout, Update

MASKED = "masked"
"""The name of the one array of a masked report."""


class ModularSum:
    """The sum of the array `MASKED` of each update, modulo 2^32 or 2^64 as its dtype says.

    Weights are not looked at: what a node's report counts is part of what the node has masked.

    Parameters
    ----------
    total
        (entries,) of uint32 or uint64.

    >>> from fedlearn.words.state import ArraySpec, Entries
    >>> total = ModularSum.empty({MASKED: ArraySpec((1,), "uint32")})
    >>> total.add([(1, {MASKED: Entries(np.array([number], np.uint32))}) for number in (2**32 - 1, 3)])
    >>> total.total
    array([2], dtype=uint32)
    """

    def __init__(self, total: Array) -> None:
        self.total = total

    @classmethod
    def empty(cls, layout: Layout) -> Self:
        """Return the sum of nothing."""
        spec = layout[MASKED]
        return cls(np.zeros(spec.shape, spec.dtype))

    def add(self, parts: Sequence[tuple[float, Update]]) -> None:
        """Add masked reports."""
        for _, update in parts:
            self.total += update[MASKED].values

    def clear(self) -> None:
        """Forget all that was added."""
        self.total[:] = 0

    def merge(self, later: Self) -> None:
        """Add another sum to this sum."""
        self.total += later.total

    def to_arrays(self) -> dict[str, Array]:
        """Return the sum as an array."""
        return {MASKED: self.total}

    @classmethod
    def from_arrays(cls, layout: Layout, arrays: Mapping[str, Array]) -> Self:
        """Return the sum that `to_arrays` described."""
        return cls(arrays[MASKED])
