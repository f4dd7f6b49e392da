"""Bounds from guesses about one training."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedlearn.auditing.one_run import OneRunResult, epsilon_at_least, guessed, p_value


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_without_delta_it_is_the_tail_of_a_binomial(epsilon: float) -> None:
    success = math.exp(epsilon) / (1 + math.exp(epsilon))
    tail = sum(math.comb(12, k) * success**k * (1 - success) ** (12 - k) for k in range(9, 13))
    assert p_value(9, 12, canaries=20, epsilon=epsilon, delta=0.0) == pytest.approx(tail)


def test_delta_weakens_the_bound_and_more_right_guesses_strengthen_it() -> None:
    least = [epsilon_at_least(90, 100, canaries=1000, delta=delta, confidence=0.95) for delta in (0.0, 1e-5, 1e-3)]
    assert least == sorted(least, reverse=True) and least[0] > least[2] > 0
    assert epsilon_at_least(95, 100, canaries=1000, delta=1e-5, confidence=0.95) > least[1]
    assert epsilon_at_least(50, 100, canaries=1000, delta=1e-5, confidence=0.95) == 0


def test_randomized_response_is_refuted_below_its_epsilon_and_above_it_once_in_a_hundred() -> None:
    """Each canary is told right with probability e^2 / (1 + e^2): epsilon is 2, and no more."""
    rng, true, above, below = np.random.default_rng(3), 2.0, 0, 0
    success = 1 / (1 + math.exp(-true))
    for _ in range(300):
        right = int((rng.random(400) < success).sum())
        result = OneRunResult.of(right, 400, claimed=true, delta=0.0, canaries=400, confidence=0.99)
        above += result.is_refuted
        below += result.measured > 1.2
    assert above <= 9 and below >= 290


def test_guesses_are_the_highest_and_the_lowest_scores() -> None:
    coins = np.array([True, False, True, False, True, False, True, False])
    scores = np.array([9.0, 8.0, 7.0, 0.0, 0.1, -0.1, -7.0, -8.0])
    result = guessed(scores, coins, share=0.25, claimed=1.0, delta=0.0, confidence=0.9)
    assert (result.guesses, result.right, result.canaries) == (4, 2, 8)
    assert "2 of 4 guesses right, 8 canaries): not refuted" in str(result)


def test_numbers_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="must not decrease"):
        p_value(5, 4, canaries=4, epsilon=1.0, delta=0.0)
