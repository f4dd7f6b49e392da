"""The sum of masked reports: whole numbers added modulo a power of two, which have no order and no weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from fedlearn.core.state import Array, Layout, Update

MASKED = "masked"
"""The name of the one array of a masked report."""


def sum_name(group: int | None) -> str:
    """Return the name of the sum that a masked report goes into: that of its group, where there are groups."""
    return MASKED if group is None else f"{MASKED}/{group}"


class ModularSum:
    """The sums of arrays by their names, modulo 2^32 or 2^64 as their dtypes say.

    Weights are not looked at: what a node's report counts is part of what the node has masked.

    Parameters
    ----------
    totals
        Name of a sum -> (entries,) of uint32 or uint64; a sum of nothing has no entry here.

    >>> import numpy as np
    >>> from fedlearn.core.state import ArraySpec, Entries
    >>> total = ModularSum.empty({MASKED: ArraySpec((1,), "uint32")})
    >>> total.add([(1, {MASKED: Entries(np.array([number], np.uint32))}) for number in (2**32 - 1, 3)])
    >>> total.totals
    {'masked': array([2], dtype=uint32)}
    """

    def __init__(self, totals: dict[str, Array]) -> None:
        self.totals = totals

    @classmethod
    def empty(cls, layout: Layout) -> Self:
        """Return the sum of nothing."""
        return cls({})

    def add(self, parts: Sequence[tuple[float, Update]]) -> None:
        """Add masked reports."""
        for _, update in parts:
            for name, entries in update.items():
                self._add(name, entries.values)

    def clear(self) -> None:
        """Forget all that was added."""
        self.totals = {}

    def merge(self, later: Self) -> None:
        """Add other sums to these sums."""
        for name, total in later.totals.items():
            self._add(name, total)

    def _add(self, name: str, values: Array) -> None:
        if name in self.totals:
            self.totals[name] += values
        else:
            self.totals[name] = values.copy()

    def to_arrays(self) -> dict[str, Array]:
        """Return the sums as arrays."""
        return self.totals

    @classmethod
    def from_arrays(cls, layout: Layout, arrays: Mapping[str, Array]) -> Self:
        """Return the sums that `to_arrays` described."""
        return cls(dict(arrays))
