"""The auditor's own account equals a slow integral, stays below every claim, and shares no mistake with it."""

from __future__ import annotations

import math

import pytest

from fedlearn.auditing.auditor_account import epsilon_at_least
from fedlearn.privacy.accounts import GaussianRounds, epsilon_of
from tests.marked import thinned
from tests.oracles import sampled_rounds

SETTINGS = [(0.7, 0.1), (1.0, 0.5), (2.0, 0.02), (0.6, 0.9), (4.0, 0.3)]


@pytest.mark.parametrize(("noise", "rate", "rounds"), [*((*each, 1) for each in SETTINGS), (2.0, 0.5, 2)])
def test_sampled_rounds_lose_what_the_integral_says(noise, rate, rounds):
    for delta in (1e-3, 1e-5):
        slow = sampled_rounds.epsilon_of(delta, noise=noise, rate=rate, rounds=rounds)
        found = epsilon_at_least(1 / noise, rounds, delta=delta, rate=rate)
        assert slow - 2e-3 <= found <= slow + 2e-4  # of the integral's grid


@pytest.mark.parametrize(("noise", "rate"), thinned(SETTINGS, 2))
@pytest.mark.parametrize("rounds", [1, 7, pytest.param(32, marks=pytest.mark.long)])
def test_claims_of_sampled_rounds_lie_just_above(noise, rate, rounds):
    claimed = epsilon_of([GaussianRounds(noise, rounds, rate)], delta=1e-5)
    found = epsilon_at_least(1 / noise, rounds, delta=1e-5, rate=rate)
    assert found <= claimed <= found * 1.001 + 2e-3


@pytest.mark.parametrize("noise", [0.3, 1.0, 20.0])
def test_other_rounds_lose_what_is_claimed(noise):
    for is_skellam in (False, True):
        claimed = epsilon_of([GaussianRounds(noise, 9, is_skellam=is_skellam)], delta=1e-6)
        found = epsilon_at_least(1 / noise, 9, delta=1e-6, is_skellam=is_skellam)
        assert found == pytest.approx(claimed, rel=1e-6)


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_a_change_without_any_bound_loses_far_more_than_any_claim(rate):
    assert 1e5 < epsilon_at_least(1e3, 3, delta=1e-5, rate=rate) < math.inf
