"""Averaging that counts only what the nodes sent.

A node sends some entries of each parameter and leaves the others null. The average of an entry is taken over the nodes
that sent it; an entry that no node sent keeps its previous value.

Source: FedAvg, McMahan et al. 2017 (arXiv:1602.05629), algorithm 1, restricted to the sent entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.state import Array, Layout, Positions, State, Update
from strategies.whole_numbers import as_before

Float64 = NDArray[np.float64]
CHUNK = 16_384  # entries; a chunk of products (128 KiB) stays in the cache between multiplying and adding


class MaskedSum:
    """A weighted sum of updates that knows, entry by entry, how much weight went in.

    Sums are kept in float64: a float32 value times a number of examples below 2^29 is exact there, and so is every
    sum of integers below 2^53. Memory is that of the model, whatever the number of nodes.

    Parameters
    ----------
    layout
        Names, shapes and dtypes of the state.

    Notes
    -----
    ``totals[name]`` is the sum of weight * value over the nodes that sent the entry, shape (size,).
    ``weights[name]`` is the sum of their weights: shape (size,), or (1,) as long as every node sent every entry.
    ``reports`` is the number of updates that went in, and the sum of their weights, whatever they sent: shape (2,).

    >>> from fedlearn.core.state import ArraySpec, Entries
    >>> layout = {"w": ArraySpec((2,), "float64")}
    >>> total = MaskedSum.empty(layout)
    >>> total.add([(1, {"w": Entries(np.array([1.0, 2.0]))}), (3, {"w": Entries(np.array([5.0]), np.array([0]))})])
    >>> total.mean(otherwise={"w": np.zeros(2)})
    {'w': array([4., 2.])}
    """

    def __init__(self, layout: Layout, totals: dict[str, Float64], weights: dict[str, Float64]) -> None:
        self.layout = layout
        self.totals = totals
        self.weights = weights
        self.reports = np.zeros(2)
        self._idle: dict[str, Float64] = {}

    @classmethod
    def empty(cls, layout: Layout) -> Self:
        """Return the sum of nothing."""
        return cls(layout, {}, {})

    def clear(self) -> None:
        """Forget everything that was added; the memory is used again."""
        self._idle |= self.totals
        self.totals = {}
        self.weights = {}
        self.reports = np.zeros(2)

    def add(self, parts: Sequence[tuple[float, Update]]) -> None:
        """Add updates, each times its weight, in their order."""
        self.reports += [len(parts), sum(weight for weight, _ in parts)]
        for name in self.layout:
            dense: list[tuple[float, Array]] = []
            for weight, update in parts:
                entries = update.get(name)
                if entries is None:
                    continue
                if entries.positions is None:
                    dense.append((weight, entries.values))
                    continue
                self._add_dense(name, dense)
                dense = []
                self._add_sent(name, weight, entries.values, entries.positions)
            self._add_dense(name, dense)

    def _add_sent(self, name: str, weight: float, values: Array, positions: Positions) -> None:
        """Add some entries of a parameter, a chunk at a time.

        By `np.add.at`, which reads, adds and writes each entry in one go; an assignment to ``total[positions]`` gathers
        and scatters, and takes twice as long.
        """
        total, weights = self._total(name), self._weights_by_entry(name)
        product = np.empty(min(CHUNK, len(positions)))
        for start in range(0, len(positions), CHUNK):
            where = positions[start : start + CHUNK]
            scaled = product[: len(where)]
            np.multiply(values[start : start + CHUNK], weight, out=scaled, dtype=np.float64)
            np.add.at(total, where, scaled)
            np.add.at(weights, where, float(weight))  # of an integer it takes ten times as long

    def _add_dense(self, name: str, parts: Sequence[tuple[float, Array]]) -> None:
        """Add whole parameters, a chunk of all of them at a time."""
        if not parts:
            return
        fresh = name not in self.totals
        total = self._total(name, zeroed=False)
        for weight, _ in parts:
            self.weights[name] += weight
        product = np.empty(min(CHUNK, len(total)))
        for start in range(0, len(total), CHUNK):
            chunk = total[start : start + CHUNK]
            scaled = product[: len(chunk)]
            for index, (weight, values) in enumerate(parts):
                out = chunk if fresh and index == 0 else scaled
                np.multiply(values[start : start + CHUNK], weight, out=out, dtype=np.float64)
                if out is scaled:
                    chunk += scaled

    def merge(self, later: Self) -> None:
        """Add all that another sum holds."""
        self.reports += later.reports
        for name, total in later.totals.items():
            if name not in self.totals:
                self.totals[name], self.weights[name] = total.copy(), later.weights[name].copy()
                continue
            self.totals[name] += total
            weights = later.weights[name]
            if len(weights) == 1:
                self.weights[name] += weights
            else:
                mine = self._weights_by_entry(name)
                mine += weights

    def mean(self, *, otherwise: State) -> dict[str, Array]:
        """Return the average of each entry, or its value in ``otherwise`` where no node sent it."""
        return {name: self._mean(name, array) for name, array in otherwise.items()}

    def _mean(self, name: str, otherwise: Array) -> Array:
        if name not in self.totals:
            return otherwise
        weights = np.broadcast_to(self.weights[name], self.totals[name].shape)
        old = otherwise.reshape(-1).astype(np.float64)
        mean = np.divide(self.totals[name], weights, out=old, where=weights > 0)
        if otherwise.dtype.kind == "f":
            return mean.astype(otherwise.dtype).reshape(otherwise.shape)
        # Integers beyond 2^53 do not survive float64: where no node sent, the old array itself is taken.
        return np.where((weights > 0).reshape(otherwise.shape), as_before(mean, otherwise), otherwise)

    def to_arrays(self) -> dict[str, Array]:
        """Return totals and weights under prefixed names, and the reports."""
        totals: dict[str, Array] = {f"total/{name}": total for name, total in self.totals.items()}
        return (
            {"reports": self.reports} | totals | {f"weight/{name}": weights for name, weights in self.weights.items()}
        )

    @classmethod
    def from_arrays(cls, layout: Layout, arrays: Mapping[str, Array]) -> Self:
        """Return the sum that `to_arrays` described."""
        names = [name.removeprefix("total/") for name in arrays if name.startswith("total/")]
        totals = {name: arrays[f"total/{name}"] for name in names}
        made = cls(layout, totals, {name: arrays[f"weight/{name}"] for name in names})
        made.reports = arrays["reports"]
        return made

    def _total(self, name: str, *, zeroed: bool = True) -> Float64:
        if name not in self.totals:
            size = self.layout[name].size
            total = self._idle.pop(name, None)
            self.totals[name] = np.empty(size) if total is None else total
            self.weights[name] = np.zeros(1)
            if zeroed:
                self.totals[name].fill(0.0)
        return self.totals[name]

    def _weights_by_entry(self, name: str) -> Float64:
        """Return the weights with one number for each entry, from now on."""
        weights = self.weights[name]
        size = self.layout[name].size
        if len(weights) != size:
            self.weights[name] = weights = np.full(size, weights[0])
        return weights
