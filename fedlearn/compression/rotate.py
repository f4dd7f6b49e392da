"""A random rotation, which makes entries alike in size, so that few bits lose less.

Blocks of the vector are multiplied by ``H D / sqrt(n)``: random signs D, then the Walsh-Hadamard matrix H. Every entry
is then spread over its block, so that no outlier stretches the range that a quantizer has to cover. Source: Konecny
et al. 2016 (arXiv:1610.05492), section 3, "structured random rotations"; Suresh et al. 2017 (arXiv:1611.00429),
section 3.

The vector is cut into chunks of 65,536 entries, each a matrix of 2,048 rows whose columns are the blocks. A transform
of columns adds and subtracts whole rows, which NumPy does at the speed of memory, and the bits do not depend on
libraries or threads. The last chunk has fewer rows and is filled up with zeros, less than a sixteenth of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedlearn.compression.bits import random_bits
from fedlearn.compression.stages import Lengths, Role, nothing_from
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.state import Array

ROWS, COLUMNS = 2048, 32  # a chunk is 256 KiB and stays in the cache
LEAST = 16  # columns of the last chunk, or its rows if the chunk has fewer entries

Float32 = NDArray[np.float32]


def shapes_of(length: int) -> list[tuple[int, int]]:
    """Return (rows, columns) of each chunk of a vector; rows are powers of two.

    >>> shapes_of(65_536 + 600)
    [(2048, 32), (32, 19)]
    """
    full, rest = divmod(length, ROWS * COLUMNS)
    shapes = [(ROWS, COLUMNS)] * full
    if rest:
        rows = max(1 << (rest // LEAST).bit_length() >> 1, LEAST)
        shapes.append((rows, -(-rest // rows)))
    return shapes


def chunks_of(values: Float32, length: int) -> Iterator[Float32]:
    """Return a view of each chunk, shape (rows, columns); `length` is the vector's before it was filled up."""
    start = 0
    for rows, columns in shapes_of(length):
        yield values[start : start + rows * columns].reshape(rows, columns)
        start += rows * columns


def rotated(values: Array, *seeds: int) -> Float32:
    """Return ``H D x / sqrt(n)`` of each block, once for each seed, in the vector filled up to whole blocks."""
    length = len(values)
    turned = np.zeros(sum(rows * columns for rows, columns in shapes_of(length)), np.float32)
    turned[:length] = values
    for seed in seeds:
        _flip(turned, seed)
        for chunk in chunks_of(turned, length):
            _hadamard(chunk)
    return turned


def rotated_back(turned: Float32, length: int, *seeds: int) -> Float32:
    """Return the vector of this length that `rotated` was called with; change `turned` in place."""
    for seed in reversed(seeds):
        for chunk in chunks_of(turned, length):
            _hadamard(chunk)
        _flip(turned, seed)
    return turned[:length]


def _flip(values: Float32, seed: int) -> None:
    """Change the sign of about half of the entries, in place."""
    values.view(np.uint32)[:] ^= random_bits(len(values), seed).astype(np.uint32) << np.uint32(31)


def _hadamard(chunk: Float32) -> None:
    """Multiply each column by the orthonormal Walsh-Hadamard matrix, in place.

    >>> pair = np.array([[3.0], [1.0]], np.float32)
    >>> _hadamard(pair)
    >>> (pair * np.sqrt(2)).round(3).tolist()
    [[4.0], [2.0]]
    """
    rows, columns = chunk.shape
    here, there = chunk.reshape(-1), np.empty(chunk.size, np.float32)
    half = 1
    while half < rows:
        before = here.reshape(rows // (2 * half), 2, half * columns)
        after = there.reshape(before.shape)
        np.add(before[:, 0], before[:, 1], out=after[:, 0])
        np.subtract(before[:, 0], before[:, 1], out=after[:, 1])
        here, there = there, here
        half *= 2
    np.multiply(here, np.float32(rows**-0.5), out=chunk.reshape(-1))


class Rotate:
    """Rotates blocks of the vector before they are quantized, and back."""

    role = Role.TRANSFORM
    needs_change = False

    @classmethod
    def from_argument(cls, argument: str, settings: CompressionSettings) -> Self:
        """Return the stage; it takes no argument."""
        nothing_from(argument)
        return cls()

    def lengths(self, before: Lengths) -> Lengths:
        """Return the lengths of the chunks: a quantizer then has a scale for each chunk, not for each parameter."""
        return tuple(rows * columns for rows, columns in shapes_of(sum(before)))

    @np.errstate(invalid="ignore", over="ignore")
    def forward(self, values: Array, lengths: Lengths, *, seed: int) -> Array:
        """Return the rotated vector, in float32."""
        return rotated(values, seed)

    def back(self, values: Array, lengths: Lengths, *, seed: int) -> Array:
        """Return the vector before the rotation."""
        return rotated_back(values, sum(lengths), seed)
