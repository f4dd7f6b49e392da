"""Vectors of whole numbers below 2^bits as bytes, without a wasted bit.

The bytes hold the lowest byte of each number, then the next byte of each, and so on; then the bits above the last whole
byte, packed as codecs pack them.
"""

from __future__ import annotations

import sys

import numpy as np

from fedlearn.compression import bits as few_bits
from fedlearn.core.errors import Refused
from fedlearn.secure.masks import Words, zeros


def packed(vector: Words, bits: int) -> bytes:
    """Return the bytes of a vector whose numbers lie below 2^bits: ``ceil(len(vector) * bits / 8)`` of them."""
    whole, rest = divmod(bits, 8)
    little = vector.astype(vector.dtype.newbyteorder("<"), copy=False)
    planes = little.view(np.uint8).reshape(len(vector), vector.itemsize)
    lanes = [np.ascontiguousarray(planes[:, lane]) for lane in range(whole)]
    lanes += [few_bits.pack(np.ascontiguousarray(planes[:, whole]), rest)] if rest else []
    return b"".join(lane.tobytes() for lane in lanes)


def unpacked(data: bytes, count: int, bits: int) -> Words:
    """Return the vector of `count` numbers that `packed` has written.

    Raises
    ------
    Refused
        If there are more or fewer bytes than that, or bits behind the last number are set.
    """
    whole, rest = divmod(bits, 8)
    expected = whole * count + few_bits.packed_size(count, rest)
    if len(data) != expected:
        raise Refused("wrong-size", f"a masked report of {len(data)} bytes where {expected} are due")
    vector = zeros(count, bits)
    planes = vector.view(np.uint8).reshape(count, vector.itemsize)
    lanes = np.frombuffer(data, np.uint8)
    for lane in range(whole):
        planes[:, lane] = lanes[lane * count : (lane + 1) * count]
    if rest:
        planes[:, whole] = few_bits.unpack(lanes[whole * count :], count, rest)
    return vector if sys.byteorder == "little" else vector.byteswap()
