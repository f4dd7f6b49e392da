"""The noise multiplier for an epsilon: the smallest one that the account certifies."""

from __future__ import annotations

import math
from collections.abc import Callable

from fedlearn.privacy.accounts.analytic import mu_for
from fedlearn.privacy.accounts.epsilons import (
    COARSE_FROM,
    MOST_ROUNDS,
    Accountant,
    by_loss_distribution,
    check,
    epsilon_of,
)
from fedlearn.privacy.accounts.kept import kept
from fedlearn.privacy.accounts.renyi import epsilon_by_renyi
from fedlearn.privacy.accounts.repeated_gaussian import GaussianRounds

COARSE = 1e-3  # grid of the losses while searching: epsilon comes out some 5e-4 too large, ten times as fast
PRECISION = 2e-5  # relative, of the noise multiplier
MOST_NOISE = 1e9
ROUNDING = 1e-12  # relative: more than the floats of the closed form are off


def noise_multiplier_for(
    epsilon: float, *, delta: float, rounds: int, sampling_rate: float = 1.0, accountant: Accountant = "pld"
) -> float:
    """Return the smallest noise multiplier, to five digits, whose rounds are certified at epsilon and delta.

    ``epsilon_of([GaussianRounds(z, rounds, sampling_rate)], delta=delta)`` is at most epsilon for the result z. It
    takes seconds where units are sampled, and is kept in the project's cache folder.

    Parameters
    ----------
    epsilon : float
        Largest epsilon, finite and above 0, in nats.
    delta : float
        Probability in (0, 1).
    rounds : int
        Number of rounds, 1 or more.
    sampling_rate : float, default=1.0
        Rate of Poisson sampling in (0, 1]; 1 claims no amplification.
    accountant : {"pld", "rdp"}, default="pld"
        As in `epsilon_of`.

    Examples
    --------
    >>> round(noise_multiplier_for(8.0, delta=1e-5, rounds=30), 6)
    3.28759
    """
    check(delta=delta, accountant=accountant)
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon = {epsilon!r}: must be finite and above 0")
    one = GaussianRounds(1.0, rounds, sampling_rate)
    if not one.rounds:
        raise ValueError(f"rounds = {rounds!r}: must be a whole number from 1 on")
    unsampled = math.sqrt(rounds) / mu_for(epsilon, delta) * (1 + ROUNDING)
    if one.sampling_rate == 1 and accountant == "pld":
        return unsampled
    key = ("noise", epsilon, delta, one.rounds, one.sampling_rate, accountant)
    return kept(key, lambda: _searched(epsilon, delta, one, accountant, unsampled))


def _searched(epsilon: float, delta: float, one: GaussianRounds, accountant: Accountant, unsampled: float) -> float:
    def rounds_of(noise: float) -> list[GaussianRounds]:
        return [GaussianRounds(noise, one.rounds, one.sampling_rate)]

    def by_renyi(noise: float) -> float:
        return epsilon_by_renyi(rounds_of(noise), delta)

    def coarsely(noise: float) -> float:
        return by_loss_distribution(rounds_of(noise), delta, grid=COARSE * max(1.0, epsilon / COARSE_FROM))

    def certified(noise: float) -> float:
        return epsilon_of(rounds_of(noise), delta=delta)

    if accountant == "rdp":
        return _rounded_up(_bisected(by_renyi, epsilon, _enough(by_renyi, epsilon, unsampled), PRECISION), PRECISION)
    if one.rounds > MOST_ROUNDS:
        return min(_searched(epsilon, delta, one, "rdp", unsampled), unsampled)
    bracket = _bisected(by_renyi, epsilon, unsampled, COARSE) if by_renyi(unsampled) <= epsilon else unsampled
    noise = _rounded_up(_bisected(coarsely, epsilon, bracket, PRECISION), PRECISION)
    while certified(noise) > epsilon:
        noise = _rounded_up(noise * (1 + PRECISION), PRECISION)
    for step in (16, 8, 4, 2, 1):  # the finer grid allows less noise
        while certified(lower := _rounded_up(noise * (1 - step * PRECISION), PRECISION)) <= epsilon and lower < noise:
            noise = lower
    return noise


def _enough(epsilon_of: Callable[[float], float], epsilon: float, noise: float) -> float:
    """Return a noise multiplier at which epsilon holds; Renyi divergences need more than the exact account."""
    while epsilon_of(noise) > epsilon:
        if noise > MOST_NOISE:
            raise ValueError(f"epsilon = {epsilon!r}: too small for Renyi divergences; take accountant='pld'")
        noise *= 1.25
    return noise


def _bisected(epsilon_of: Callable[[float], float], epsilon: float, highest: float, precision: float) -> float:
    """Return a noise multiplier up to `highest` at which epsilon holds, and below which it does not, to a precision."""
    low, high = highest / 2, highest
    while epsilon_of(low) <= epsilon:
        low, high = low / 2, low
    while high / low > 1 + precision:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if epsilon_of(middle) <= epsilon else (middle, high)
    return high


def _rounded_up(number: float, precision: float) -> float:
    """Return the next number on a decimal grid that is at most `precision` of the number wide."""
    digits = -math.floor(math.log10(number * precision))
    return float(round(math.ceil(number * 10.0**digits) / 10.0**digits, digits))
