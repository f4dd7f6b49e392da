"""Masks: the stream of AES-256 in counter mode (NIST SP 800-38A), added to whole numbers modulo a power of two.

A vector lies in an array of uint32 or uint64, and wraps around there. That is exact modulo 2^bits for every smaller
number of bits, as 2^bits divides 2^32 and 2^64: only the end needs `reduced`. Sums of whole numbers have no order, so
they are the same bytes however nodes, workers and masks are added.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint32] | NDArray[np.uint64]

CHUNK = 1 << 17  # bytes of stream made at a time: they stay in the second-level cache until they are added


def zeros(count: int, bits: int) -> Words:
    """Return a vector of so many zeros, for numbers modulo 2^bits (1 to 64)."""
    return np.zeros((count,), np.uint32) if bits <= 32 else np.zeros((count,), np.uint64)


def add_mask(total: Words, seed: bytes, *, sign: int = 1) -> None:
    """Add the mask of a seed to a vector, in place; a sign of -1 subtracts it.

    Parameters
    ----------
    total
        Contiguous, of any length.
    seed
        32 bytes, all of which count, and which make one mask only: the counter begins at 0.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES256
    from cryptography.hazmat.primitives.ciphers.modes import CTR

    stream = Cipher(AES256(seed), CTR(bytes(16))).encryptor()
    step = CHUNK // total.itemsize
    buffer = np.empty(min(step, len(total)), total.dtype.newbyteorder("<"))
    nothing = bytes(buffer.nbytes)
    for start in range(0, len(total), step):
        part = total[start : start + step]
        mask = buffer[: len(part)]
        stream.update_into(nothing[: mask.nbytes], mask.view(np.uint8).data)
        if sign > 0:
            part += mask
        else:
            part -= mask


def reduced(total: Words, bits: int) -> Words:
    """Reduce a vector modulo 2^bits, in place, and return it."""
    if bits < 8 * total.itemsize:
        total &= total.dtype.type((1 << bits) - 1)
    return total
