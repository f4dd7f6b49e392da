"""One to four bits for each entry after a random rotation, with a scale that makes the mean right.

A rotated block looks like normal noise, whatever its entries were before. So the entries are rounded to the best
levels for a normal distribution, and the block gets the scale ``|x|^2 / <R x, levels>``: the decoded block has, on
average over rotations, the block's own length in the block's own direction. Sources: Vargaftik et al. 2022
(arXiv:2108.08842), EDEN, and 2021 (arXiv:2105.08339), DRIVE, which is its one-bit case; levels: Max 1960, table I.

The argument holds for uniformly random rotations. A Hadamard transform with random signs is not uniform where one
entry dominates its block: all entries come out equally large, and the decoded entry is off by several per cent. So two
transforms are done, one after the other, and thousands of draws show no bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedlearn.compression.bits import pack, packed_size, unpack
from fedlearn.compression.codec import Payload
from fedlearn.compression.rotate import chunks_of, rotated, rotated_back, shapes_of
from fedlearn.compression.scales import check_scales
from fedlearn.compression.stages import Lengths, Part, Role, bits_from
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.seeding import seed_for
from fedlearn.core.state import Array

DEFAULT_BITS = 1
POSITIVE_LEVELS = {  # bits -> the levels above zero that lose least of a standard normal; negative levels mirror them
    1: [0.7979],
    2: [0.4528, 1.510],
    3: [0.2451, 0.7560, 1.344, 2.152],
    4: [0.1284, 0.3881, 0.6568, 0.9424, 1.256, 1.618, 2.069, 2.733],
}


def levels_of(bits: int) -> NDArray[np.float32]:
    """Return the ``2 ** bits`` levels, ascending."""
    positive = np.array(POSITIVE_LEVELS[bits], np.float32)
    return np.concatenate([-positive[::-1], positive])


class Eden:
    """Sends the number of a level for each entry, and the scale of each block.

    Parameters
    ----------
    bits
        1 to 4.
    """

    role = Role.QUANTIZER
    needs_change = False
    rotates = True

    def __init__(self, *, bits: int) -> None:
        self.bits = bits
        self.levels = levels_of(bits)
        self.borders = (self.levels[1:] + self.levels[:-1]) / 2

    @classmethod
    def from_argument(cls, argument: str, settings: CompressionSettings) -> Self:
        """Return the stage; the argument is the number of bits."""
        return cls(bits=bits_from(argument, DEFAULT_BITS, most=max(POSITIVE_LEVELS)))

    def parts(self, lengths: Lengths) -> Mapping[str, Part]:
        """Return the packed level numbers of all blocks, and the scales of the blocks."""
        shapes = shapes_of(sum(lengths))
        entries = sum(rows * columns for rows, columns in shapes)
        return {
            "codes": Part("uint8", packed_size(entries, self.bits)),
            "scales": Part("float32", sum(columns for _, columns in shapes)),
        }

    @np.errstate(invalid="ignore", over="ignore", divide="ignore")  # zero blocks, and nodes that have diverged
    def encode(self, values: Array, lengths: Lengths, *, seed: int) -> Payload:
        """Return the level number of each entry and the scale of each block."""
        turned = rotated(values, *_seeds(seed))
        codes = np.zeros(len(turned), np.uint8)
        scales = [np.zeros(0, np.float32)]
        start = 0
        for chunk in chunks_of(turned, len(values)):
            mine = codes[start : start + chunk.size].reshape(chunk.shape)
            start += chunk.size
            square = np.einsum("rc,rc->c", chunk, chunk)  # (columns,)
            deviation = np.sqrt(square / len(chunk))
            for border in self.borders:
                mine += chunk > border * deviation
            along = np.einsum("rc,rc->c", chunk, self.levels[mine])
            scales.append(np.where(square == 0, 0, square / along).astype(np.float32))
        return {"codes": pack(codes, self.bits), "scales": np.concatenate(scales)}

    def decode(self, payload: Payload, lengths: Lengths, *, seed: int) -> Array:
        """Return the blocks, scaled and rotated back."""
        check_scales(payload["scales"], least=0)
        length = sum(lengths)
        entries = sum(rows * columns for rows, columns in shapes_of(length))
        turned = self.levels[unpack(payload["codes"], entries, self.bits)]
        first = 0
        for chunk in chunks_of(turned, length):
            columns = chunk.shape[1]
            chunk *= payload["scales"][first : first + columns]
            first += columns
        return rotated_back(turned, length, *_seeds(seed))


def _seeds(seed: int) -> tuple[int, int]:
    return seed_for(seed, purpose="first rotation"), seed_for(seed, purpose="second rotation")
