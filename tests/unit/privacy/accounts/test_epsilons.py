"""Accounts come to the values of published tables, and each to no less than a better one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from fedlearn.privacy.accounts import GaussianRounds, epsilon_of, noise_multiplier_for
from fedlearn.privacy.accounts.analytic import delta_of, epsilon_of_mu, mu_for
from fedlearn.privacy.accounts.epsilons import by_loss_distribution
from fedlearn.privacy.accounts.renyi import ORDERS, epsilon_by_renyi, renyi
from fedlearn.privacy.accounts.skellam_account import epsilon_of_skellam, skellam_divergence
from fedlearn.privacy.mechanisms.skellam import share_scale

# epsilon, delta, sampling rate, rounds; noise multiplier by privacy loss distributions, and by Renyi divergences:
# computed by dp-accounting 0.6.0, Poisson sampling, add or remove, to 1e-4.
ROWS = [
    (2, 1e-6, 1e-3, 1500, 0.6162, 0.7138),
    (2, 1e-6, 1e-3, 3000, 0.6328, 0.7247),
    (8, 1e-6, 1e-3, 1500, 0.4187, 0.4454),
    (1, 1e-5, 0.01, 100, 0.9020, 1.0802),
    (2, 1e-5, 0.01, 1000, 0.9591, 1.0224),
    (2, 1e-5, 0.05, 300, 1.9462, 2.0889),
    (8, 1e-5, 0.05, 300, 0.8563, 0.9023),
    (8, 1e-5, 0.2, 30, 0.9950, 1.0655),
    (2, 1e-5, 0.2, 30, 2.5005, 2.7063),
    (4, 1e-5, 0.02, 500, 0.8510, 0.9005),
    (2, 1e-8, 1e-4, 100, 0.4976, 0.6755),
    (1, 1e-5, 1, 1, 3.7306, 4.0454),
    (1, 1e-5, 1, 30, 20.4335, 22.1576),
]
UNSAMPLED = [
    (2, 1e-6, 1, 2.230476), (2, 1e-6, 1500, 86.385975), (8, 1e-5, 1, 0.600229), (8, 1e-5, 30, 3.287590),
    (2, 1e-8, 1, 2.652927),
]  # fmt: skip
FORWARD = [
    (1.0, 0.01, 1000, 1e-5, 1.8282, 2.1014),
    (1.1, 0.01, 10_000, 1e-5, 5.1926, 5.6320),
    (0.8, 0.2, 30, 1e-5, 11.8617, 13.3975),
    (4.0, 1, 16, 1e-6, 4.8866, 5.2215),
    (0.616, 1e-3, 1500, 1e-6, 2.0021, 3.0020),
]


@pytest.fixture(autouse=True)
def _computed_here(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLEARN_CACHE", str(tmp_path))
    monkeypatch.setattr("fedlearn.privacy.accounts.kept._memory", {})


QUICK = [row for row in ROWS if row[2] == 1]
SLOW = [row for row in ROWS if row[2] in (0.05, 0.2) and row[0] == 2][:1]


def marked(row):
    return pytest.param(row, marks=[] if row in QUICK else pytest.mark.slow if row in SLOW else pytest.mark.long)


@pytest.mark.parametrize("row", [marked(row) for row in ROWS])
def test_the_noise_by_loss_distributions_is_that_of_the_table(row):
    epsilon, delta, rate, rounds, expected, _ = row
    noise = noise_multiplier_for(epsilon, delta=delta, rounds=rounds, sampling_rate=rate)
    assert noise == pytest.approx(expected, rel=5e-4)
    assert epsilon_of([GaussianRounds(noise, rounds, rate)], delta=delta) <= epsilon
    assert epsilon_of([GaussianRounds(noise * 0.999, rounds, rate)], delta=delta) > epsilon


@pytest.mark.parametrize(
    "row", [*ROWS[::4], *(pytest.param(row, marks=pytest.mark.slow) for n, row in enumerate(ROWS) if n % 4)]
)
def test_the_noise_by_renyi_divergences_is_that_of_the_table(row):
    epsilon, delta, rate, rounds, _, expected = row
    noise = noise_multiplier_for(epsilon, delta=delta, rounds=rounds, sampling_rate=rate, accountant="rdp")
    assert noise == pytest.approx(expected, rel=5e-4)


@pytest.mark.parametrize(("epsilon", "delta", "rounds", "expected"), UNSAMPLED)
def test_the_noise_without_sampling_is_exact(epsilon, delta, rounds, expected):
    assert noise_multiplier_for(epsilon, delta=delta, rounds=rounds) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("row", [FORWARD[0], *(pytest.param(row, marks=pytest.mark.long) for row in FORWARD[1:])])
def test_the_epsilon_is_that_of_the_table(row):
    noise, rate, rounds, delta, by_distributions, by_divergences = row
    part = [GaussianRounds(noise, rounds, rate)]
    assert epsilon_of(part, delta=delta) == pytest.approx(by_distributions, abs=2e-4)
    ours = epsilon_of(part, delta=delta, accountant="rdp")
    assert (
        by_divergences * 0.997 < ours < by_divergences + 1e-4
    )  # theirs leaves out orders whose series do not converge


KINDS = [(0.5, 0.001), (1.0, 0.01), (2.0, 0.3), (0.7, 0.9), (30.0, 0.5)]


@pytest.mark.parametrize(("noise", "rate"), KINDS)
def test_the_divergence_at_a_whole_order_is_the_binomial_sum(noise, rate):
    for order in (2, 3, 8, 40, 128):
        logs = [
            math.log(math.comb(order, k))
            + (order - k) * math.log1p(-rate)
            + k * math.log(rate)
            + (k * k - k) / (2 * noise**2)
            for k in range(order + 1)
        ]
        expected = float(logsumexp(logs)) / (order - 1)
        assert renyi(GaussianRounds(noise, 1, rate), float(order)) == pytest.approx(expected, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize(("noise", "rate"), KINDS)
def test_the_divergence_at_a_fractional_order_lies_between(noise, rate):
    def moment(order):  # convex in the order
        return (order - 1) * renyi(GaussianRounds(noise, 1, rate), order)

    assert 0 < moment(1.5) <= moment(2.0) / 2 + 1e-15
    assert moment(2.0) <= moment(2.5) <= (moment(2.0) + moment(3.0)) / 2


@pytest.mark.long
def test_the_divergences_are_at_most_those_of_dp_accounting():
    from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    orders = [1.5, 2.0, 3.7, 8.0, 40.0, 128.0]  # its series at fractional orders adds up sizes of terms
    for noise, rate in KINDS:
        theirs = RdpAccountant(orders, NeighboringRelation.ADD_OR_REMOVE_ONE)
        theirs.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)))
        for order, other in zip(orders, theirs._rdp, strict=True):
            mine = renyi(GaussianRounds(noise, 1, rate), order)
            assert mine <= other * (1 + 1e-6) + 1e-12, (noise, rate, order)


@given(st.floats(0.01, 50), st.floats(1e-12, 0.4))
def test_epsilon_and_mu_of_gaussian_noise_are_inverse(epsilon, delta):
    mu = mu_for(epsilon, delta)
    assert delta_of(epsilon, mu) <= delta
    assert epsilon_of_mu(mu, delta) == pytest.approx(epsilon, rel=1e-9)
    assert epsilon_of_mu(mu, delta) <= epsilon * (1 + 1e-12)
    assert delta_of(epsilon, mu * 1.001) > delta


@settings(max_examples=30)
@given(st.floats(0.3, 20), st.integers(1, 500), st.floats(0.001, 1), st.floats(1e-9, 1e-3))
def test_renyi_needs_more_than_the_exact_account_and_sampling_less(noise, rounds, rate, delta):
    part = GaussianRounds(noise, rounds, rate)
    exact = epsilon_of([part.without_sampling()], delta=delta)
    assert epsilon_of([part.without_sampling()], delta=delta, accountant="rdp") >= exact
    assert all(renyi(part, order) <= renyi(part.without_sampling(), order) * (1 + 1e-9) for order in ORDERS[::20])


def test_parts_with_and_without_sampling_compose():
    parts = [GaussianRounds(2.0, 10, 0.1), GaussianRounds(5.0, 2), GaussianRounds(2.0, 5, 0.1)]
    alone = [epsilon_of([part], delta=1e-5) for part in parts]
    both = epsilon_of(parts, delta=1e-5)
    assert max(alone) < both < epsilon_by_renyi(parts, 1e-5)
    assert both == epsilon_of(list(reversed(parts)), delta=1e-5)
    assert epsilon_of([], delta=1e-5) == epsilon_of([GaussianRounds(1.0, 0)], delta=1e-5) == 0


def test_loss_distributions_come_to_the_closed_form_where_there_is_one():
    assert by_loss_distribution([GaussianRounds(2.0, 4)], 1e-5, grid=1e-3) == pytest.approx(
        epsilon_of([GaussianRounds(2.0, 4)], delta=1e-5), rel=1e-3
    )


@pytest.mark.parametrize(
    ("noise", "rounds", "rate", "word"),
    [
        (0, 1, 1, "noise_multiplier"),
        (math.nan, 1, 1, "noise_multiplier"),
        (math.inf, 1, 1, "noise_multiplier"),
        ("1", 1, 1, "noise_multiplier"),
        (1, -1, 1, "rounds"),
        (1, 1.5, 1, "rounds"),
        (1, True, 1, "rounds"),
        (1, 1, 0, "sampling_rate"),
        (1, 1, 1.1, "sampling_rate"),
    ],
)
def test_wrong_parameters_are_named(noise, rounds, rate, word):
    with pytest.raises(ValueError, match=word):
        GaussianRounds(noise, rounds, rate)


def test_wrong_questions_are_named():
    part = [GaussianRounds(1.0, 1)]
    for wrong in (0.0, 1.0, -1e-5, math.nan):
        with pytest.raises(ValueError, match="delta"):
            epsilon_of(part, delta=wrong)
    with pytest.raises(ValueError, match="accountant"):
        epsilon_of(part, delta=1e-5, accountant="prv")
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="epsilon"):
            noise_multiplier_for(wrong, delta=1e-5, rounds=1)
    with pytest.raises(ValueError, match="rounds"):
        noise_multiplier_for(1.0, delta=1e-5, rounds=0)


def test_extreme_budgets_end():
    for epsilon, delta, rounds, rate in [(100.0, 1e-5, 1, 0.5), (0.01, 1e-10, 1, 1.0), (0.02, 1e-3, 10, 0.01)]:
        noise = noise_multiplier_for(epsilon, delta=delta, rounds=rounds, sampling_rate=rate, accountant="rdp")
        assert epsilon_of([GaussianRounds(noise, rounds, rate)], delta=delta, accountant="rdp") <= epsilon


def test_skellam_noise_has_the_values_of_its_paper():
    def epsilon(variance):
        orders = [*range(2, 129), 256]
        found = [skellam_divergence(order, variance=variance, l2=1, l1=1) for order in orders]
        return min(
            rho + math.log1p(-1 / a) - (math.log(1e-5) + math.log(a)) / (a - 1)
            for a, rho in zip(orders, found, strict=True)
        )

    assert epsilon(100) == pytest.approx(0.37742, abs=1e-5)
    assert epsilon(10) == pytest.approx(1.39100, abs=1e-5)


@pytest.mark.parametrize("noise", [0.3, 1.0, 50.0])
@pytest.mark.parametrize("sensitivity", [1.0, 3.5, 1000.0])
def test_skellam_noise_is_as_wide_as_the_divergence_of_the_gaussian_wants(noise, sensitivity):
    variance = share_scale(sensitivity, noise, 1) ** 2
    for order in (2, 3, 10, 500):
        found = skellam_divergence(order, variance=variance, l2=sensitivity, l1=sensitivity**2)
        assert found <= renyi(GaussianRounds(noise, 1), float(order))


def test_skellam_claims_no_amplification():
    sampled = epsilon_of_skellam([GaussianRounds(2.0, 10, 0.01)], delta=1e-5)
    assert sampled == epsilon_of_skellam([GaussianRounds(2.0, 10)], delta=1e-5)
    assert sampled >= epsilon_of([GaussianRounds(2.0, 10)], delta=1e-5)
