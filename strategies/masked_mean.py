"""Averaging that counts only what the nodes sent.

A node sends some entries of each parameter and leaves the others null. The average of an entry is taken over the nodes
that sent it; an entry that nobody sent keeps its previous value.

Source: FedAvg, McMahan et al. 2017 (arXiv:1602.05629), algorithm 1, restricted to the sent entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedlearn.state import Array, Layout, State, Update

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

    >>> from fedlearn.state import ArraySpec, Entries
    >>> layout = {"w": ArraySpec((2,), "float64")}
    >>> total = MaskedSum.empty(layout)
    >>> total.add({"w": Entries(np.array([1.0, 2.0]))}, weight=1)
    >>> total.add({"w": Entries(np.array([5.0]), np.array([0]))}, weight=3)
    >>> total.mean(otherwise={"w": np.zeros(2)})
    {'w': array([4., 2.])}
    """

    def __init__(self, layout: Layout, totals: dict[str, Float64], weights: dict[str, Float64]) -> None:
        self.layout = layout
        self.totals = totals
        self.weights = weights

    @classmethod
    def empty(cls, layout: Layout) -> Self:
        """Return the sum of nothing."""
        return cls(layout, {}, {})

    def add(self, update: Update, *, weight: float) -> None:
        """Add ``weight`` times the sent entries of one update."""
        for name, entries in update.items():
            total = self._total(name)
            if entries.positions is None:
                _add_product(total, entries.values, weight)
                self.weights[name] += weight
            else:
                total[entries.positions] += np.multiply(entries.values, weight, dtype=np.float64)
                self._weights_by_entry(name)[entries.positions] += weight

    def merge(self, later: Self) -> None:
        """Add all that another sum holds."""
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
        if otherwise.dtype.kind in "iub":
            np.rint(mean, out=mean)
        return mean.astype(otherwise.dtype).reshape(otherwise.shape)

    def to_arrays(self) -> dict[str, Array]:
        """Return totals and weights under prefixed names."""
        totals: dict[str, Array] = {f"total/{name}": total for name, total in self.totals.items()}
        return totals | {f"weight/{name}": weights for name, weights in self.weights.items()}

    @classmethod
    def from_arrays(cls, layout: Layout, arrays: Mapping[str, Array]) -> Self:
        """Return the sum that `to_arrays` described."""
        names = [name.removeprefix("total/") for name in arrays if name.startswith("total/")]
        totals = {name: arrays[f"total/{name}"] for name in names}
        return cls(layout, totals, {name: arrays[f"weight/{name}"] for name in names})

    def _total(self, name: str) -> Float64:
        if name not in self.totals:
            self.totals[name] = np.zeros(self.layout[name].size)
            self.weights[name] = np.zeros(1)
        return self.totals[name]

    def _weights_by_entry(self, name: str) -> Float64:
        """Return the weights with one number for each entry, from now on."""
        weights = self.weights[name]
        size = self.layout[name].size
        if len(weights) != size:
            self.weights[name] = weights = np.full(size, weights[0])
        return weights


def _add_product(total: Float64, values: Array, weight: float) -> None:
    """Add ``weight * values`` to `total`, in float64, without a temporary array of the parameter's size."""
    product = np.empty(min(CHUNK, len(total)))
    for start in range(0, len(total), CHUNK):
        chunk = total[start : start + CHUNK]
        scaled = product[: len(chunk)]
        np.multiply(values[start : start + CHUNK], weight, out=scaled, dtype=np.float64)
        chunk += scaled
