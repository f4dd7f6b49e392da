"""Sums of the nodes' counts, appended round by round to the state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from fedlearn import wire
from fedlearn.core.state import Array, Layout, Update, UpdateKind, dense_update
from strategies.base import RoundStrategy, Step, Turn

IntArray = NDArray[np.int64]


class WholeSums:
    """Accumulator of integers: exact sums in any order. Each report counts once, whatever its number of examples.

    The gate refuses numbers beyond 2^42, and there are at most 2^20 nodes: no sum leaves int64.

    Parameters
    ----------
    totals
        Name -> sum, with the shape (size,) of the first update.
    """

    def __init__(self, totals: dict[str, IntArray]) -> None:
        self.totals = totals

    @classmethod
    def empty(cls, layout: Layout) -> Self:
        """Return a sum without any update."""
        return cls({})

    def add(self, parts: Sequence[tuple[float, Update]]) -> None:
        """Add updates; their weights make no difference."""
        for _, update in parts:
            self._add({name: entries.values for name, entries in update.items()})

    def clear(self) -> None:
        """Remove all updates from the sum."""
        self.totals = {}

    def merge(self, later: Self) -> None:
        """Add the totals of another sum."""
        self._add(later.totals)

    def to_arrays(self) -> dict[str, Array]:
        """Return the totals by name."""
        return dict(self.totals)

    @classmethod
    def from_arrays(cls, layout: Layout, arrays: Mapping[str, Array]) -> Self:
        """Return the sum with the totals that `to_arrays` returned."""
        return cls(dict(arrays))

    def _add(self, arrays: Mapping[str, Array]) -> None:
        self.totals = {name: self.totals.get(name, 0) + array for name, array in arrays.items()} or self.totals


class Sums(RoundStrategy[WholeSums]):
    """Append the sums of a round to the sums of the rounds before.

    Parameters
    ----------
    uniform : bool, default=False
        Makes no difference: sums have no weights.
    """

    accepts = frozenset({UpdateKind.SUMS})
    accumulator = "strategies.sums_strategy:WholeSums"

    def next_state(self, turn: Turn[WholeSums]) -> Step:
        """Return the state with the sums of this round appended."""
        totals = turn.total.totals
        if not totals:
            return Step(turn.state)
        return Step(
            dict(turn.state) | {name: np.concatenate([turn.state[name], sums]) for name, sums in totals.items()}
        )

    def read(self, content: RecordDict, layout: Layout) -> Update:
        """Return the sums of a reply, under ``Strategy.start``."""
        return dense_update(wire.read_members(content))
