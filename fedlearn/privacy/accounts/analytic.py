"""The exact account of Gaussian noise without sampling.

Rounds with noise multipliers z_i compose to one Gaussian mechanism with mu = sqrt(sum 1 / z_i^2), exactly: the sum of
the log-likelihood ratios of independent Gaussian answers is that of one Gaussian answer (Dong, Roth, Su 2022,
arXiv:1905.02383, corollary 2). Its privacy profile is (Balle, Wang 2018, arXiv:1805.06530, theorem 8)

    delta(epsilon) = Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache


def delta_of(epsilon: float, mu: float) -> float:
    """Return the smallest delta with which Gaussian noise of this mu is private at epsilon.

    >>> round(delta_of(1.0, 1.0), 6)
    0.126937
    """
    from scipy.special import log_ndtr

    if mu == 0:
        return 0.0
    first, second = (float(log_ndtr(half - epsilon / mu)) for half in (mu / 2, -mu / 2))
    return math.exp(first) * -math.expm1(min(epsilon + second - first, 0.0))


@lru_cache(maxsize=4096)  # the ledgers of all nodes of a simulation ask the same, several times a round
def epsilon_of_mu(mu: float, delta: float) -> float:
    """Return the smallest epsilon, rounded up, with which Gaussian noise of this mu is private at delta.

    >>> round(epsilon_of_mu(1.0, 1e-5), 4)
    4.3772
    """
    highest = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))  # by concentrated privacy, Bun, Steinke 2016
    return 0.0 if delta_of(0.0, mu) <= delta else _lowest(lambda epsilon: delta_of(epsilon, mu) <= delta, highest)


def mu_for(epsilon: float, delta: float) -> float:
    """Return the largest mu, rounded down, of which Gaussian noise is private at epsilon and delta.

    >>> round(1 / mu_for(2.0, 1e-6), 6)
    2.230476
    """
    root = math.sqrt(2 * math.log(1 / delta))
    noise = 2 / (math.sqrt(root * root + 2 * epsilon) - root)  # half of the mu at which `highest` above is epsilon
    return 1 / _lowest(lambda noise: delta_of(epsilon, 1 / noise) <= delta, noise)


def _lowest(holds: Callable[[float], bool], highest: float) -> float:
    """Return the lowest number up to `highest` at which a condition holds that holds from there on."""
    low, high = 0.0, highest
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
