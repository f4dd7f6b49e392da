"""Inner products and distances between the changes of nodes, of which some left entries null.

For two changes of which all ``d`` entries were sent, they are the plain ones. Else they are taken over the entries that
both nodes sent, and scaled to all::

    <x, y> = d / |common| * sum over common of x y,    |x - y|^2 = |x|^2 + |y|^2 - 2 <x, y>

with ``|x|^2 = d / |sent| * sum over sent of x^2``. Where each node drops entries at random, both are without bias; two
changes that have no entry in common are taken for orthogonal. Entries of integer parameters are no part of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from fedlearn.core.state import Entries, Sends, State, Update
from strategies.masked_mean import Float64

COLUMNS = 4_096  # entries looked at together: of 100 nodes they fit a processor's cache
APART = 8  # unused entries after each row: else the rows of one column are a power of two apart, and share a cache line


class Changes:
    """The changes that the nodes of a cohort reported, in the order of their partitions.

    Parameters
    ----------
    state
        The state that the nodes were sent.
    updates
        What each node sent: values or changes.
    sends
        Which of the two it was.
    """

    def __init__(self, state: State, updates: Sequence[Update], sends: Sends) -> None:
        self.state = state
        self.updates = updates
        self.sends = sends

    def of(self, nodes: Iterable[int]) -> Changes:
        """Return the changes of some of the nodes."""
        return Changes(self.state, [self.updates[node] for node in nodes], self.sends)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.updates)

    def sent(self, name: str) -> list[Entries | None]:
        """Return what each node sent of a parameter; None of a node that sent nothing of it."""
        return [update.get(name) for update in self.updates]

    def blocks(self, name: str) -> Iterator[tuple[slice, Float64]]:
        """Yield flat positions of a parameter, and what each node sent there: (nodes, entries), NaN for null.

        The array is used again for the next positions.
        """
        rows, size = self.sent(name), self.state[name].size
        whole = np.empty((len(rows), COLUMNS + APART))
        for start in range(0, size, COLUMNS):
            block = slice(start, min(start + COLUMNS, size))
            values = whole[:, : block.stop - block.start]
            _stack(rows, block, values)
            yield block, values

    def columns(self, name: str) -> Iterator[tuple[slice, Float64]]:
        """Yield flat positions of a parameter, and what each node changed there, in the same way."""
        old = self.state[name].reshape(-1)
        for block, values in self.blocks(name):
            if self.sends is Sends.WEIGHTS:
                values -= old[block].astype(np.float64)
            yield block, values

    def gram(self) -> Float64:
        """Return the inner products of all pairs, shape (nodes, nodes), in float64."""
        count = len(self)
        products, common, whole = np.zeros((count, count)), np.zeros((count, count)), 0
        with threadpool_limits(1):  # with more threads other bytes
            for name, array in sorted(self.state.items()):  # whatever order a stored state has
                if array.dtype.kind != "f":
                    continue
                whole += array.size
                drops = any(entries is None or entries.positions is not None for entries in self.sent(name))
                for _, values in self.columns(name):
                    product = None if drops else values @ values.T
                    if product is None or np.isnan(product.diagonal()).any():
                        null = np.isnan(values)
                        values[null] = 0.0
                        common += (sent := (~null).astype(np.float64)) @ sent.T
                        product = values @ values.T
                    else:
                        common += values.shape[1]
                    products += product
        return np.divide(products * whole, common, out=np.zeros_like(products), where=common > 0)


def _stack(rows: Sequence[Entries | None], block: slice, values: Float64) -> None:
    """Write what each node sent of a block of entries into (nodes, entries); NaN for null."""
    for row, entries in zip(values, rows, strict=True):
        if entries is None:
            row[:] = np.nan
        elif (positions := entries.positions) is None:
            row[:] = entries.values[block]
        else:
            row[:] = np.nan
            first, last = np.searchsorted(positions, (block.start, block.stop))
            row[positions[first:last] - block.start] = entries.values[first:last]


def squared_distances(gram: Float64) -> Float64:
    """Return the squared distances of all pairs from their inner products, shape (nodes, nodes).

    >>> squared_distances(np.array([[1.0, 0.0], [0.0, 4.0]]))
    array([[0., 5.],
           [5., 0.]])
    """
    squares = np.diag(gram)
    distances: Float64 = np.maximum(squares[:, np.newaxis] + squares - 2 * gram, 0.0)
    np.fill_diagonal(distances, 0.0)
    return distances


def distances_to(gram: Float64, weights: Float64) -> Float64:
    """Return how far each change is from the combination of all with these weights, shape (nodes,).

    >>> distances_to(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, 0.0])).round(6)
    array([0.      , 1.414214])
    """
    squares = weights @ gram @ weights - 2 * gram @ weights + np.diag(gram)
    return np.sqrt(np.maximum(squares, 0.0))
