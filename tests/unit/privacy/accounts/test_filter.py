"""A budget over runs admits what no order of choices can exceed."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from fedlearn.privacy.accounts import GaussianRounds, RdpFilter, epsilon_of, noise_multiplier_for
from fedlearn.privacy.accounts.skellam_account import skellam_multiplier_for

BUDGET = RdpFilter(8.0, 1e-5)


def test_without_sampling_a_calibrated_run_uses_the_whole_budget():
    run = GaussianRounds(noise_multiplier_for(8.0, delta=1e-5, rounds=30), 30)
    spent = BUDGET.having(run)
    assert BUDGET.admits(run)
    assert spent.spent() == pytest.approx(8.0, rel=1e-9)
    assert not spent.admits(GaussianRounds(1000.0, 1))


def test_round_by_round_is_as_good_as_at_once():
    one = GaussianRounds(noise_multiplier_for(8.0, delta=1e-5, rounds=30), 1)
    budget = BUDGET
    for _ in range(30):
        assert budget.admits(one)
        budget = budget.having(one)
    assert not budget.admits(one)


def test_a_sampled_run_calibrated_by_loss_distributions_is_admitted_alone():
    plan = GaussianRounds(0.9951, 30, 0.2)  # epsilon 8 by loss distributions, 8.9 by Renyi divergences
    budget = RdpFilter(8.0, 1e-5, plan=plan)
    one = GaussianRounds(0.9951, 1, 0.2)
    for _ in range(30):
        assert budget.admits(one)
        budget = budget.having(one)
    assert budget.yardstick == "alone"
    assert not budget.admits(one)
    assert not RdpFilter(8.0, 1e-5, (one,), plan=plan).admits(GaussianRounds(50.0, 1)), (
        "another one is no part of the plan"
    )
    assert not RdpFilter(8.0, 1e-5, (one,), plan=plan).admits(GaussianRounds(0.9951, 1, 0.1))
    assert not RdpFilter(8.0, 1e-5, (one,), plan=plan, pure=0.1).admits(one), "nothing is left for a pure loss"


def test_sampled_runs_that_fit_by_renyi_divergences_go_by_the_order_of_the_first():
    first, other = GaussianRounds(2.0, 30, 0.2), GaussianRounds(1.5, 10, 0.1)
    budget = BUDGET.having(first)
    assert budget.yardstick == "renyi"
    assert budget.spent() == pytest.approx(epsilon_of([first], delta=1e-5, accountant="rdp"))
    count = 0
    while budget.admits(other):
        budget, count = budget.having(other), count + 1
    assert count > 1
    assert epsilon_of(budget.parts, delta=1e-5, accountant="rdp") <= budget.spent() <= 8.0


def test_after_an_unsampled_part_sampling_counts_for_nothing():
    budget = BUDGET.having(GaussianRounds(10.0, 1))
    sampled = GaussianRounds(2.0, 3, 0.01)
    assert budget.having(sampled).spent() == budget.having(sampled.without_sampling()).spent()


@pytest.mark.parametrize(
    "part", [GaussianRounds(3.3, 30), GaussianRounds(2.0, 30, 0.2), GaussianRounds(0.9951, 30, 0.2)]
)
def test_pure_losses_are_taken_off_the_budget(part):
    assert BUDGET.admits(part)
    for before in (0.0, 7.9):
        assert not RdpFilter(8.0, 1e-5, pure=7.9, pure_before=before).admits(part)
    assert RdpFilter(8.0, 1e-5, pure=0.5).having(part).spent() == pytest.approx(BUDGET.having(part).spent() + 0.5)


def test_nothing_costs_nothing_and_a_spent_budget_admits_nothing_else():
    assert BUDGET.admits(GaussianRounds(0.01, 0))
    assert not RdpFilter(1.0, 1e-5, pure=1.0, pure_before=1.0).admits(GaussianRounds(100.0, 1))
    with pytest.raises(ValueError, match="delta"):
        RdpFilter(1.0, 0.0)


@pytest.mark.parametrize("noise", [1e-9, 1e-3, 0.1, 0.5, 1e6])
@pytest.mark.parametrize("rate", [1e-12, 0.5, 1.0])
@pytest.mark.parametrize("rounds", [1, 10**12])
def test_parameters_that_a_server_makes_up_are_judged_at_once(noise, rate, rounds):
    start = time.process_time()
    plan = GaussianRounds(noise, rounds, rate)
    admitted = RdpFilter(1.0, 1e-6, plan=plan).admits(GaussianRounds(noise, 1, rate))
    assert time.process_time() - start < 5
    if noise < 0.2:
        assert not admitted


@pytest.mark.parametrize("planned", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3, 30)), 10**9])
def test_whatever_number_of_rounds_a_server_plans_the_sum_stays_within_the_budget(planned):
    budget, one = RdpFilter(2.0, 1e-5, plan=GaussianRounds(1.5, planned, 0.1)), GaussianRounds(1.5, 1, 0.1)
    while budget.admits(one):
        budget = budget.having(one)
    assert epsilon_of(budget.parts, delta=1e-5) <= 2.0
    assert len(budget.parts) <= max(planned, 60)


SKELLAM = GaussianRounds(skellam_multiplier_for(8.0, delta=1e-5, rounds=30), 30, is_skellam=True)


def test_skellam_noise_is_accounted_at_whole_orders_alone_and_uses_the_whole_budget():
    assert epsilon_of([SKELLAM], delta=1e-5) == pytest.approx(8.0) == BUDGET.having(SKELLAM).spent()
    assert BUDGET.admits(SKELLAM) and not BUDGET.having(SKELLAM).admits(GaussianRounds(100.0, 1))
    gaussian = replace(SKELLAM, is_skellam=False)
    assert epsilon_of([gaussian], delta=1e-5) < 7.6  # what would be claimed too little
    assert epsilon_of([replace(gaussian, rounds=29), replace(SKELLAM, rounds=1)], delta=1e-5) == pytest.approx(8.0)


def test_after_gaussian_noise_no_skellam_noise_is_admitted_and_before_it_whole_orders_count():
    weak, little = GaussianRounds(30.0, 1), GaussianRounds(30.0, 1, is_skellam=True)
    assert BUDGET.having(weak).admits(weak) and not BUDGET.having(weak).admits(little)
    assert BUDGET.having(little).admits(weak)
    assert BUDGET.having(little).having(weak).spent() > BUDGET.having(weak).having(weak).spent()


def test_skellam_noise_claims_no_amplification():
    with pytest.raises(ValueError, match="no amplification is known"):
        GaussianRounds(1.0, 1, 0.5, is_skellam=True)
