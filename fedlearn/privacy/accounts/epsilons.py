"""The epsilon of Gaussian rounds at a delta: exact without sampling, else by privacy loss distributions.

Add or remove one unit; the parameters of all rounds are fixed before the first answer. Where they are chosen after
answers were seen, only `RdpFilter` holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from fedlearn.privacy.accounts.analytic import epsilon_of_mu
from fedlearn.privacy.accounts.kept import kept
from fedlearn.privacy.accounts.renyi import epsilon_by_renyi
from fedlearn.privacy.accounts.repeated_gaussian import GaussianRounds, merged

Accountant: TypeAlias = Literal["pld", "rdp"]
FINE = 1e-4  # grid of the privacy losses, in nats; a loss is rounded so that epsilon never comes out too small
COARSE_FROM = 16.0  # epsilon from which the grid grows with epsilon: the arrays would become as long
MOST_ROUNDS = 10**6  # beyond it Renyi divergences stand alone: distributions of so many tiny losses take hours


def epsilon_of(parts: Sequence[GaussianRounds], *, delta: float, accountant: Accountant = "pld") -> float:
    """Return an upper bound on epsilon of all parts together, in nats.

    Parameters
    ----------
    parts : sequence of GaussianRounds
        Mechanisms on the same data, one after the other; they are fixed before the first answer.
    delta : float
        Probability in (0, 1).
    accountant : {"pld", "rdp"}, default="pld"
        ``pld``: privacy loss distributions (Koskela, Jalko, Honkela 2020; Doroshenko et al. 2022, arXiv:2207.04380),
        computed by ``dp_accounting``; without sampling the exact closed form. ``rdp``: Renyi divergences, which need
        up to half as much noise again. Parts of Skellam noise are always accounted so, at whole orders.

    Examples
    --------
    >>> epsilon_of([GaussianRounds(3.287590, 30)], delta=1e-5)
    8.0000...
    """
    check(delta=delta, accountant=accountant)
    listed = merged(parts)
    if not listed:
        return 0.0
    if accountant == "rdp" or any(part.is_skellam for part in listed):
        return epsilon_by_renyi(listed, delta)
    mu = math.hypot(*(part.gaussian_mu for part in listed))
    if all(part.sampling_rate == 1 for part in listed):
        return epsilon_of_mu(mu, delta)
    return kept(("epsilon", listed, delta), lambda: _certified(listed, delta))


def check(*, delta: float, accountant: Accountant) -> None:
    """Raise ValueError for a delta outside of (0, 1) or an accountant that does not exist."""
    if not 0 < delta < 1:
        raise ValueError(f"delta = {delta!r}: must be a probability above 0 and below 1, well below 1 / units")
    if accountant not in ("pld", "rdp"):
        raise ValueError(f"accountant = {accountant!r}: must be 'pld' or 'rdp'")


def _certified(parts: tuple[GaussianRounds, ...], delta: float) -> float:
    """Return the smallest of the upper bounds that there are."""
    unsampled = epsilon_of_mu(math.hypot(*(part.gaussian_mu for part in parts)), delta)
    bound = min(epsilon_by_renyi(parts, delta), unsampled)
    if sum(part.rounds for part in parts) > MOST_ROUNDS:
        return bound
    return min(bound, by_loss_distribution(parts, delta, grid=FINE * max(1.0, bound / COARSE_FROM)))


def by_loss_distribution(parts: Sequence[GaussianRounds], delta: float, *, grid: float) -> float:
    """Return an upper bound on epsilon from privacy losses on a grid, in nats; parts without sampling count as one."""
    whole = None
    for noise, rate, rounds in _as_few(parts):
        losses = _losses(noise, rate, grid).self_compose(rounds)
        whole = losses if whole is None else whole.compose(losses)
    return 0.0 if whole is None else max(float(whole.get_epsilon_for_delta(delta)), 0.0)


def _as_few(parts: Sequence[GaussianRounds]) -> list[tuple[float, float, int]]:
    """Return noise multiplier, rate and rounds of each part, and of all parts without sampling as one round."""
    sampled = [each for each in parts if each.sampling_rate < 1]
    mu = math.hypot(*(each.gaussian_mu for each in parts if each.sampling_rate == 1))
    one = [(1 / mu, 1.0, 1)] if mu else []
    return [*((each.noise_multiplier, each.sampling_rate, each.rounds) for each in sampled), *one]


def _losses(noise: float, rate: float, grid: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=grid, use_connect_dots=True
    )
