"""Numbers of few bits, packed into bytes, and random bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import Refused
from fedlearn.core.seeding import philox

Bytes = NDArray[np.uint8]
_EVERY = {  # width of a lane -> ones at the lower half of each pair of lanes
    8: np.uint64(0x00FF00FF00FF00FF),
    16: np.uint64(0x0000FFFF0000FFFF),
    32: np.uint64(0x00000000FFFFFFFF),
}


def packed_size(count: int, bits: int) -> int:
    """Return the number of bytes that `count` numbers take."""
    return -(-count * bits // 8)


def pack(codes: Bytes, bits: int) -> Bytes:
    """Return numbers below ``2 ** bits`` (1 to 8 bits), packed one after another, the lowest bit first.

    Eight numbers lie in one 64-bit word, a byte each; three steps close the gaps between neighbours, in all words at
    once.

    >>> pack(np.array([1, 0, 1, 1], np.uint8), bits=1)
    array([13], dtype=uint8)
    """
    rows = np.zeros(-(-len(codes) // 8) * 8, np.uint8)
    rows[: len(codes)] = codes
    words = rows.view("<u8")
    for width, lower in _EVERY.items():
        words = (words & lower) | ((words & ~lower) >> np.uint64(width - width * bits // 8))
    return words.view(np.uint8).reshape(-1, 8)[:, :bits].reshape(-1)[: packed_size(len(codes), bits)]


def unpack(packed: Bytes, count: int, bits: int) -> Bytes:
    """Return the `count` numbers that `pack` wrote.

    Raises
    ------
    Refused
        If bits after the last number are set.
    """
    words_needed = -(-count // 8)
    padded = np.zeros(words_needed * bits, np.uint8)
    padded[: len(packed)] = packed
    rows = np.zeros((words_needed, 8), np.uint8)
    rows[:, :bits] = padded.reshape(-1, bits)
    words = rows.view("<u8")[:, 0]
    for width in reversed(_EVERY):
        used = width * bits // 8
        ones = (1 << used) - 1
        lower = np.uint64(sum(ones << at for at in range(0, 64, 2 * width)))
        words = (words & lower) | ((words & (lower << np.uint64(used))) << np.uint64(width - used))
    codes = words.view(np.uint8)
    if codes[count:].any():
        raise Refused("undecodable", f"there are bits behind the last of {count} numbers")
    return codes[:count]


def random_bytes(count: int, key: int) -> Bytes:
    """Return bytes of Philox's raw stream, which NumPy keeps the same on every version and platform."""
    raw = philox(key).random_raw(-(-count // 8))
    return raw.astype("<u8", copy=False).view(np.uint8)[:count]


def random_fractions(count: int, key: int) -> NDArray[np.float32]:
    """Return multiples of 2^-16 from the middle of (0, 1), all equally likely."""
    keys = random_bytes(2 * count, key).view("<u2")
    fractions = keys.astype(np.float32)
    fractions += np.float32(0.5)
    fractions *= np.float32(2**-16)
    return fractions


def random_bits(count: int, key: int) -> Bytes:
    """Return zeros and ones, both equally likely."""
    return np.unpackbits(random_bytes(-(-count // 8), key), count=count)
