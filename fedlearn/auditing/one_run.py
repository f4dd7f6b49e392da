"""A lower bound on epsilon from guesses about many canaries of *one* training.

Each canary is included by a coin of its own. After the training somebody guesses of some canaries whether they were
included, and abstains for the others. If the training is (epsilon, delta)-private when a record is added or removed,
then the number of right guesses is at most binomial with success probability exp(epsilon) / (1 + exp(epsilon)), up to a
term of delta. Too many right guesses refute the claim.

Source: Steinke, Nasr, Jagielski 2023, "Privacy auditing with one (1) training run" (arXiv:2305.08846), theorem 5.2 and
appendix D.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STEPS = 40  # of the bisection: epsilon to a relative 1e-12
MOST = 64.0  # nats; no number of guesses proves as much


@dataclass(frozen=True, slots=True)
class OneRunResult:
    """Guesses about the canaries of one training, and what they prove.

    Parameters
    ----------
    claimed, delta : float
        Claim that is audited.
    canaries, guesses, right : int
        Number of canaries, of guesses about them, and of right guesses.
    measured : float
        Epsilon that the guesses refute everything below, at `confidence`.
    confidence : float
        Confidence of the bound, in (0, 1).

    Examples
    --------
    >>> print(OneRunResult.of(100, 100, claimed=4.0, delta=1e-5, canaries=100, confidence=0.95))
    claimed 4, at least 3.49 (confidence 0.95; 100 of 100 guesses right, 100 canaries): not refuted
    """

    claimed: float
    delta: float
    canaries: int
    guesses: int
    right: int
    measured: float
    confidence: float

    @classmethod
    def of(
        cls, right: int, guesses: int, *, claimed: float, delta: float, canaries: int, confidence: float
    ) -> OneRunResult:
        """Return the result of some guesses."""
        least = epsilon_at_least(right, guesses, canaries=canaries, delta=delta, confidence=confidence)
        return cls(claimed, delta, canaries, guesses, right, least, confidence)

    @property
    def is_refuted(self) -> bool:
        """Whether the guesses prove a larger epsilon than the claimed one."""
        return self.measured > self.claimed

    def __str__(self) -> str:
        verdict = "refuted" if self.is_refuted else "not refuted"
        return (
            f"claimed {self.claimed:g}, at least {self.measured:.2f} (confidence {self.confidence:g}; {self.right} of "
            f"{self.guesses} guesses right, {self.canaries} canaries): {verdict}"
        )


def p_value(right: int, guesses: int, *, canaries: int, epsilon: float, delta: float) -> float:
    """Return an upper bound on the probability of so many right guesses where (epsilon, delta) holds."""
    from scipy.stats import binom

    if not 0 <= right <= guesses <= canaries:
        raise ValueError(f"right = {right}, guesses = {guesses}, canaries = {canaries}: must not decrease")
    success = 1 / (1 + math.exp(-epsilon))
    above = float(binom.sf(right - 1, guesses, success))
    if not delta or not right:
        return min(above, 1.0)
    places = np.arange(1, right + 1)
    sums = np.cumsum(binom.pmf(right - places, guesses, success))
    return min(above + float((sums / places).max()) * delta * 2 * canaries, 1.0)


def epsilon_at_least(right: int, guesses: int, *, canaries: int, delta: float, confidence: float) -> float:
    """Return the largest epsilon that the guesses refute at a confidence; 0 where they refute none.

    >>> epsilon_at_least(50, 100, canaries=100, delta=0.0, confidence=0.95)
    0.0
    """
    low, high = 0.0, MOST

    def refuted(epsilon: float) -> bool:
        return p_value(right, guesses, canaries=canaries, epsilon=epsilon, delta=delta) < 1 - confidence

    if not guesses or not refuted(0.0):
        return 0.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def guessed(
    scores: NDArray[np.float64], included: NDArray[np.bool_], *, share: float, claimed: float, delta: float,
    confidence: float,
) -> OneRunResult:  # fmt: skip
    """Return the result of guessing "in" of the canaries with the highest scores, "out" of those with the lowest.

    Parameters
    ----------
    scores : ndarray of float
        A number of each canary that is larger where the training looks as if the canary were included, (m,).
    included : ndarray of bool
        The coins of the canaries, (m,).
    share : float
        Share of the canaries that are guessed at either end, in (0, 0.5]; to be fixed before the coins are seen.

    Examples
    --------
    >>> coins = np.arange(40) % 2 == 0
    >>> guessed(coins * 1.0, coins, share=0.5, claimed=1.0, delta=0.0, confidence=0.99).right
    40
    """
    order, each = np.argsort(scores, kind="stable"), max(int(share * len(scores)), 1)
    right = int(included[order[-each:]].sum() + (~included[order[:each]]).sum())
    return OneRunResult.of(right, 2 * each, claimed=claimed, delta=delta, canaries=len(scores), confidence=confidence)
