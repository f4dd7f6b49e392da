"""Delta of one or two Gaussian sums under Poisson sampling, by sums over a fine grid of the sums themselves.

Neighbors add 0 and 1 in a taken round, with noise of deviation s: one releases x around 0, the other x around 1 with
probability q. Delta at epsilon is the integral of the density of one less exp(epsilon) times that of the other, where
this is positive; the larger of both directions.
"""

from __future__ import annotations

import math

import numpy as np

STEP = 0.004  # standard deviations
FAR = 9.0  # standard deviations


def delta_of(epsilon: float, *, noise: float, rate: float, rounds: int) -> float:
    """Return delta of one or two rounds."""
    x = np.arange(-FAR, FAR + 1 / noise, STEP * (1 if rounds == 1 else 6))  # in standard deviations
    without = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    shifted = np.exp(-((x - 1 / noise) ** 2) / 2) / math.sqrt(2 * math.pi)
    pairs = [(without, (1 - rate) * without + rate * shifted)]
    if rounds == 2:
        pairs = [(np.outer(one, one), np.outer(other, other)) for one, other in pairs]
    (one, other), cell = pairs[0], (x[1] - x[0]) ** rounds
    both = (one - math.exp(epsilon) * other, other - math.exp(epsilon) * one)
    return max(float(np.maximum(each, 0).sum()) * cell for each in both)


def epsilon_of(delta: float, *, noise: float, rate: float, rounds: int) -> float:
    """Return the epsilon at which delta is this, by bisection."""
    low, high = 0.0, 40.0
    for _ in range(40):
        middle = (low + high) / 2
        is_more = delta_of(middle, noise=noise, rate=rate, rounds=rounds) > delta
        low, high = (middle, high) if is_more else (low, middle)
    return low
