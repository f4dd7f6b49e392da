"""The bound by separation holds as often as it says, and the power that is printed is the power."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedlearn.auditing.separation import CanaryResult, noise_found, separation_at_least
from fedlearn.privacy.accounts import noise_multiplier_for

CANARIES = 500


def drawn(rng: np.random.Generator, mu: float, canaries: int = CANARIES) -> tuple[np.ndarray, np.ndarray]:
    included = rng.random(canaries) < 0.5
    return 3.0 * (included * mu + rng.standard_normal(canaries)) + 7.0, included


@pytest.mark.parametrize("mu", [0.0, 0.5, 2.0, 8.0])
def test_the_bound_is_above_the_truth_as_rarely_as_it_says(mu: float) -> None:
    rng, above = np.random.default_rng(5), 0
    for _ in range(2000):
        scores, included = drawn(rng, mu)
        above += separation_at_least(scores[included], scores[~included], confidence=0.95) > mu
    assert above / 2000 < 0.065  # four standard deviations above 0.05, and the error of the approximation
    assert mu == 0 or above / 2000 > 0.03  # and it wastes little


def test_the_noise_that_would_be_found_is_found_in_nine_of_ten() -> None:
    rng, mu = np.random.default_rng(6), 0.5
    share = noise_found(mu, CANARIES, confidence=0.9995)
    found = 0
    for _ in range(1000):
        scores, included = drawn(rng, mu / share)
        found += separation_at_least(scores[included], scores[~included], confidence=0.9995) > mu
    assert 0.86 < found / 1000 < 0.94


def test_more_canaries_find_more_and_none_find_nothing() -> None:
    shares = [noise_found(0.5, count, confidence=0.9995) for count in (50, 500, 5000, 500_000)]
    assert shares == sorted(shares) and shares[-1] > 0.95
    one = np.ones(1)
    assert separation_at_least(one, np.zeros(900), confidence=0.9) == 0.0
    assert separation_at_least(np.ones(3), np.zeros(3), confidence=0.9) == math.inf
    assert separation_at_least(np.ones(3), np.ones(3), confidence=0.9) == 0.0
    assert separation_at_least(np.zeros(30), np.ones(30), confidence=0.9) == 0.0  # the wrong way round


@pytest.mark.parametrize(("share", "is_refuted"), [(1.0, False), (0.5, True), (0.01, True)])
def test_gaussian_noise_of_a_claim_stands_and_half_of_it_does_not(share: float, is_refuted: bool) -> None:
    mu = 1 / noise_multiplier_for(2.0, delta=1e-5, rounds=1)
    scores, included = drawn(np.random.default_rng(8), mu / share, 2000)
    result = CanaryResult.of(scores, included, share=0.25, claimed=2.0, delta=1e-5, confidence=0.999)
    assert result.is_refuted is is_refuted
    assert (": refuted" in str(result)) is is_refuted and "of the noise would be found" in str(result)
    assert result.measured >= result.by_guesses.measured


def test_canaries_that_were_all_left_out_prove_nothing() -> None:
    scores = np.random.default_rng(1).standard_normal(100)
    result = CanaryResult.of(scores, np.zeros(100, bool), share=0.25, claimed=1.0, delta=1e-5, confidence=0.999)
    assert result.epsilon == result.separated == 0.0 and not result.is_refuted
