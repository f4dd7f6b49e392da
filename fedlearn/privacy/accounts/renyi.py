"""Renyi differential privacy of Gaussian rounds with Poisson sampling, and what it says of epsilon and delta.

*One round* of noise multiplier z and sampling rate q has, at order a > 1, the divergence

    rho(a) = log E[((1 - q) + q exp((2 x - 1) / (2 z^2)))^a] / (a - 1),    x ~ Normal(0, z^2),

which is the larger one of "added" and "removed" (Mironov, Talwar, Zhang 2019, arXiv:1908.10530, theorems 4 and 5).
Rounds add up. The expectation is an integral of an analytic function that falls like a Gaussian, for which the
trapezoidal rule converges faster than any power of its step (Trefethen, Weideman 2014, theorem 5.1): the power has
its singularities pi z^2 away from the real line, so a step of z^2 / 4 and z / 8 leaves an error below 1e-30 of the
integral. Fractional orders need no series, which may fail to converge.

*To epsilon*: Canonne, Kamath, Steinke 2020 (arXiv:2004.00010), proposition 12:

    epsilon = rho(a) + log(1 - 1 / a) - (log(delta) + log(a)) / (a - 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from fedlearn.privacy.accounts.repeated_gaussian import GaussianRounds

ORDERS = (
    *(1 + tenth / 10 for tenth in range(1, 100)), *map(float, range(11, 65)), *(2.0**power for power in range(7, 21))
)  # fmt: skip
WHOLE_ORDERS = (*map(float, range(2, 129)), 256.0, 512.0)
"""Orders at which the divergences of Skellam noise are known."""
ALWAYS = 64.0  # highest order that is of use to noise multipliers up to 1; it grows with their square
LEAST_NOISE = (
    0.2  # below it a rate counts as 1: the integral would take longer and longer, of losses that nobody can afford
)
REACH = 12.0  # standard deviations: what lies beyond is below 1e-31 of the integral


def renyi(part: GaussianRounds, order: float) -> float:
    """Return the Renyi divergence of the rounds at an order above 1, in nats.

    >>> renyi(GaussianRounds(2.0, 3), 4.0)
    1.5
    """
    return part.rounds * _of_one(part.noise_multiplier, part.sampling_rate, order)


@lru_cache(maxsize=2**14)
def _of_one(noise: float, rate: float, order: float) -> float:
    if rate == 1 or noise < LEAST_NOISE:
        return order / (2 * noise * noise)
    step = min(noise * noise / 4, noise / 8)
    x = np.arange(-REACH * noise, order + REACH * noise, step)
    ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + (2 * x - 1) / (2 * noise * noise))
    logs = order * ratio - x * x / (2 * noise * noise)
    top = float(logs.max())
    log_sum = top + math.log(float(np.exp(logs - top).sum()) * step / (noise * math.sqrt(2 * math.pi)))
    return max(log_sum / (order - 1), 0.0)


def epsilon_at(rho: float, order: float, delta: float) -> float:
    """Return the epsilon at delta of a divergence at an order, never below 0."""
    return max(rho - most_divergence(0.0, order, delta), 0.0)


def most_divergence(epsilon: float, order: float, delta: float) -> float:
    """Return the largest divergence at an order that is private at epsilon and delta; below 0 where there is none."""
    return epsilon - math.log1p(-1 / order) + (math.log(delta) + math.log(order)) / (order - 1)


def orders_for(parts: Sequence[GaussianRounds]) -> list[float]:
    """Return the orders that may be the best for parts, the lowest first; higher ones lose more and take longer."""
    if any(part.is_skellam for part in parts):
        return list(WHOLE_ORDERS)
    least = min(part.noise_multiplier for part in parts)
    return [order for order in ORDERS if order <= ALWAYS * max(1.0, least**2)]


def epsilon_by_renyi(parts: Iterable[GaussianRounds], delta: float, orders: Iterable[float] | None = None) -> float:
    """Return the smallest epsilon at delta over orders, all that may be the best unless given.

    >>> round(epsilon_by_renyi([GaussianRounds(1.0, 1000, 0.01)], 1e-5), 4)
    2.1014
    """
    listed = list(parts)
    among = orders_for(listed) if orders is None else orders
    return min(epsilon_at(sum(renyi(part, order) for part in listed), order, delta) for order in among)
