"""Fixed point: updates as whole numbers, whose sum modulo a power of two is the sum of the updates.

An entry u becomes q = round((min(max(u, -c), c) + c) (2^b - 1) / (2 c)), a whole number of b bits, rounded up or down
at random so that its mean is exact. The sum of n nodes with weights up to W needs ceil(log2(n W (2^b - 1) + 1)) bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import Refused, UsageError
from fedlearn.secure.masks import Words, zeros

FEWEST_BITS, MOST_BITS = 2, 24  # above, rounding in float64 could leave the range
LARGEST_WEIGHT = 64  # so that the sum of a thousand nodes with 16 bits fits into 32
_CHUNK = 1 << 15  # entries encoded at a time


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """How numbers become whole numbers, and the sum of whole numbers becomes a sum again.

    Parameters
    ----------
    clip
        c: entries outside [-c, c] are cut to it. Declared, never read from data.
    bits
        b, of one entry of one node.
    nodes
        n: the most nodes that a sum has.
    largest_weight
        W: a power of two up to 64; 1 where all nodes weigh the same.

    >>> FixedPoint(clip=1.0, bits=16, nodes=100).modulus_bits
    23
    """

    clip: float
    bits: int
    nodes: int
    largest_weight: int = 1

    def __post_init__(self) -> None:
        if not (math.isfinite(self.clip) and self.clip > 0):
            raise UsageError(f"secure.clip = {self.clip}: must be a number above 0, the largest change of an entry")
        if not FEWEST_BITS <= self.bits <= MOST_BITS:
            raise UsageError(f"secure.bits = {self.bits}: must lie between {FEWEST_BITS} and {MOST_BITS}")
        if self.largest_weight not in {1 << power for power in range(7)}:
            raise UsageError(f"secure weights up to {self.largest_weight}: must be a power of two up to 64")

    @property
    def largest(self) -> int:
        """The largest whole number of one entry of one node, without its weight: 2^b - 1."""
        return (1 << self.bits) - 1

    @property
    def modulus_bits(self) -> int:
        """Bits of a number that holds the sum of all nodes."""
        return (self.nodes * self.largest_weight * self.largest).bit_length()

    @property
    def step(self) -> float:
        """The difference of two neighboring values: 2 c / (2^b - 1). An entry is less than a step off."""
        return 2 * self.clip / self.largest

    def encoded(self, values: NDArray[np.floating], rng: np.random.Generator, *, weight: int = 1) -> Words:
        """Return the whole numbers of a vector, each times the weight; their count and order are those of `values`.

        Parameters
        ----------
        values
            (entries,), finite.
        rng
            Rounds: of the node and round, so that another attempt gives the same numbers.
        weight
            A whole number from 1 to W.

        Raises
        ------
        Refused
            If a value is NaN or infinite, or the weight is outside its range.
        """
        if not 1 <= weight <= self.largest_weight:
            raise Refused("wrong-weight", f"weight {weight} is not between 1 and {self.largest_weight}")
        whole = zeros(len(values), self.modulus_bits)
        for start in range(0, len(values), _CHUNK):
            scaled = values[start : start + _CHUNK].astype(np.float64)
            if not np.isfinite(scaled).all():
                raise Refused("not-finite", "a value to be summed is NaN or infinite")
            np.clip(scaled, -self.clip, self.clip, out=scaled)
            scaled += self.clip
            scaled *= self.largest / (2 * self.clip)
            scaled += rng.random(len(scaled), np.float32)
            np.floor(scaled, out=scaled)
            np.minimum(scaled, self.largest, out=scaled)  # c itself may come out one ulp above
            whole[start : start + _CHUNK] = scaled
        whole *= whole.dtype.type(weight)
        return whole

    def decoded(self, total: Words, weights: int) -> NDArray[np.float64]:
        """Return the sum of weight times value over the nodes, for the sum of their whole numbers.

        Parameters
        ----------
        total
            (entries,), reduced modulo 2^modulus_bits.
        weights
            The sum of the nodes' weights: their number where all weigh the same.

        Raises
        ------
        Refused
            If an entry is larger than the nodes' values can add up to: one of them has sent something else.
        """
        most = weights * self.largest
        if weights > self.nodes * self.largest_weight or (len(total) and int(total.max()) > most):
            raise Refused("sum-out-of-range", "the sum is larger than its clients' values can be: one of them has lied")
        return total.astype(np.float64) * self.step - weights * self.clip


def coarse_weight(examples: int, largest: int) -> int:
    """Return the largest power of two that is at most a number of examples and at most `largest`; 1 for none.

    >>> [coarse_weight(examples, 64) for examples in (0, 1, 50, 500)]
    [1, 1, 32, 64]
    """
    return 1 << (min(max(examples, 1), largest).bit_length() - 1)


def concatenated(arrays: Sequence[NDArray[np.floating]]) -> NDArray[np.float32]:
    """Return the entries of arrays one after another, as float32."""
    return np.concatenate([np.zeros(0, np.float32), *(np.asarray(a, np.float32).reshape(-1) for a in arrays)])
