"""Exact selection, and exact noise on whole numbers, from the operating system's randomness, for many at once.

Every draw has exactly the stated probability, as a real number; a floating-point result is trusted only within its
error bound. The building block is a vectorized coin that shows heads with probability exp(-x), after Canonne, Kamath,
Steinke 2020 (arXiv:2004.00010, section 5.1):

 1. 16 bits of a uniform U in [0, 1) are drawn. They pin U to an interval of width 2^-16.
 2. exp(-x) is computed in float64, off by less than ``ERROR``. If the interval lies further than that from it, the coin
    is decided: no further bits of U and no further digits of exp(-x) can change the comparison U < exp(-x).
 3. Otherwise (once in 2^15 coins) U gets 48 bits more, which pin it to an interval of width 2^-64: 2. again.
 4. Otherwise (once in 2^46 coins) U gets more bits and exp(-x) more digits, in exact arithmetic, until they part. They
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
ENTRIES = 2**20  # utilities processed at a time: 8 MB for each of a handful of temporary arrays
WIDEST = 2.0**53  # upper limit of the scales of `discrete_laplace`
MOST_STEPS = 2**10 - 1  # number of steps, each below 2^53, that int64 holds
NO_GAP, ONE, ALL = np.zeros(1), np.ones(1), np.bool_(True)


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


def discrete_laplace(scale: NDArray[np.float64], bits: Bits = system_bits) -> NDArray[np.int64]:
    """Return one integer for each scale, (n,), of probability proportional to exp(-abs(z) / scale); 0 < scale < 2^53.

    Canonne, Kamath, Steinke 2020, algorithm 2, for many numbers at once and in whole numbers. The float64 scale is
    exactly t / s, t whole and below 2^53, s a power of two. Each try

     1. draws U uniformly from 0 .. t - 1 and goes on if a coin of probability exp(-U / t) shows heads;
     2. counts the coins V of probability 1 / e that show heads before the first tails. X = U + t V has a probability
        proportional to exp(-U / t) exp(-V) = exp(-X / t), and each whole number from 0 on is one X;
     3. takes Y = floor(X / s), which stands for s numbers X: a probability proportional to exp(-Y s / t);
     4. draws a sign. "Minus 0" is another try: 0 would count twice.

    Tries are independent, so the result has the distribution of a successful try, whose probabilities are proportional
    to exp(-abs(z) s / t). A try succeeds with a probability above 0.31.
    """
    mantissa, exponent = np.frexp(scale)
    step = (mantissa * 2.0**53).astype(np.int64)  # t
    shift = 53 - exponent.astype(np.int64)  # log2(s), 0 or more
    drawn = np.zeros(len(scale), np.int64)
    waiting = np.arange(len(scale))
    while waiting.size:
        here = waiting[:ENTRIES]
        below = uniform_below(step[here], bits)
        going_on = _heads(-below.astype(np.float64), NO_GAP, step[here].astype(np.float64), bits)
        found = here[going_on]
        number = _shifted(below[going_on], step[found], _heads_in_a_row(found.size, bits), shift[found])
        is_minus = short_words(found.size, bits) >= 2**15
        drawn[found] = np.where(is_minus, -number, number)
        again = found[is_minus & (number == 0)]
        waiting = np.concatenate([here[~going_on], again, waiting[here.size :]])
    return drawn


def _heads_in_a_row(count: int, bits: Bits) -> NDArray[np.int64]:
    """Return, (count,), how many coins of probability 1 / e show heads before the first tails."""
    heads = np.zeros(count, np.int64)
    tossing = np.arange(count)
    while tossing.size:
        tossing = tossing[_heads(np.full(tossing.size, -1.0), NO_GAP, ONE, bits)]
        heads[tossing] += 1
    return heads


def _shifted(
    below: NDArray[np.int64], step: NDArray[np.int64], steps: NDArray[np.int64], shift: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return floor((below + step * steps) / 2^shift), at most 2^62 where the sum leaves int64."""
    number = (below + step * np.minimum(steps, MOST_STEPS)) >> np.minimum(shift, 63)
    for at in np.flatnonzero(steps > MOST_STEPS):
        number[at] = min((int(below[at]) + int(step[at]) * int(steps[at])) >> int(shift[at]), 2**62)
    return number


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
        below = (utilities - top) / scale
        beyond = np.isneginf(utilities - top) & np.isfinite(utilities)  # the difference exceeds every float
        if beyond.any():
            below = np.where(beyond, (utilities / 2 - top / 2) / scale * 2, below)  # halves are exact
        probability = np.exp(below)

    def x(at: tuple[np.intp, ...]) -> Fraction:
        gap = Fraction(float(np.broadcast_to(top, probability.shape)[at])) - Fraction(float(utilities[at]))
        return gap / Fraction(float(np.broadcast_to(scale, probability.shape)[at]))

    return coins(probability, x, bits, possible=np.isfinite(utilities))


def coins(
    probability: NDArray[np.float64],
    x: Callable[[tuple[np.intp, ...]], Fraction],
    bits: Bits = system_bits,
    *,
    possible: NDArray[np.bool_] | np.bool_ = ALL,
) -> NDArray[np.bool_]:
    """Return coins of probability exp(-x), by the steps above; no heads where `possible` is False.

    ``probability`` is exp(-x), off by less than ``ERROR``; ``x(index)`` is the exact exponent, 0 or more, of one coin.
    """
    short = short_words(probability.size, bits).reshape(probability.shape)
    distance = short * 2.0**-16 - probability
    heads: NDArray[np.bool_] = distance < 0
    undecided = np.nonzero((distance < ERROR) & (distance > -(2.0**-16) - ERROR) & possible)
    word = short[undecided].astype(np.uint64) << np.uint64(48) | bits(len(undecided[0])) >> np.uint64(16)
    distance = word * 2.0**-64 - probability[undecided]
    heads[undecided] = distance < 0
    for index in np.flatnonzero(np.abs(distance) < ERROR):
        at = tuple(axis[index] for axis in undecided)
        heads[at] = coin(x(at), int(word[index]), bits)
    return heads & possible


def short_words(count: int, bits: Bits) -> NDArray[np.uint16]:
    """Return (count,) independent uniform 16-bit words."""
    return bits(-(-count // 4)).view(np.uint16)[:count]


def coin(x: Fraction, word: int, bits: Bits = system_bits) -> bool:
    """Return whether U < exp(-x), exactly, for a rational x >= 0 and a U whose first 64 bits are ``word``."""
    length = 64  # bits of U known so far
    while x:
        if word and x >= length:  # exp(-x) < 2^-length <= U
            return False
        if x < length:
            low, high = power_between(x, length)
            if Fraction(word + 1, 2**length) <= low:
                return True
            if Fraction(word, 2**length) >= high:
                return False
        word = (word << 64) | int(bits(1)[0])
        length += 64
    return True


def power_between(x: Fraction, length: int) -> tuple[Fraction, Fraction]:
    """Return bounds of exp(-x), x >= 0, which lie closer together the more bits ``length`` asks for.

    >>> low, high = power_between(Fraction(0), 64)
    >>> low < 1 < high, high - low < Fraction(1, 2**64)
    (True, True)
    """
    digits = int(0.302 * length) + 30  # 0.302 decimal digits per bit, and some for x and the sum
    with decimal.localcontext(decimal.Context(prec=digits)):
        power = (-decimal.Decimal(x.numerator) / decimal.Decimal(x.denominator)).exp()
    error = Fraction(power) * (x + 2) / 10 ** (digits - 2)
    return Fraction(power) - error, Fraction(power) + error
