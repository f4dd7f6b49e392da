"""Exact shares of geometric noise, from the operating system's randomness, for many numbers at once.

A Polya number of shape r and parameter a has the generating function ((1 - a) / (1 - a z))^r, whose logarithm is
r * sum over l of a^l (z^l - 1) / l: it is the sum of l times an independent Poisson number of mean r a^l / l, over all
l = 1, 2, ... That is a sum of points l, which are drawn here by thinning, with coins of exact probability alone:

 1. The numbers l are cut into blocks, from 2^j to 2^(j+1) - 1. Each block gets Poisson(r) points; all together are
    Poisson(BLOCKS r) points, each in a block of its own choice, which is uniform.
 2. A point of block j is uniform in the block, and is kept with probability 2^j / l, so that l has the mean r / l.
 3. It is kept with probability a^l = exp(-l / scale): now l has the mean r a^l / l.

With r = 1 / shares all coins but the last are of rational probability. Points from 2^`BLOCKS` on are left out: for a
scale below 2^53 there is one with a probability below exp(-256), by which a stated loss may fail to hold.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy.exact import Bits, coins, system_bits, uniform_below

BLOCKS = 61  # so that no sum of a few points leaves int64
ENTRIES = 2**18  # numbers drawn at a time


def polya(scale: NDArray[np.float64], shares: int, bits: Bits = system_bits) -> NDArray[np.int64]:
    """Return one Polya number of shape 1 / shares for each scale, (n,), with a = exp(-1 / scale).

    Parameters
    ----------
    scale
        (n,), above 0 and below 2^53.
    shares
        2 or more.
    """
    total = np.zeros(len(scale), np.int64)
    parts = -(-2 * BLOCKS // shares)  # so many Poisson numbers of a mean of at most 1/2
    for start in range(0, len(scale), ENTRIES):
        here = np.arange(start, min(start + ENTRIES, len(scale)))
        for _ in range(parts):
            number = np.repeat(here, poisson(BLOCKS, shares * parts, len(here), bits))
            lowest = np.left_shift(np.int64(1), uniform_below(np.full(number.size, BLOCKS), bits))
            point = lowest + uniform_below(lowest, bits)
            kept = uniform_below(point, bits) < lowest
            number, point = number[kept], point[kept]
            kept = _powers(point, scale[number], bits)
            np.add.at(total, number[kept], point[kept])
    return total


def poisson(numerator: int, denominator: int, count: int, bits: Bits = system_bits) -> NDArray[np.int64]:
    """Return Poisson numbers, (count,), of the mean numerator / denominator, which is at most 1/2.

    By rejection: n is proposed with probability 2^-(n+1), and kept with probability product of (2 mean / i) over
    i = 1 .. n, so it has a probability proportional to mean^n / n!. At least one proposal of two is kept.
    """
    drawn = np.zeros(count, np.int64)
    waiting = np.arange(count)
    while waiting.size:
        proposed = _fair_heads(waiting.size, bits)
        kept = np.ones(waiting.size, bool)
        for each in range(1, int(proposed.max()) + 1):
            asked = np.flatnonzero(kept & (proposed >= each))
            kept[asked] = uniform_below(np.full(asked.size, denominator * each), bits) < 2 * numerator
        drawn[waiting[kept]] = proposed[kept]
        waiting = waiting[~kept]
    return drawn


def _fair_heads(count: int, bits: Bits) -> NDArray[np.int64]:
    """Return, (count,), how many fair coins show heads before the first tails."""
    heads = np.zeros(count, np.int64)
    tossing = np.arange(count)
    while tossing.size:
        words = bits(tossing.size)
        tails = ~words & (words + np.uint64(1))  # the lowest bit that is 0; no bit where all 64 are heads
        heads[tossing] += np.bitwise_count(tails - np.uint64(1))
        tossing = tossing[tails == 0]
    return heads


def _powers(point: NDArray[np.int64], scale: NDArray[np.float64], bits: Bits) -> NDArray[np.bool_]:
    """Return coins of probability exp(-point / scale)."""
    probability = np.exp(-point / scale)
    return coins(probability, lambda at: Fraction(int(point[at])) / Fraction(float(scale[at])), bits)
