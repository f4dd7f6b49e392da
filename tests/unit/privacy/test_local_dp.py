"""Shares of discrete Gaussian noise: the two steps of the proof in numbers, the grid, the plan of a run."""

import math

import numpy as np
import pytest

from fedlearn.core.errors import SettingError
from fedlearn.models.presets import settings_from
from fedlearn.privacy import secure_noise, seeded_noise
from fedlearn.privacy.honest_count import honest_shares
from fedlearn.privacy.local_dp import OwnNoise
from fedlearn.privacy.mechanisms import gaussian_share
from fedlearn.privacy.mechanisms.gaussian_share import ROUNDING, share_deviation, whole_steps

SHARED = {
    "model.name": "linear", "privacy.protects": "nodes", "privacy.trust": "distributed", "privacy.delta": 1e-5,
    "clients": 20, "rounds.cohort": 10,
}  # fmt: skip
WIDE = np.arange(-400, 401)


def discrete(variance, *, around=0.0):
    weights = np.exp(-((WIDE - around) ** 2) / (2 * variance))
    return weights / weights.sum()


@pytest.mark.parametrize("shares", [2, 5])
def test_shares_of_four_steps_add_up_to_one_discrete_gaussian_number(shares):
    total = np.array([1.0])
    for _ in range(shares):
        total = np.convolve(total, discrete(16.0))
    middle = len(total) // 2
    here = slice(middle - 60, middle + 61)
    expected = np.exp(-(np.arange(-60, 61) ** 2) / (2 * 16.0 * shares))
    ratios = np.log(total[here] / total[middle] / expected)
    assert np.abs(ratios).max() < 1e-12


def test_a_discrete_gaussian_number_is_a_rounded_gaussian_number():
    """The mixture over Y by a fine rule: the integrand is smooth, so that its error is below float64's."""
    variance, y = 25.0 + ROUNDING, np.arange(-60, 60.001, 0.05)
    density = np.exp(-(y**2) / (2 * 25.0)) * 0.05 / math.sqrt(2 * math.pi * 25.0)
    rounded = sum(p * discrete(ROUNDING, around=each) for p, each in zip(density, y, strict=True))
    here = np.abs(WIDE) <= 30
    assert np.abs(np.log(rounded[here] / discrete(variance)[here])).max() < 1e-12


@pytest.mark.parametrize("noise", [seeded_noise(3), secure_noise()], ids=["seeded", "secure"])
def test_the_sum_of_all_shares_has_the_noise_of_the_central_mechanism(noise):
    zero = np.zeros(20_000, np.int64)
    sent = [gaussian_share(zero, sensitivity=2**14, noise_multiplier=1.5, shares=5, noise=noise) for _ in range(5)]
    assert np.sum(sent, axis=0).std() / 2**14 == pytest.approx(1.5, rel=0.02)
    assert sent[0].std() / 2**14 == pytest.approx(1.5 / math.sqrt(5), rel=0.02)


def test_a_share_is_never_narrower_than_its_claim():
    for shares, multiplier, reach in ((1, 0.5, 2**10), (7, 3.3, 2**15), (100, 0.9, 2**20)):
        whole = share_deviation(reach, multiplier, shares) ** 2 * shares
        assert whole - ROUNDING >= (multiplier * reach) ** 2 * (1 - 2**-50)
        assert whole == pytest.approx((multiplier * reach) ** 2, rel=1e-3)


@pytest.mark.parametrize(
    ("more", "word"),
    [({"shares": 0}, "shares"), ({"sensitivity": 0}, "sensitivity"), ({"noise_multiplier": math.nan}, "multiplier"),
     ({"steps": [0.5]}, "integers"), ({"sensitivity": 8, "shares": 9}, "finer grid")],
)  # fmt: skip
def test_wrong_arguments_of_a_share_are_named(more, word):
    given = {"steps": [1], "sensitivity": 64, "noise_multiplier": 1.0, "shares": 1, "noise": seeded_noise(0)} | more
    with pytest.raises(ValueError, match=word):
        gaussian_share(given.pop("steps"), **given)


@pytest.mark.parametrize("seed", range(20))
def test_no_vector_has_more_steps_than_its_norm_allows(seed):
    """With halves in all entries, rounding to the nearest lengthens a vector most."""
    rng = np.random.default_rng(seed)
    count, reach = int(rng.integers(1, 3000)), int(rng.integers(1, 200))
    kinds = (rng.normal(size=count), np.full(count, 0.5) / reach, rng.standard_cauchy(count) * 1e200, np.eye(1, count))
    for vector in (*kinds, np.full((2, count), 1e-300), -np.ones(count)):
        steps = whole_steps(vector, clip=1.0, reach=reach)
        assert int(np.square(steps).sum()) <= reach**2
        assert steps.shape == vector.shape


def test_steps_are_those_of_the_vector_where_it_is_short():
    vector = np.random.default_rng(1).normal(size=62_006) / 1000  # a quarter of the norm
    steps = whole_steps(vector, clip=1.0, reach=2**15)
    assert np.abs(steps / 2**15 - vector).max() <= 0.5 / 2**15
    long = whole_steps(vector * 100, clip=1.0, reach=2**15)
    assert np.linalg.norm(long) == pytest.approx(2**15, rel=1e-4)  # with the worst rounding as a term it lacks 0.4 %


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_vector_that_is_not_finite_adds_nothing(wrong):
    assert whole_steps([wrong, 1.0], clip=1.0, reach=8).tolist() == [0, 0]


def test_shares_are_those_of_the_smallest_sum_without_colluders():
    config = settings_from({**SHARED, "secure.colluders": 2})
    assert config.secure.sums == "masked" and config.fewest_reports == 10 == honest_shares(config) + 2
    noise = OwnNoise.of(config)
    assert noise.shares == 8 and noise.reach == 2**15
    assert OwnNoise.of(settings_from({**SHARED, "rounds.quorum": 0.5})).shares == 5
    with pytest.raises(SettingError, match="no noise is left"):
        OwnNoise.of(settings_from({**SHARED, "secure.colluders": 10}))


def test_noise_is_that_of_the_central_mechanism_and_of_fewer_rounds_less():
    distributed = OwnNoise.of(settings_from({**SHARED, "privacy.epsilon": 8.0, "rounds.total": 30}))
    assert distributed.multiplier == pytest.approx(
        3.28759, abs=1e-5
    )  # of the exact account: 3.495 by Renyi divergences
    fewer = OwnNoise.of(settings_from({**SHARED, "privacy.epsilon": 8.0, "privacy.participations": 6}))
    assert fewer.rounds == 6 and fewer.multiplier < distributed.multiplier / 2
    assert fewer.spent_after(6) == fewer.spent_after(60) == pytest.approx(8.0) and fewer.spent_after(0) == 0


@pytest.mark.parametrize(
    ("more", "why"),
    [({"privacy.delta": 0.0}, "Gaussian noise needs one"), ({"privacy.noise_multiplier": 0.1}, "cost epsilon"),
     ({"secure.bits": 3, "privacy.epsilon": 100.0}, "use more bits")],
)  # fmt: skip
def test_noise_that_does_not_keep_its_promise_is_refused(more, why):
    with pytest.raises(SettingError, match=why):
        OwnNoise.of(settings_from({**SHARED, **more})).check()


def test_each_trust_has_its_presets():
    assert settings_from({**SHARED, "privacy.trust": "local"}).secure.sums == "off"
    assert settings_from({"model.name": "linear", "privacy.protects": "nodes"}).privacy.trust == "central"
