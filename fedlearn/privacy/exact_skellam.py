"""Exact Skellam noise, the difference of two Poisson numbers, from the operating system's randomness.

A Skellam number of variance v is k with probability p_k = exp(-v) I_abs(k)(v), I the modified Bessel function. Its size
is drawn by inversion: the smallest k with U < F_k, where F_k = p_0 + 2 (p_1 + ... + p_k), and U is uniform in [0, 1);
then a sign. The comparison is decided exactly:

 1. 64 bits of U are compared with a table of floor(2^64 F_k). It is decided unless they are within 1 of an entry,
    or beyond the table, which happens once in 2^40 draws or less often.
 2. Otherwise U gets more bits, and F_k more digits, until they part.

*The table* comes from the recurrence I_(k-1) = I_(k+1) + (2 k / v) I_k in whole numbers, from I_(K+1) = 0, I_K = 1
downwards (Miller), divided by the sum of all: exp(v) = I_0 + 2 (I_1 + I_2 + ...). All terms are positive, so cutting
off fractions costs a relative 2^(1 - digits) a step and K of it in all. Starting at K is off by at most p_(K+1) in
each p_k: the exact solution with I_(K+1) = 0 subtracts K_k(v) I_(K+1) / K_(K+1)(v), and the second Bessel function
K_k rises with k. The mass beyond K is at most 2 exp(-v h(K / v)), h(u) = u asinh(u) - sqrt(1 + u^2) + 1 (Chernoff). K
is chosen so that all of it together is below 2^-(digits - 40).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy.exact import Bits, short_words, system_bits

DIGITS = 128  # bits of the table's numbers, of which 64 are kept
WIDEST_SKELLAM = 2.0**32  # upper limit of the variance: the table has ten entries for each unit of its root


def skellam(variance: float, count: int, bits: Bits = system_bits) -> NDArray[np.int64]:
    """Return independent Skellam numbers of this variance, (count,); 0 < variance <= `WIDEST_SKELLAM`."""
    table = _table(variance)
    word = bits(count)
    size = np.searchsorted(table, word, side="right").astype(np.int64)
    near = np.minimum(size, table.size - 1)
    undecided = word >= table[-1]
    for entry in (table[near], table[np.maximum(near - 1, 0)]):
        undecided |= np.maximum(entry, word) - np.minimum(entry, word) <= np.uint64(1)
    for at in np.flatnonzero(undecided):
        size[at] = _decided(variance, int(word[at]), bits)
    is_minus = short_words(count, bits) >= 2**15
    return np.where(is_minus, -size, size)


@lru_cache(maxsize=8)
def _table(variance: float) -> NDArray[np.uint64]:
    """Return floor(2^64 F_k), off by 1 at most, for k = 0 ... K."""
    most = 2**64 - 1
    return np.array([min(each >> (DIGITS - 64), most) for each in _cumulative(variance, DIGITS)], np.uint64)


def _decided(variance: float, word: int, bits: Bits) -> int:
    """Return the smallest k with U < F_k for a U whose first 64 bits are `word`, with as many digits as it takes."""
    length, digits = 64, 2 * DIGITS
    while True:
        while length < digits - 64:
            word, length = (word << 64) | int(bits(1)[0]), length + 64
        shift, error = digits - length, 1 << 48
        for size, each in enumerate(_cumulative(variance, digits)):
            if (word + 1) << shift <= each - error:
                return size
            if word << shift < each + error:
                break  # undecided
        digits *= 2


def _cumulative(variance: float, digits: int) -> list[int]:
    """Return 2^digits F_k for k = 0 ... K, off by less than 2^40."""
    ratio, last = Fraction(2) / Fraction(variance), _last(variance, digits)
    above, here, falling = 0, 1 << (digits + 32), []
    for k in range(last, 0, -1):
        falling.append(here)
        above, here = here, above + ratio.numerator * k * here // ratio.denominator
    total = here + 2 * sum(falling)
    so_far, found = here, [(here << digits) // total]
    for each in reversed(falling):
        so_far += 2 * each
        found.append((so_far << digits) // total)
    return found


def _last(variance: float, digits: int) -> int:
    """Return a K beyond which lies less than 2^-(digits + 32), and so does K times the probability of K + 1."""

    def bits_beyond(k: int) -> float:
        u = k / variance
        return variance * (u * math.asinh(u) - math.sqrt(1 + u * u) + 1) / math.log(2) - math.log2(k + 1) - 1

    high = 1
    while bits_beyond(high) < digits + 32:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bits_beyond(middle) < digits + 32 else (low, middle)
    return high
