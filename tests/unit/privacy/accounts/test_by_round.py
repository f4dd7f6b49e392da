"""Epsilon by round rises to the account of the whole plan, and is an upper bound everywhere."""

from __future__ import annotations

import pytest

from fedlearn.privacy.accounts import GaussianRounds, epsilon_of, epsilons_by_round

SAMPLED = pytest.param(GaussianRounds(0.9951, 6, 0.2), marks=pytest.mark.slow)


@pytest.mark.parametrize("plan", [SAMPLED, GaussianRounds(5.0, 200), GaussianRounds(1.0, 0)])
def test_epsilon_rises_to_the_account_of_the_plan(plan):
    found = epsilons_by_round(plan, delta=1e-5)
    assert len(found) == plan.rounds
    assert found == sorted(found)
    if found:
        assert found[-1] == epsilon_of([plan], delta=1e-5)


@pytest.mark.long
def test_each_is_a_bound_that_is_nearly_tight():
    found = epsilons_by_round(GaussianRounds(1.0, 5, 0.1), delta=1e-5)
    for rounds in (1, 4):
        exact = epsilon_of([GaussianRounds(1.0, rounds, 0.1)], delta=1e-5)
        assert exact <= found[rounds - 1] <= exact + 2e-3
