"""The auditor's own accounts, which share no code with what a run claims.

*Without sampling* and for Skellam noise they are dp-accounting's. *With Poisson sampling* of rate q epsilon is bounded
from below: a release loses L = log(1 - q + q exp((2 x - 1) mu^2 / 2)), x of deviation 1 / mu around 1 with probability
q and else around 0; or -L, x around 0. The distribution of a loss is known exactly in each cell of a grid; all of a
cell is taken for its lower end, and tails are left out. Delta grows with the losses, so both make it smaller: what
exceeds a claim refutes it.

The slow form of it is `tests/oracles/sampled_rounds.py`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

CELLS = 1 << 17  # of a round's losses at most
FINE = 1e-3  # nats by which all rounds' cells lower the loss at most
TAIL = 1e-13  # probability that may be left out at each end
STEPS = 60  # of a bisection
Float64 = NDArray[np.float64]


@lru_cache(maxsize=1024)
def epsilon_at_least(mu: float, rounds: int, *, delta: float, rate: float = 1.0, is_skellam: bool = False) -> float:
    """Return what so many releases lose, in nats; with sampling a lower bound.

    Parameters
    ----------
    mu : float
        Change of the sum by one unit / standard deviation of the noise; above 0.
    rounds : int
        Number of releases.
    delta : float
        Probability of the claim.
    rate : float
        Rate of Poisson sampling; 1: none.
    is_skellam : bool
        Whether Renyi divergences hold at whole orders only.

    Examples
    --------
    >>> round(epsilon_at_least(1 / 3.28759, 30, delta=1e-5), 3)
    8.0
    >>> 1.18 < epsilon_at_least(1.0, 3, delta=1e-5, rate=0.05) < epsilon_at_least(1.0, 3, delta=1e-5, rate=0.06) < 1.6
    True
    """
    if is_skellam:
        return _whole_orders(mu * math.sqrt(rounds), delta)
    if rate == 1:
        from dp_accounting import get_epsilon_gaussian

        return float(get_epsilon_gaussian(1 / (mu * math.sqrt(rounds)), delta))
    return max(_sampled(mu, rounds, rate, delta, is_added) for is_added in (False, True))


def _whole_orders(mu: float, delta: float) -> float:
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(orders=[*range(2, 1000), *(1 << power for power in range(10, 30))])
    return float(accountant.compose(GaussianDpEvent(1 / mu)).get_epsilon(delta))


def _sampled(mu: float, rounds: int, rate: float, delta: float, is_added: bool) -> float:
    lowest, masses, cell = _cells(mu, rate, rounds, is_added)
    whole, first = masses, lowest
    for is_odd in f"{rounds:b}"[1:]:  # from the highest bit on: double the rounds, and add one
        whole, first = _kept(_convolved(whole, whole), 2 * first, cell)
        if is_odd == "1":
            whole, first = _kept(_convolved(whole, masses), first + lowest, cell)
    losses = first + cell * np.arange(len(whole))
    low, high = 0.0, max(float(losses[-1]), 0.0)
    for _ in range(STEPS):
        middle = (low + high) / 2
        above = losses > middle
        is_more = float((whole[above] * -np.expm1(middle - losses[above])).sum()) > delta
        low, high = (middle, high) if is_more else (low, middle)
    return low


def _cells(mu: float, rate: float, rounds: int, is_added: bool) -> tuple[float, Float64, float]:
    """Return the lowest loss of a round, the probability of each cell from there on, and the size of a cell."""
    from scipy.special import ndtr, ndtri

    far = -float(ndtri(TAIL))
    ends = [_loss(np.array(x), mu, rate, is_added) for x in (-far / mu, 1 + far / mu)]
    lowest, highest = float(min(ends)), float(max(ends))
    cell = max(FINE / rounds, (highest - lowest) / CELLS)
    lowest -= cell  # most of the probability may be at an end, to the last bit
    edges = np.arange(math.ceil((highest - lowest) / cell) + 2, dtype=np.float64) * cell + lowest
    x = _sum_of(edges, mu, rate, is_added)
    if is_added:
        return lowest, np.diff(ndtr(-x * mu)), cell  # the sum is around 0, and the loss falls with it
    below = (1 - rate) * ndtr(x * mu) + rate * ndtr((x - 1) * mu)
    above = (1 - rate) * ndtr(-x * mu) + rate * ndtr((1 - x) * mu)
    return lowest, np.where(x[1:] > 0, -np.diff(above), np.diff(below)), cell


def _loss(x: Float64, mu: float, rate: float, is_added: bool) -> Float64:
    """Return the loss of a sum, in units of its change."""
    loss = np.logaddexp(math.log1p(-rate), math.log(rate) + (2 * x - 1) * mu * mu / 2)
    return -loss if is_added else loss


def _sum_of(losses: Float64, mu: float, rate: float, is_added: bool) -> Float64:
    """Return the sum that has a loss; infinite where none has it."""
    loss = -losses if is_added else losses
    with np.errstate(divide="ignore", invalid="ignore"):
        taken = loss + np.log1p(-(1 - rate) * np.exp(-loss)) - math.log(rate)
    return np.where(np.isnan(taken), -np.inf, taken) / (mu * mu) + 0.5


def _convolved(one: Float64, other: Float64) -> Float64:
    from scipy.signal import fftconvolve

    found: Float64 = np.maximum(fftconvolve(one, other), 0.0)
    return found


def _kept(masses: Float64, first: float, cell: float) -> tuple[Float64, float]:
    """Return masses without their tails, and the loss of the first one that is left."""
    start = int(np.searchsorted(np.cumsum(masses), TAIL))
    stop = len(masses) - int(np.searchsorted(np.cumsum(masses[::-1]), TAIL))
    return masses[start:stop], first + start * cell
