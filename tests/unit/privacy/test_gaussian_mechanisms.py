"""Gaussian and Skellam mechanisms: widths, grids, norms, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedlearn.privacy import gaussian, seeded_noise, skellam
from fedlearn.privacy.mechanisms.gaussian import GRID_BITS, _sensitivity
from fedlearn.privacy.mechanisms.skellam import steps_of


@pytest.mark.parametrize(("clip", "multiplier"), [(1.0, 1.0), (0.4, 0.62), (1e-6, 20.0), (3e5, 0.1)])
def test_the_noise_is_as_wide_as_it_says_and_no_wider(noise, clip, multiplier):
    drawn = gaussian(np.zeros(20_000), clip=clip, noise_multiplier=multiplier, noise=noise) / (clip * multiplier)
    assert drawn.std() == pytest.approx(1, abs=0.03)
    assert abs(drawn.mean()) < 0.04


@settings(max_examples=50, deadline=None)
@given(st.floats(1e-6, 1e6), st.floats(0.05, 500), st.integers(1, 2**22))
def test_the_grid_covers_rounding_and_is_fine(clip, multiplier, numbers):
    exponent = math.frexp(multiplier * clip)[1] - 1 - GRID_BITS
    steps = _sensitivity(clip, exponent, numbers)
    assert steps >= clip / 2.0**exponent + math.sqrt(numbers)
    assert 2.0**GRID_BITS <= multiplier * steps < 2.0**44
    assert steps * 2.0**exponent <= clip * 1.0001


def test_answers_lie_on_the_grid_whatever_the_values(noise):
    answers = gaussian([0.1, 1 / 3, math.pi, -1e-300], clip=1.0, noise_multiplier=1.0, noise=noise)
    assert (np.ldexp(answers, GRID_BITS) % 1 == 0).all()


def test_values_beyond_every_grid_are_clipped():
    answers = gaussian([1e300, -1e300], clip=1.0, noise_multiplier=1.0, noise=seeded_noise(0))
    assert np.isfinite(answers).all()
    assert answers[0] > 0 > answers[1]


def test_no_noise_and_no_numbers():
    assert gaussian([0.1], clip=1.0, noise_multiplier=0.0, noise=seeded_noise(0)).tolist() == [0.1]
    assert gaussian(np.zeros((0, 3)), clip=1.0, noise_multiplier=1.0, noise=seeded_noise(0)).shape == (0, 3)


@pytest.mark.parametrize(
    ("values", "more", "word"),
    [
        ([math.nan], {}, "values"),
        ([1.0], {"clip": 0.0}, "clip"),
        ([1.0], {"clip": math.inf}, "clip"),
        ([1.0], {"noise_multiplier": -1.0}, "noise_multiplier"),
        ([1.0], {"noise_multiplier": math.nan}, "noise_multiplier"),
    ],
)
def test_wrong_arguments_of_the_gaussian_are_named(values, more, word):
    with pytest.raises(ValueError, match=word):
        gaussian(values, **{"clip": 1.0, "noise_multiplier": 1.0, "noise": seeded_noise(0)} | more)


@settings(max_examples=200, deadline=None)
@given(
    hnp.arrays(np.float64, st.integers(1, 200), elements=st.floats(allow_nan=True, allow_infinity=True)),
    st.floats(1e-3, 1e3),
    st.integers(6, 40),
)
def test_no_vector_has_more_steps_than_the_clipping_norm_has(vector, clip, bits):
    exponent = math.frexp(clip)[1] - bits
    try:
        steps = steps_of(vector, clip=clip, exponent=exponent)
    except ValueError:
        assert math.sqrt(vector.size) * 2.0**exponent > clip
        return
    exact = sum(int(step) ** 2 for step in steps.ravel())  # whole numbers: no rounding
    assert exact <= (clip / 2.0**exponent) ** 2
    if np.isfinite(vector).all() and np.abs(vector).max() < clip / 2 / math.sqrt(vector.size):
        assert np.abs(steps * 2.0**exponent - vector).max() <= 2.0**exponent / 2, "short vectors are only rounded"


def test_a_sum_of_shares_has_the_whole_noise(noise):
    zero = np.zeros(4000, np.int64)
    sent = [skellam(zero, sensitivity=100.0, noise_multiplier=2.0, shares=25, noise=noise) for _ in range(25)]
    assert np.std(sum(sent)) == pytest.approx(200, rel=0.06)
    assert np.std(sent[0]) == pytest.approx(40, rel=0.06)


@pytest.mark.parametrize(
    ("steps", "more", "word"),
    [
        ([0.5], {}, "integers"),
        ([1], {"shares": 0}, "shares"),
        ([1], {"shares": 1.5}, "shares"),
        ([1], {"sensitivity": 0.0}, "sensitivity"),
        ([1], {"noise_multiplier": math.inf}, "noise_multiplier"),
        ([1], {"sensitivity": 1e6}, "coarser grid"),
    ],
)
def test_wrong_arguments_of_skellam_are_named(steps, more, word):
    with pytest.raises(ValueError, match=word):
        skellam(steps, **{"sensitivity": 10.0, "noise_multiplier": 1.0, "noise": seeded_noise(0)} | more)
