"""Exact selection from the operating system's randomness, for many rows at once.

Every draw below has exactly the probability it claims, as real numbers; no floating-point result is ever trusted
further than its error bound. The building block is a coin that shows heads with probability exp(-x), after Canonne,
Kamath, Steinke 2020 (arXiv:2004.00010, section 5.1), made vectorized:

 1. 64 bits of a uniform U in [0, 1) are drawn. They pin U to an interval of width 2^-64.
 2. exp(-x) is computed in float64, off by less than ``ERROR``. If U lies further than that from it, the coin is
    decided: no further bits of U and no further digits of exp(-x) can change the comparison U < exp(-x).
 3. Otherwise (once in 2^46 coins) U gets more bits and exp(-x) more digits, in exact arithmetic, until they part. They
    do: exp(-x) is irrational for every rational x > 0.

x = (top - utility) / scale is taken to be the exact rational number that the three float64 describe.
"""

from __future__ import annotations

import decimal
import os
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Bits = Callable[[int], NDArray[np.uint64]]  # count -> (count,) independent uniform 64-bit words

# x carries two roundings of 2^-53 (a subtraction, a division), which moves exp(-x) by at most x exp(-x) 2^-52 < 2^-53;
# numpy's exp is good to 4 units in the last place (2^-51); word and difference in float64 cost 2^-53 each. Together
# below 2^-50.
ERROR = 2.0**-48
ENTRIES = 2**20  # utilities worked on at a time: 8 MB for each of a handful of temporary arrays


def system_bits(count: int) -> NDArray[np.uint64]:
    """Return words from the operating system's cryptographic generator."""
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def permute_and_flip(
    utilities: NDArray[np.float64], scale: NDArray[np.float64], bits: Bits = system_bits
) -> NDArray[np.int64]:
    """Return one candidate per row; ``utilities`` (rows, candidates), -inf = not a candidate; ``scale`` (rows,), > 0.

    McKenna, Sheldon 2020 (arXiv:2010.12603), algorithm 1: walk through the candidates in random order and flip a coin
    of probability exp((u - top) / scale) for each; the first heads wins. The coins are independent of the order, so
    they may all be flipped first: the winner is then the first heads in a random order, that is, *uniform among the
    heads*. The top candidate always shows heads, so there is one. By Ding et al. 2021 (arXiv:2105.07260) this is
    report noisy max with one-sided exponential noise of the same scale.
    """
    chosen = np.empty(len(utilities), np.int64)
    step = max(ENTRIES // max(utilities.shape[1], 1), 1)
    for start in range(0, len(utilities), step):
        part, part_scale = utilities[start : start + step], scale[start : start + step]
        row, candidate = np.nonzero(_heads(part, part.max(axis=1)[:, None], part_scale[:, None], bits))
        heads = np.bincount(row, minlength=len(part))  # (rows,), each >= 1
        first = np.cumsum(heads) - heads
        chosen[start : start + step] = candidate[first + uniform_below(heads, bits)]
    return chosen


def exponential(
    utilities: NDArray[np.float64], scale: NDArray[np.float64], bits: Bits = system_bits
) -> NDArray[np.int64]:
    """Return one candidate per row with probability proportional to exp(utility / scale); shapes as above.

    By rejection: propose a candidate uniformly, keep it if a coin of probability exp((u - top) / scale) shows heads,
    else propose again. The kept one has probability proportional to its coin, hence to exp(u / scale). On average it
    takes (candidates) / sum(exp((u - top) / scale)) proposals, at most as many as there are candidates.
    """
    chosen = np.empty(len(utilities), np.int64)
    top = utilities.max(axis=1)
    waiting = np.arange(len(utilities))
    while waiting.size:
        proposals = min(max(ENTRIES // 16 // waiting.size, 8), 4096)
        rows = waiting[: max(ENTRIES // proposals, 1)]
        bound = np.full(rows.size * proposals, utilities.shape[1])
        candidate = uniform_below(bound, bits).reshape(rows.size, proposals)
        heads = _heads(utilities[rows[:, None], candidate], top[rows, None], scale[rows, None], bits)
        first = heads.argmax(axis=1)  # the first heads, or 0 if there was none
        found = heads[np.arange(rows.size), first]
        chosen[rows[found]] = candidate[found, first[found]]
        waiting = np.concatenate([rows[~found], waiting[rows.size :]])
    return chosen


def uniform_below(bound: NDArray[np.int64], bits: Bits = system_bits) -> NDArray[np.int64]:
    """Return a uniform integer in [0, bound) for each bound >= 1; words of the last, incomplete block are redrawn."""
    limit = bound.astype(np.uint64)
    word = bits(limit.size).copy()
    last_block = np.uint64(2**64 - 1) - (limit - np.uint64(1))  # the largest start of a complete block
    while (again := word - word % limit > last_block).any():
        word[again] = bits(int(again.sum()))
    return (word % limit).astype(np.int64)


def _heads(
    utilities: NDArray[np.float64], top: NDArray[np.float64], scale: NDArray[np.float64], bits: Bits
) -> NDArray[np.bool_]:
    """Return coins of probability exp((utilities - top) / scale); all three broadcast against each other."""
    with np.errstate(over="ignore", under="ignore"):
        probability = np.exp((utilities - top) / scale)
    word = bits(probability.size).reshape(probability.shape)
    distance = word * 2.0**-64 - probability
    heads: NDArray[np.bool_] = distance < 0
    for index in np.argwhere((np.abs(distance) < ERROR) & np.isfinite(utilities)):
        at = tuple(index)
        gap = Fraction(float(np.broadcast_to(top, heads.shape)[at])) - Fraction(float(utilities[at]))
        x = gap / Fraction(float(np.broadcast_to(scale, heads.shape)[at]))
        heads[at] = coin(x, int(word[at]), bits)
    return heads & np.isfinite(utilities)


def coin(x: Fraction, word: int, bits: Bits = system_bits) -> bool:
    """Whether U < exp(-x), for a rational x >= 0 and a U whose first 64 bits are ``word``; exact."""
    length = 64  # bits of U known so far
    while x:
        if word and x >= length:  # exp(-x) < 2^-length <= U
            return False
        if x < length:
            digits = int(0.302 * length) + 30  # 0.302 decimal digits a bit, and as many again as x and the sum can cost
            with decimal.localcontext(decimal.Context(prec=digits)):
                power = (-decimal.Decimal(x.numerator) / decimal.Decimal(x.denominator)).exp()
            error = Fraction(power) * (x + 2) / 10 ** (digits - 2)
            if Fraction(word + 1, 2**length) <= Fraction(power) - error:
                return True
            if Fraction(word, 2**length) >= Fraction(power) + error:
                return False
        word = (word << 64) | int(bits(1)[0])
        length += 64
    return True
