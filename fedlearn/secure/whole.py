"""Sums of numbers that are whole already, such as counts with noise: they go into a secure sum exactly as they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import Refused, UsageError
from fedlearn.secure.masks import Words, zeros

MOST_BITS = 63  # of a sum with its sign


@dataclass(frozen=True, slots=True)
class WholeNumbers:
    """How signed whole numbers become numbers modulo 2^b, and their sum becomes a sum with its sign again.

    A number z is put in as z modulo 2^b. The sum of n nodes lies within n times the largest number on either side of
    zero, and the modulus holds them all: b = bit length of 2 n * largest.

    Parameters
    ----------
    count
        Entries of the vector.
    largest
        Largest absolute number of one node. Declared, never read from data.
    nodes
        n: the most nodes that a sum has.

    Raises
    ------
    UsageError
        If no word holds the sum.

    >>> numbers = WholeNumbers(count=2, largest=9, nodes=3)
    >>> total = numbers.encoded(np.array([-9, 4])) + numbers.encoded(np.array([2, 1]))
    >>> numbers.modulus_bits, numbers.decoded(total & 63, 2).tolist()
    (6, [-7, 5])
    """

    count: int
    largest: int
    nodes: int

    def __post_init__(self) -> None:
        if self.modulus_bits > MOST_BITS:
            raise UsageError(
                f"secure sums of {self.nodes} clients with numbers up to {self.largest:,}: the sum does not fit into "
                f"{MOST_BITS} bits; use a smaller gate.max_examples, or fewer clients"
            )

    @property
    def modulus_bits(self) -> int:
        """Bits of a number that holds the sum of all nodes, with its sign."""
        return (2 * self.nodes * self.largest).bit_length()

    def encoded(self, numbers: NDArray[np.int64]) -> Words:
        """Return the numbers modulo 2^b, (count,); numbers beyond the largest are clipped to it.

        Raises
        ------
        Refused
            If there are more or fewer numbers.
        """
        clipped = np.clip(numbers.astype(np.int64), -self.largest, self.largest)
        return without_sign(clipped, count=self.count, bits=self.modulus_bits)

    def decoded(self, total: Words, nodes: int) -> NDArray[np.int64]:
        """Return the sum with its sign, (count,), of a total that is reduced modulo 2^b.

        Raises
        ------
        Refused
            If an entry is larger than the numbers of so many nodes can add up to: one of them has sent something else.
        """
        return with_sign(total, bits=self.modulus_bits, largest=nodes * self.largest)


def without_sign(numbers: NDArray[np.int64], *, count: int, bits: int) -> Words:
    """Return numbers modulo 2^bits, (count,).

    Raises
    ------
    Refused
        If there are more or fewer numbers.
    """
    if numbers.shape != (count,):
        raise Refused("wrong-shape", f"{numbers.shape} numbers where {count} are due")
    vector = zeros(count, bits)
    vector[:] = (numbers & ((1 << bits) - 1)).astype(vector.dtype)
    return vector


def with_sign(total: Words, *, bits: int, largest: int) -> NDArray[np.int64]:
    """Return a sum with its sign of a total that is reduced modulo 2^bits; undoes `without_sign`.

    Raises
    ------
    Refused
        If an entry is larger than `largest`.
    """
    signed: NDArray[np.int64] = total.astype(np.int64)
    signed -= (signed >> (bits - 1)) << bits
    if len(signed) and max(-int(signed.min()), int(signed.max())) > largest:
        raise Refused("sum-out-of-range", "the sum is larger than its clients' numbers can be: one of them has lied")
    return signed
