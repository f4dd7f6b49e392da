"""Tests of whether recorded noise and recorded coins are independent over entries, nodes and rounds.

Noise and coins that are what an account claims raise an alarm with a probability of at most `LEVEL` in one run, by the
union bound over all tests that are made of it:

- *Noise*, in standard deviations, is a row of d Gaussian numbers for each call. The correlations of two rows, or of a
  row with itself, at each cyclic lag are quadratic forms of trace 0, eigenvalues of at most 1 and a sum of their
  squares of at most d / 2; the sum of squares of a row is one of d eigenvalues 1. A form with eigenvalues a deviates
  from its trace by more than 2 |a| sqrt(t) + 2 max(a) t with a probability of at most 2 exp(-t) (Laurent, Massart 2000,
  lemma 1). The squares of one entry over K calls add up to less than K u with at most (e u)^(K / 2). Equal sizes on the
  grid of the noise are counted; their number is taken for a Poisson number. Discrete noise is at least 100 steps wide
  here, which changes each of these probabilities by less than a thousandth.
- *Coins* of rate q, scaled to mean 0 and variance 1: a sum of n independent products of two coins exceeds
  b t / 3 + sqrt((b t / 3)^2 + 2 n t), b its largest product, with at most 2 exp(-t) (Bernstein). Products of one
  sequence at a lag fall into two classes, each of independent ones.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

LEVEL = 1e-6  # an audit tests some dozens of sound runs: it is to alarm less than once in 10,000
ROUNDED = 1e-9  # standard deviations: noise on a fine grid is compared up to this
Float64 = NDArray[np.float64]


def why_not_noise(rows: Float64, *, steps: float = ROUNDED) -> str:
    """Return why rows of noise, (calls, entries) in standard deviations, are not independent; empty if nothing shows.

    Parameters
    ----------
    rows : ndarray
        A row for each call.
    steps : float
        Grid of the noise, in standard deviations.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(3, 4000))
    >>> why_not_noise(rows), why_not_noise((rows - np.roll(rows, 1, axis=0)) / math.sqrt(2))
    ('', 'noise of calls 1 and 2 correlates, by 0.5... at lag 0')
    """
    together = rows.reshape(1, -1)
    return (
        _wrong_spread(rows)
        or _wrong_spread(together)
        or _equal(rows, steps)
        or _correlated(rows)
        or _correlated(together)
        or _too_small(rows)
    )


def _too_small(rows: Float64) -> str:
    """Return which entry has hardly any noise in all calls together."""
    calls, entries = rows.shape
    squares = np.square(rows).mean(axis=0)
    least = int(squares.argmin())
    return f"entry {least} has no noise" if squares[least] < (LEVEL / 8 / entries) ** (2 / calls) / math.e else ""


def _wrong_spread(rows: Float64) -> str:
    """Return which call's noise has another variance or mean than is claimed."""
    calls, entries = rows.shape
    t = _exponent(2 * calls)
    squares, sums = np.square(rows).sum(axis=1), np.abs(rows.sum(axis=1))
    off = np.abs(squares - entries) > 2 * math.sqrt(entries * t) + 2 * t
    moved = sums > math.sqrt(2 * entries * t)
    for call in np.flatnonzero(off | moved):
        spread = math.sqrt(squares[call] / entries)
        who = f" of call {call + 1}" if calls > 1 else ""
        return f"noise{who} is {spread:.2f} of what is claimed, its mean {sums[call] / entries:.2f}"
    return ""


def _equal(rows: Float64, steps: float) -> str:
    """Return how many pairs of numbers have the same size, where these are more than chance gives."""
    sizes = np.rint(np.abs(rows) / max(steps, ROUNDED)).astype(np.int64)
    _, counts = np.unique(sizes, return_counts=True)
    pairs = int((counts * (counts - 1) // 2).sum())
    expected = rows.size * (rows.size - 1) / 2 * max(steps, ROUNDED) / math.sqrt(math.pi)
    is_chance = pairs <= math.e**2 * expected + _exponent(1)
    return "" if is_chance else f"noise was used again: {pairs} pairs of numbers of one size"


def _correlated(rows: Float64) -> str:
    """Return which calls' noise correlates, at some lag over the entries."""
    calls, entries = rows.shape
    waves = np.fft.rfft(rows, axis=1)
    t = _exponent(calls * (calls + 1) // 2 * entries)
    most = 2 * math.sqrt(entries / 2 * t) + 2 * t
    for one in range(calls):
        sums = np.abs(np.fft.irfft(waves[one:] * waves[one].conj(), entries, axis=1))
        sums[0, [0, -(-entries // 2)]] /= [math.inf, 2]  # a row with itself: no test at lag 0, twice each at half
        if sums.max() > most:
            other, lag = np.unravel_index(int(sums.argmax()), sums.shape)
            who = f" of calls {one + 1} and {one + other + 1}" if other else ""
            return f"noise{who} correlates, by {sums.max() / entries:.2f} at lag {lag}"
    return ""


def why_not_coins(drawn: NDArray[np.bool_], rate: float) -> str:
    """Return why draws, (rounds, nodes), are no independent coins of this rate; empty if nothing shows.

    >>> coins = np.random.default_rng(0).random((400, 20)) < 0.25
    >>> why_not_coins(coins, 0.25), why_not_coins(np.repeat(coins[::2], 2, axis=0), 0.25)
    ('', 'coins correlate, by ... of one round and of the same node 1 rounds later')
    """
    coins = np.asarray((drawn - rate) / math.sqrt(rate * (1 - rate)), np.float64)
    apart = max((1 - rate) / rate, rate / (1 - rate))
    return (
        _off_rate(drawn, rate)
        or _same(drawn.T, rate, "two nodes have one coin")
        or _same(drawn, rate, "two rounds have one cohort")
        or _at_a_lag(coins, apart)
        or _in_pairs(coins, apart)
    )


def _off_rate(drawn: NDArray[np.bool_], rate: float) -> str:
    rounds, nodes = drawn.shape
    apart = np.abs(drawn.sum(axis=0) - rounds * rate) / math.sqrt(rate * (1 - rate))
    largest = max(1 - rate, rate) / math.sqrt(rate * (1 - rate))
    if apart.max() <= _bernstein(rounds, largest, _exponent(nodes)):
        return ""
    return f"a node is drawn in {drawn.mean(axis=0)[apart.argmax()]:.3f} of the rounds, off the claimed rate {rate:.3f}"


def _same(rows: NDArray[np.bool_], rate: float, why: str) -> str:
    """Return `why` where two rows are the same, which for independent coins is too rare to happen."""
    count, length = rows.shape
    by_chance = count * (count - 1) / 2 * (rate**2 + (1 - rate) ** 2) ** length
    return why if by_chance < LEVEL / 8 and len(np.unique(rows, axis=0)) < count else ""


def _at_a_lag(coins: Float64, largest: float) -> str:
    """Return the lag at which coins correlate, in the order of rounds and of nodes in a round."""
    nodes = coins.shape[1]
    waves = np.fft.rfft(coins.reshape(-1), 2 * coins.size)
    sums = np.abs(np.fft.irfft(np.abs(waves) ** 2)[1 : coins.size])
    classes = np.minimum(coins.size - np.arange(1, coins.size), coins.size / 2)  # products of the larger class
    t = _exponent(2 * coins.size)
    excess = sums / (2 * _bernstein(classes, largest, t))
    if excess.max(initial=0.0) <= 1:
        return ""
    later, beside = divmod(int(excess.argmax()) + 1, nodes)
    who = f"of the node {beside} further" if beside else "of the same node"
    by = sums[excess.argmax()] / coins.size
    return f"coins correlate, by {by:.2f} of one round and {who} {later} rounds later"


def _in_pairs(coins: Float64, largest: float) -> str:
    """Return which two nodes' coins correlate."""
    rounds, nodes = coins.shape
    sums = np.abs(np.triu(coins.T @ coins, 1))
    one, other = np.unravel_index(int(sums.argmax()), sums.shape)
    is_chance = sums.max() <= _bernstein(rounds, largest, _exponent(nodes * nodes))
    return "" if is_chance else f"coins of nodes {one} and {other} correlate, by {sums.max() / rounds:.2f}"


def _bernstein(count: float | Float64, largest: float, t: float) -> Float64:
    part = largest * t / 3
    return np.asarray(part + np.sqrt(part * part + 2 * np.asarray(count) * t))


def _exponent(tests: int) -> float:
    """Return t for which so many two-sided tests of one kind alarm with an eighth of the level at most."""
    return math.log(2 * tests * 8 / LEVEL)
