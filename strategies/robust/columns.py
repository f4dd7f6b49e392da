"""What defences do with columns: the values that the nodes have sent of one entry, NaN for null."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.state import Array
from strategies.masked_mean import Float64
from strategies.whole_numbers import as_before


class WeightedMean:
    """The mean of each column over the nodes that sent it, by weight; NaN where those weigh nothing.

    >>> WeightedMean(np.array([2.0, 1.0]))(np.array([[1.0, np.nan], [4.0, np.nan]]))
    array([ 2., nan])
    """

    def __init__(self, weights: Float64) -> None:
        self._weights = weights
        self._of_all: dict[int, Float64] = {}  # by number of entries: what weighs where all nodes have sent

    def __call__(self, values: Float64) -> Float64:
        """Return the means of (nodes, entries)."""
        sums, weighed = self._weights @ values, self._weight_of_all(values.shape[1])
        if np.isnan(sums).any():
            null = np.isnan(values)
            sums, weighed = self._weights @ np.where(null, 0.0, values), self._weights @ ~null
        means: Float64 = np.divide(sums, weighed, out=np.full(values.shape[1], np.nan), where=weighed > 0)
        return means

    def _weight_of_all(self, entries: int) -> Float64:
        if entries not in self._of_all:
            self._of_all[entries] = self._weights @ np.ones((len(self._weights), entries))
        return self._of_all[entries]


def medians(columns: Float64, count: NDArray[np.intp]) -> Float64:
    """Return the middle value of each column, or the mean of the two middle ones.

    Parameters
    ----------
    columns
        (nodes, entries), each column ascending, its first ``count`` rows hold what was sent.
    count
        (entries,), at least one.
    """
    entry = np.arange(columns.shape[1])
    middle: Float64 = (columns[(count - 1) // 2, entry] + columns[count // 2, entry]) / 2
    return middle


def stepped(array: Array, change: Float64) -> Array:
    """Return a parameter after a change of its flat entries; where the change is NaN, the old value to the bit."""
    flat = array.reshape(-1)
    touched = ~np.isnan(change)
    moved = np.where(touched, change, 0.0)
    if array.dtype.kind == "b":
        return (flat ^ (np.abs(moved) > 0.5)).reshape(array.shape)
    after = flat.astype(np.float64) + moved
    return np.where(touched, as_before(after, flat), flat).reshape(array.shape)
