"""Sums of what all nodes counted, put behind those of the rounds before: the model is what follows from all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from fedlearn import wire
from fedlearn.words.state import Array, Layout, Update, UpdateKind, dense_update
from strategies.base import RoundStrategy, Step, Turn

IntArray = NDArray[np.int64]


class WholeSums:
    """Whole numbers, added up exactly, whatever the order. A report counts once, however many examples it claims.

    The gate lets no number beyond 2^42 through, and there are at most 2^20 nodes: no sum leaves int64.

    Parameters
    ----------
    totals
        Name -> sum, shape (size,), as the first update has it.
    """

    def __init__(self, totals: dict[str, IntArray]) -> None:
        self.totals = totals

    @classmethod
    def empty(cls, layout: Layout) -> Self:
        """Return the sum of nothing."""
        return cls({})

    def add(self, parts: Sequence[tuple[float, Update]]) -> None:
        """Add updates; weights do not matter."""
        for _, update in parts:
            self._add({name: entries.values for name, entries in update.items()})

    def clear(self) -> None:
        """Forget everything that was added."""
        self.totals = {}

    def merge(self, later: Self) -> None:
        """Add all that another sum holds."""
        self._add(later.totals)

    def to_arrays(self) -> dict[str, Array]:
        """Return the sums."""
        return dict(self.totals)

    @classmethod
    def from_arrays(cls, layout: Layout, arrays: Mapping[str, Array]) -> Self:
        """Return the sum that `to_arrays` described."""
        return cls(dict(arrays))

    def _add(self, arrays: Mapping[str, Array]) -> None:
        self.totals = {name: self.totals.get(name, 0) + array for name, array in arrays.items()} or self.totals


class Sums(RoundStrategy[WholeSums]):
    """What was counted in a round is put behind what was counted before.

    Parameters
    ----------
    uniform : bool, default=False
        Makes no difference: a sum has no weights.
    """

    accepts = frozenset({UpdateKind.SUMS})
    accumulator = "fedlearn.private_trees.federated.strategies.sums:WholeSums"

    def next_state(self, turn: Turn[WholeSums]) -> Step:
        """Return the state with the sums of one more round."""
        totals = turn.total.totals
        if not totals:
            return Step(turn.state)
        return Step({name: np.concatenate([array, totals[name]]) for name, array in turn.state.items()})

    def read(self, content: RecordDict, layout: Layout) -> Update:
        """Return the sums of a reply, under ``Strategy.start``."""
        return dense_update(wire.read_members(content))
