"""Sums over the cells of partitions, in integers, in numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.cache.compiled import compiled
from fedlearn.private_trees.sums.losses import UNIT
from fedlearn.private_trees.sums.record_partitions import Partitions
from fedlearn.private_trees.sums.views import Codes

Pairs = NDArray[np.int32]
LANES = 4


def cell_sums(codes: Codes, partitions: Partitions, partition: int, pairs: Pairs) -> NDArray[np.int64]:
    """Return (cells, columns) the sums of `pairs` over each cell; one record adds its row once."""
    out = np.zeros((int(partitions.cells[partition]), pairs.shape[1]), np.int64)
    _add(partitions.cell_of(partition, codes), pairs, out)
    return out


def add_up(cell: NDArray[np.int64], rows: NDArray[np.integer[Any]], sums: NDArray[np.int64]) -> None:
    """Add each row (rows, columns) to the sums of its cell (cells, columns), in place."""
    _add(cell, rows, sums)


def unbalance(
    codes: Codes, partitions: Partitions, wanted: NDArray[np.int64], pairs: Pairs, outputs: int
) -> NDArray[np.float64]:
    """Return (wanted,) the sum of ``|sum of gradients|`` over the cells of each partition, in records.

    Adding or removing a record changes one cell's sums of gradients, by at most UNIT in the L1 norm: each number
    changes by at most 1, up or down. The numbers are whole multiples of 1 / UNIT below 2^53: exact in float64.
    """
    out = np.zeros(len(wanted), np.int64)
    gradients = np.ascontiguousarray(pairs[:, :outputs].T)
    table = np.column_stack([partitions.views, partitions.shifts, partitions.strides, partitions.cells])[wanted]
    _unbalance(codes, table, gradients, out)
    return out / UNIT


@compiled()
def _add(cell, pairs, out):  # type: ignore[no-untyped-def]
    for row in range(pairs.shape[0]):
        for column in range(pairs.shape[1]):
            out[cell[row], column] += pairs[row, column]


@compiled()
def _unbalance(codes, table, gradients, out):  # type: ignore[no-untyped-def]
    """Fill `out`; a partition that is a coarser grid of its predecessor is summed from the predecessor's cells."""
    finer = np.zeros((gradients.shape[0], table[:, 5].max()), np.int64)
    sums = np.zeros_like(finer)
    lanes = np.zeros((LANES, finer.shape[1]), np.int64)
    for each in range(table.shape[0]):
        a, b, cells = table[each, 0], table[each, 1], table[each, 5]
        if each > 0 and table[each - 1, 0] == a and table[each - 1, 1] == b:
            _pool(finer, table[each - 1], table[each], sums)
        else:
            for output in range(gradients.shape[0]):
                _sum(codes[a], codes[max(b, 0)], table[each], gradients[output], lanes, sums[output])
        out[each] = np.abs(sums[:, :cells]).sum()
        finer, sums = sums, finer


@compiled()
def _sum(first, second, partition, gradient, lanes, sums):  # type: ignore[no-untyped-def]
    """Fill `sums`, with rows in several lanes: sums that wait for their predecessor would take three times as long."""
    _, b, shift, other, stride, cells = partition
    if b < 0:
        stride = 0
    lanes[:, :cells] = 0
    even = len(gradient) - len(gradient) % LANES
    for row in range(0, even, LANES):
        for lane in range(LANES):
            here = row + lane
            lanes[lane, (first[here] >> shift) + stride * (second[here] >> other)] += gradient[here]
    for here in range(even, len(gradient)):
        lanes[0, (first[here] >> shift) + stride * (second[here] >> other)] += gradient[here]
    for cell in range(cells):
        sums[cell] = lanes[:, cell].sum()


@compiled()
def _pool(finer, of_finer, partition, sums):  # type: ignore[no-untyped-def]
    _, _, shift_before, other_before, stride_before, cells_before = of_finer
    _, _, shift, other, stride, cells = partition
    sums[:, :cells] = 0
    for cell in range(cells_before):
        first, second = cell % stride_before, cell // stride_before
        pooled = (first >> (shift - shift_before)) + stride * (second >> (other - other_before))
        for output in range(sums.shape[0]):
            sums[output, pooled] += finer[output, cell]
