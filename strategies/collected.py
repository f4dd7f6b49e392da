"""Updates kept side by side, for strategies that need all of them at once. Memory: what the cohort sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from fedlearn.core.state import Array, Entries, Layout, Update


class Collected:
    """The updates of a cohort and their weights, in the order of positions."""

    def __init__(self, layout: Layout, updates: list[tuple[float, Update]]) -> None:
        self.layout = layout
        self.updates = updates

    @classmethod
    def empty(cls, layout: Layout) -> Self:
        """Return a collection of nothing."""
        return cls(layout, [])

    def add(self, parts: Sequence[tuple[float, Update]]) -> None:
        """Keep updates."""
        self.updates += parts

    def clear(self) -> None:
        """Forget all updates."""
        self.updates = []

    def merge(self, later: Self) -> None:
        """Keep the updates of another collection after ours."""
        self.updates += later.updates

    def to_arrays(self) -> dict[str, Array]:
        """Return every update as arrays named by its place, what they are, and the parameter."""
        arrays: dict[str, Array] = {}
        for index, (weight, update) in enumerate(self.updates):
            arrays[f"{index}/weight"] = np.array([weight], np.float64)
            for name, entries in update.items():
                arrays[f"{index}/values/{name}"] = entries.values
                if entries.positions is not None:
                    arrays[f"{index}/positions/{name}"] = entries.positions
        return arrays

    @classmethod
    def from_arrays(cls, layout: Layout, arrays: Mapping[str, Array]) -> Self:
        """Return the collection that `to_arrays` described, copied: the arrays may lie in memory that is used again."""
        count = sum(name.endswith("/weight") for name in arrays if name.count("/") == 1)
        updates: list[tuple[float, dict[str, Entries]]] = [
            (float(arrays[f"{index}/weight"][0]), {}) for index in range(count)
        ]
        for key, array in arrays.items():
            index, what, *name = key.split("/", 2)
            if what == "values":
                positions = arrays.get(f"{index}/positions/{name[0]}")
                kept = None if positions is None else positions.copy()
                updates[int(index)][1][name[0]] = Entries(array.copy(), kept)
        return cls(layout, list(updates))
