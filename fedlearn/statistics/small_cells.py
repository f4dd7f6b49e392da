"""Small cells: what is shown of counts, so that an answer lets nobody read a count from 1 to `least_count` - 1.

Records are counted by group (a row) and by cell (a column): categories, cells of a histogram, points of a grid of
times. A count is *small* from 1 to `least_count` - 1.

* Cells are merged until no group has a small count in any: neighbors where cells have an order, else from the least
  frequent cell on. All that is shown follows from the merged counts, so that a count of a cell that was merged may be
  any number up to that of its block, which is 0 or at least `least_count`.
* A group whose own total is small is left out, of totals as well: no number that is shown contains its records.

So each hidden count may be 1, 2, and so on to `least_count` - 1, given all that one answer shows. That is a rule of
what is shown. It protects nothing from the server or from a reader of the run folder, which hold the sums themselves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedlearn.models.model import Finished
from fedlearn.statistics.design import FloatArray, IntArray

LEAST = 5  # default of `least_count`


def is_small(counts: FloatArray, least: int) -> NDArray[np.bool_]:
    """Return whether each count is too small to be shown.

    >>> is_small(np.array([0, 1, 4, 5]), 5).tolist()
    [False, True, True, False]
    """
    return np.asarray((counts > 0) & (counts < least))


def blocks_of(counts: FloatArray, least: int, *, is_ordered: bool = True) -> IntArray:
    """Return (cells,) the number of the block into which each cell is merged, so that no block has a small count.

    Parameters
    ----------
    counts
        (groups, cells) records; no group has a small total.
    least
        Least count that is shown.
    is_ordered
        Whether blocks are of neighbors; else cells are taken from the least frequent on.

    Examples
    --------
    >>> blocks_of(np.array([[9, 2, 0, 7, 6, 1]]), 5).tolist()
    [0, 1, 1, 1, 2, 2]
    >>> blocks_of(np.array([[9, 2, 0, 7, 6, 1]]), 5, is_ordered=False).tolist()
    [3, 1, 0, 2, 1, 1]
    """
    cells = counts.shape[1]
    if not is_small(counts, least).any():
        return np.arange(cells)
    order = np.arange(cells) if is_ordered else np.argsort(counts.sum(axis=0), kind="stable")
    ends, total = [], np.zeros(len(counts))
    for place, column in enumerate(counts.T[order]):
        total = total + column
        if not is_small(total, least).any():
            ends.append(place)
            total = np.zeros(len(counts))
    while ends and is_small(total, least).any():  # the last cells go into the block before
        ends.pop()
        total = counts[:, order[ends[-1] + 1 if ends else 0 :]].sum(axis=1)
    block = np.empty(cells, np.int64)
    block[order] = np.searchsorted(ends, np.arange(cells))
    return block


def in_blocks(counts: FloatArray, block: IntArray) -> FloatArray:
    """Return (..., blocks) the sums of (..., cells) counts by block.

    >>> in_blocks(np.array([9, 2, 0, 7]), np.array([0, 1, 1, 1])).tolist()
    [9.0, 9.0]
    """
    sums = np.zeros((*counts.shape[:-1], int(block.max()) + 1))
    np.add.at(sums, (..., block), counts)  # type: ignore[arg-type] # the stub knows no ellipsis
    return sums


def nothing_to_show(least: int) -> Finished:
    """Return the end of an analysis of which nothing may be shown."""
    return Finished(f"there are fewer than model.options.least_count = {least} records in each group", is_failure=True)
