"""Accounts of Skellam noise, which has Renyi divergences at whole orders only.

Source: Agarwal, Kairouz, Liu 2021 (arXiv:2110.04995), corollary 3.6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedlearn.privacy.accounts.epsilons import check
from fedlearn.privacy.accounts.renyi import WHOLE_ORDERS, epsilon_by_renyi, most_divergence
from fedlearn.privacy.accounts.repeated_gaussian import GaussianRounds


def epsilon_of_skellam(parts: Sequence[GaussianRounds], *, delta: float) -> float:
    """Return an upper bound on epsilon of rounds of `fedlearn.privacy.skellam`, in nats.

    The mechanism adds as much noise as it takes for the divergences of the Gaussian at whole orders. Amplification by
    sampling is not claimed: rates count as 1. Parts may be chosen after answers only within an `RdpFilter` of a whole
    order.

    Parameters
    ----------
    parts : sequence of GaussianRounds
        Noise multipliers and numbers of rounds of the mechanism.
    delta : float
        Probability in (0, 1).

    Examples
    --------
    >>> round(epsilon_of_skellam([GaussianRounds(3.5, 30)], delta=1e-5), 3)
    7.986
    """
    check(delta=delta, accountant="rdp")
    unsampled = [part.without_sampling() for part in parts if part.rounds]
    return epsilon_by_renyi(unsampled, delta, WHOLE_ORDERS) if unsampled else 0.0


def skellam_multiplier_for(epsilon: float, *, delta: float, rounds: int) -> float:
    """Return the smallest noise multiplier, rounded up, with which rounds of Skellam noise keep to epsilon at delta.

    >>> z = skellam_multiplier_for(8.0, delta=1e-5, rounds=30)
    >>> round(z, 4), round(epsilon_of_skellam([GaussianRounds(z, 30)], delta=1e-5), 6)
    (3.4949, 8.0)
    """
    check(delta=delta, accountant="rdp")
    most = ((order, most_divergence(epsilon, order, delta)) for order in WHOLE_ORDERS)
    return math.sqrt(min(rounds * order / (2 * rho) for order, rho in most if rho > 0)) * (1 + 2.0**-40)


def skellam_divergence(order: int, *, variance: float, l2: float, l1: float) -> float:
    """Return the Renyi divergence of one answer with Skellam noise at a whole order from 2 on, in nats.

    ``l2`` and ``l1`` are the sensitivities in the two norms, in steps.

    >>> round(skellam_divergence(4, variance=100.0, l2=1.0, l1=1.0), 6)
    0.020325
    """
    more = min(((2 * order - 1) * l2**2 + 6 * l1) / (4 * variance**2), 3 * l1 / (2 * variance))
    return math.fsum([order * l2**2 / (2 * variance), more])
