from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from fedlearn.auditing import AuditResult, Verdict, audit, audit_everything
from fedlearn.auditing.cases import MECHANISM_CASES
from fedlearn.privacy import exponential, geometric, laplace, permute_and_flip, seeded_noise
from fedlearn.privacy.events import log_ratio_bound

DRAWS = 30_000
# Against a sound mechanism the auditor errs with probability 1 - confidence; secure noise has no seed, so make it rare.
CONFIDENCE = 1 - 1e-7


def audited(release, first, second, *, claimed=1.0, draws=DRAWS):
    noise = seeded_noise(11)
    on = [lambda count, data=data: release(np.tile(data, (count, 1)), noise) for data in (first, second)]
    return audit("planted", *on, claimed=claimed, draws=draws)


@pytest.mark.parametrize("seed", [None, pytest.param(7, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", MECHANISM_CASES)
def test_mechanism_stays_below_its_claim_and_the_auditor_comes_near_it(name, seed):
    (result,) = audit_everything(DRAWS, seed, {name: MECHANISM_CASES[name]}, confidence=CONFIDENCE)
    assert result.verdict is Verdict.NOT_REFUTED
    assert result.measured <= result.claimed
    assert result.measured > 0.3 or result.claimed < 1  # of parts nothing is to be seen


def test_every_case_is_audited_under_its_name():
    assert [result.name for result in audit_everything(400, seed=1)] == list(MECHANISM_CASES)


def test_seeded_audit_of_a_case_does_not_depend_on_the_others():
    name = "geometric"
    (alone,) = audit_everything(2_000, 3, {name: MECHANISM_CASES[name]})
    assert alone in audit_everything(2_000, 3)


def half_the_noise_laplace(values, noise):
    return laplace(values, sensitivity=1.0, epsilon=2.0, noise=noise)


def half_the_noise_geometric(values, noise):
    return geometric(values.astype(int), epsilon=2.0, noise=noise)


def half_the_noise_exponential(values, noise):
    return exponential(values, sensitivity=1.0, epsilon=2.0, noise=noise, monotone=True)


def half_the_noise_permute_and_flip(values, noise):
    return permute_and_flip(values, sensitivity=1.0, epsilon=2.0, noise=noise, monotone=True)


@pytest.mark.parametrize(
    ("release", "first", "second"),
    [
        (half_the_noise_laplace, [0.0], [1.0]),
        (half_the_noise_geometric, [5.0], [4.0]),
        (half_the_noise_exponential, [0.0] * 20, [0.0] * 19 + [1.0]),
        (half_the_noise_permute_and_flip, [0.0, 1.0], [0.0, 0.0]),
    ],
)
def test_half_the_noise_is_caught(release, first, second):
    result = audited(release, first, second)
    assert result.verdict is Verdict.REFUTED
    assert 1.4 < result.measured <= 2.0


def one_number_at_a_time(values, noise):
    return laplace(values, sensitivity=1.0, epsilon=1.0, noise=noise)  # but both numbers change by 1


def forgotten_factor_two(values, noise):
    return permute_and_flip(values, sensitivity=1.0, epsilon=1.0, noise=noise, monotone=True)  # but they move apart


@pytest.mark.parametrize(
    ("release", "first", "second"),
    [(one_number_at_a_time, [0.0, 0.0], [1.0, 1.0]), (forgotten_factor_two, [0.0, 2.0], [1.0, 1.0])],
)
def test_noise_for_the_wrong_sensitivity_is_caught(release, first, second):
    result = audited(release, first, second)
    assert result.verdict is Verdict.REFUTED
    assert result.measured > 1.3


def test_a_level_that_nobody_booked_is_caught():
    def two_levels(values, noise):
        return np.hstack([geometric(values.astype(int), epsilon=1.0, noise=noise) for _ in range(2)])

    result = audited(two_levels, [0.0], [1.0])
    assert result.verdict is Verdict.REFUTED
    assert "sum of log-ratios" in result.worst_event  # no single output shows it


def test_an_exact_answer_is_caught_whatever_was_claimed():
    result = audited(lambda values, noise: values, [0.0], [1.0], claimed=5.0)
    assert result.measured > 5.0
    assert result.worst_event.startswith("output")


def test_outputs_that_do_not_depend_on_the_data_prove_nothing():
    result = audited(lambda values, noise: noise.laplace(1.0, values.shape), [0.0], [1.0])
    assert result.measured == pytest.approx(0.0, abs=0.05)


def test_the_worst_event_is_told_in_words():
    result = audited(half_the_noise_laplace, [0.0], [1.0])
    assert " >= " in result.worst_event or " < " in result.worst_event
    assert result.worst_event.endswith(("likelier on the first", "likelier on the second"))


def test_the_bound_holds_as_often_as_it_says():
    p, q, draws, confidence = 0.4, 0.2, 200, 0.9
    counts = np.arange(draws + 1)
    bounds = log_ratio_bound(counts[:, None], counts[None, :], draws, confidence)
    chance = binom.pmf(counts, draws, p)[:, None] * binom.pmf(counts, draws, q)[None, :]
    assert chance[bounds <= math.log(p / q)].sum() >= confidence


def test_the_bound_is_finite_at_both_ends():
    counts = np.array([0, 100])
    bounds = log_ratio_bound(counts[:, None], counts[None, :], 100, 0.99)
    assert np.isfinite(bounds).all()
    assert bounds[1, 0] == bounds.max() > 2.0
    assert bounds[0, 1] == bounds[0, 0] == 0.0


def test_a_result_on_the_edge_is_not_refuted():
    assert AuditResult("leaf", 1.0, 1.0, 0.99, 10, "output = 1").verdict is Verdict.NOT_REFUTED


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (lambda n: np.zeros(n - 1), "outputs"),
        (lambda n: np.zeros((n, 0)), "outputs"),
        (lambda n: np.full(n, np.nan), "NaN"),
    ],
)
def test_outputs_of_a_wrong_shape_are_refused(outputs, message):
    with pytest.raises(ValueError, match=message):
        audit("odd", outputs, outputs, claimed=1.0, draws=10)


@pytest.mark.parametrize("wrong", [{"draws": 3}, {"confidence": 1.0}, {"confidence": 0.0}])
def test_an_audit_needs_draws_and_a_confidence(wrong):
    with pytest.raises(ValueError, match="draws"):
        audit("few", np.zeros, np.zeros, **{"claimed": 1.0, "draws": 100, **wrong})
