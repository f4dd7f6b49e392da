"""Discrete Gaussian and Skellam noise have their distributions, exactly where it is decided."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ive
from scipy.stats import norm

from fedlearn.privacy import exact_skellam, seeded_noise
from fedlearn.privacy.exact_gaussian import discrete_gaussian
from fedlearn.privacy.exact_skellam import skellam

DRAWS = 40_000


def counts_of(drawn, most):
    return np.bincount(np.clip(drawn, -most - 1, most + 1) + most + 1, minlength=2 * most + 3)


def with_tails(inner):
    return np.concatenate([[(1 - inner.sum()) / 2], inner, [(1 - inner.sum()) / 2]])


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.7, 40.5])
def test_discrete_gaussian_follows_its_distribution(noise, scale, assert_drawn_from):
    most = math.ceil(3 * scale)
    numbers = np.arange(-20 * most, 20 * most + 1)
    weights = np.exp(-((numbers / scale) ** 2) / 2)
    inner = weights[np.abs(numbers) <= most] / weights.sum()
    assert_drawn_from(counts_of(noise.discrete_gaussian(scale, DRAWS), most), with_tails(inner))


@pytest.mark.parametrize("scale", [2.0**12, 2.0**40])
def test_a_wide_discrete_gaussian_is_a_gaussian(noise, scale, assert_drawn_from):
    drawn = noise.discrete_gaussian(scale, DRAWS) / scale
    edges = norm.ppf(np.linspace(0, 1, 41))
    assert_drawn_from(np.histogram(drawn, edges)[0], np.full(40, 1 / 40))
    parity = noise.discrete_gaussian(scale, DRAWS) % 2
    assert_drawn_from(np.bincount(parity), np.array([0.5, 0.5]))


@pytest.mark.parametrize("scale", [0.5, 2.0, 30.0])
def test_skellam_follows_its_distribution(noise, scale, assert_drawn_from):
    most = math.ceil(3 * scale)
    inner = ive(np.abs(np.arange(-most, most + 1)), scale**2)
    assert_drawn_from(counts_of(noise.skellam(scale, DRAWS), most), with_tails(inner))


def test_shares_of_skellam_add_up_to_skellam(noise, assert_drawn_from):
    drawn = sum(noise.skellam(1.5, DRAWS) for _ in range(4))
    inner = ive(np.abs(np.arange(-9, 10)), 9.0)
    assert_drawn_from(counts_of(drawn, 9), with_tails(inner))


def test_the_widest_skellam_has_its_variance(noise):
    drawn = noise.skellam(2.0**14, DRAWS) / 2.0**14
    assert abs(drawn.mean()) < 0.03
    assert abs(drawn.var() - 1) < 0.05
    assert abs((drawn**4).mean() - 3) < 0.3


def test_shapes_zero_scales_and_wrong_scales(noise):
    assert noise.discrete_gaussian([[0.0, 1e9]], (3, 2))[:, 0].tolist() == [0, 0, 0]
    assert noise.skellam(0.0, (2, 3)).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert noise.discrete_gaussian(3.0, 0).shape == noise.skellam(3.0, 0).shape == (0,)
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="scale"):
            noise.discrete_gaussian(wrong, 2)
        with pytest.raises(ValueError, match="scale"):
            noise.skellam(wrong, 2)
    with pytest.raises(ValueError, match="coarser grid"):
        noise.skellam(2.0**17, 2)
    with pytest.raises(ValueError, match="coarser grid"):
        noise.discrete_gaussian(2.0**44, 2)


def test_seeded_noise_comes_again_and_secure_noise_does_not(noise):
    assert (noise.discrete_gaussian(1e9, 8) != noise.discrete_gaussian(1e9, 8)).any()
    for kind in ("discrete_gaussian", "skellam"):
        first, second = (getattr(seeded_noise(3), kind)(1000.0, 50).tolist() for _ in "12")
        assert first == second


def test_the_table_of_skellam_has_its_cumulative_probabilities():
    for variance in (0.01, 1.0, 17.5, 1e4):
        table = exact_skellam._table(variance)
        inner = ive(np.arange(len(table)), variance)
        expected = inner[0] + 2 * np.concatenate([[0.0], np.cumsum(inner[1:])])
        assert np.abs(table / 2.0**64 - expected).max() < 1e-13


def test_more_digits_of_skellam_refine_the_table():
    few, many = (exact_skellam._cumulative(6.25, digits) for digits in (128, 256))
    for low, high in zip(few, many, strict=False):
        assert abs(low - (high >> 128)) < 2**40


def words(*fixed):
    """Return bits that have been written down, and zeros after them."""
    rest = list(fixed)

    def draw(count):
        taken, rest[:count] = rest[:count], []
        return np.array([*taken, *[0] * (count - len(taken))], np.uint64)

    return draw


def test_a_word_at_the_edge_of_two_skellam_numbers_is_decided_by_more_digits():
    edge = exact_skellam._cumulative(6.25, 512)[2] >> (512 - 128)  # F_2
    for beside, size in ((-(2**20), 2), (2**20, 3)):
        word = edge + beside
        assert abs(int(skellam(6.25, 1, words(word >> 64, word % 2**64))[0])) == size


def test_a_word_beyond_the_table_is_decided_too():
    drawn = skellam(1.0, 1, words(2**64 - 1, 0))
    assert abs(int(drawn[0])) == 16  # 1 - F_16 < 2^-64 <= 1 - F_15


@pytest.mark.parametrize("scale", [0.3, 5.5, 2.0**40])
def test_discrete_gaussian_has_no_far_outliers(scale):
    assert np.abs(discrete_gaussian(np.full(20_000, scale))).max() < 12 * scale + 12
