"""A lower bound on epsilon from how far the scores of included canaries lie from those of the others.

Counting right guesses (`one_run`) assumes nothing of the training, and needs canaries by the hundred thousand to see
that half the noise is missing. Scores that are sums with Gaussian noise say more: those of included canaries and those
of the others are Gaussian numbers of one variance, whose means lie mu standard deviations apart, so the training loses
what a Gaussian mechanism of this mu loses (Dong, Roth, Su 2019, arXiv:1905.02383). A confidence bound on mu is one on
epsilon.

Source: Andrew et al. 2023, "One-shot empirical privacy estimation for federated learning" (arXiv:2302.03098), with a
confidence bound in place of their point estimate: the normal approximation of Hedges, Olkin 1985, section 5.E.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedlearn.auditing.one_run import OneRunResult, guessed
from fedlearn.privacy.accounts import GaussianRounds, epsilon_of, noise_multiplier_for

POWER = 0.9  # probability with which a training is to be refuted that has as little noise as `finds` says
STEPS = 60  # of a bisection


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """What the canaries of one training prove, by guesses and by their separation; each at half the error.

    Parameters
    ----------
    by_guesses : OneRunResult
        Bound by guesses about the canaries, which assumes nothing.
    separated : float
        Lower bound on mu, in standard deviations; assumes scores with Gaussian noise.
    epsilon : float
        Lower bound on epsilon by `separated`.
    finds : float
        Largest share of the claimed noise with which a training would be refuted with probability `POWER`: the
        audit's power.
    confidence : float
        Confidence of both bounds together, in (0, 1).
    """

    by_guesses: OneRunResult
    separated: float
    epsilon: float
    finds: float
    confidence: float

    @classmethod
    def of(
        cls, scores: NDArray[np.float64], included: NDArray[np.bool_], *, share: float, claimed: float, delta: float,
        confidence: float,
    ) -> CanaryResult:  # fmt: skip
        """Return the result of scores that are larger where a canary looks included, (m,), and of the coins, (m,)."""
        each = (1 + confidence) / 2
        guesses = guessed(scores, included, share=share, claimed=claimed, delta=delta, confidence=each)
        mu = separation_at_least(scores[included], scores[~included], confidence=each)
        epsilon = epsilon_of([GaussianRounds(1 / min(mu, 1e3), 1)], delta=delta) if mu > 0 else 0.0
        promised = 1 / noise_multiplier_for(claimed, delta=delta, rounds=1)
        return cls(guesses, mu, epsilon, noise_found(promised, len(scores), confidence=each), confidence)

    @property
    def claimed(self) -> float:
        """Epsilon that is claimed."""
        return self.by_guesses.claimed

    @property
    def measured(self) -> float:
        """Epsilon that the canaries refute everything below, at `confidence`."""
        return max(self.by_guesses.measured, self.epsilon)

    @property
    def is_refuted(self) -> bool:
        """Whether the canaries prove a larger epsilon than the claimed one."""
        return self.measured > self.claimed

    def __str__(self) -> str:
        found = self.by_guesses
        return (
            f"claimed {self.claimed:g}, at least {self.epsilon:.2f} by separation, {found.measured:.2f} by guesses "
            f"({found.right} of {found.guesses} right) of {found.canaries} canaries, confidence {self.confidence:g}: "
            f"{'refuted' if self.is_refuted else 'not refuted'}; {self.finds:.2f} of the noise would be found"
        )


def separation_at_least(included: NDArray[np.float64], others: NDArray[np.float64], *, confidence: float) -> float:
    """Return a lower confidence bound on the distance of two means in standard deviations; 0 where it is below.

    >>> rng = np.random.default_rng(0)
    >>> round(separation_at_least(rng.normal(1, 1, 1000), rng.normal(0, 1, 1000), confidence=0.99), 1)
    0.8
    """
    first, second = len(included), len(others)
    if min(first, second) < 2:
        return 0.0
    squares = (first - 1) * included.var(ddof=1) + (second - 1) * others.var(ddof=1)
    deviation = math.sqrt(squares / (first + second - 2))
    apart = float(included.mean() - others.mean())
    if not deviation:
        return math.inf if apart > 0 else 0.0
    found = apart / deviation
    return max(found - _quantile(confidence) * _error(found, first, second), 0.0)


def noise_found(mu: float, canaries: int, *, confidence: float, power: float = POWER) -> float:
    """Return the largest share of the noise of a promise of mu that is refuted with probability ``power``.

    >>> round(noise_found(0.5, 2000, confidence=0.9995), 2), round(noise_found(0.5, 200, confidence=0.9995), 2)
    (0.7, 0.42)
    """
    quantiles = _quantile(confidence) + _quantile(power)
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        share = (low + high) / 2
        true = mu / share
        is_found = true - quantiles * _error(true, canaries / 2, canaries / 2) >= mu
        low, high = (share, high) if is_found else (low, share)
    return low


def _error(mu: float, first: float, second: float) -> float:
    """Return the standard error of an estimate of mu from so many scores on both sides."""
    return math.sqrt((first + second) / (first * second) + mu * mu / (2 * (first + second)))


def _quantile(probability: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(probability)
