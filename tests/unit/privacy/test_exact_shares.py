"""Exact shares of noise: each has the distribution of a Polya number, and their sum that of geometric noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fedlearn.privacy import exact_shares, polya_share, secure_noise

DRAWS = 40_000


def chi_square(drawn, law):
    """Return the probability of a worse fit, of cells with ten draws expected or more."""
    numbers = np.arange(int(law.ppf(1 - 1e-6)) + 1)
    expected = law.pmf(numbers) * len(drawn)
    observed = np.bincount(np.minimum(drawn, len(numbers)), minlength=len(numbers) + 1)[:-1]
    cells = np.cumsum(expected) // 10
    cells = np.minimum(cells, cells[-1] - 1).astype(int)
    expected, observed = (np.bincount(cells, weights=each) for each in (expected, observed))
    kept = expected > 0
    found = (np.square(observed[kept] - expected[kept]) / expected[kept]).sum()
    return float(stats.chi2.sf(found, kept.sum() - 1))


@pytest.mark.parametrize(("scale", "shares"), [(0.7, 2), (5.0, 4), (60.0, 25), (3.0, 100)])
def test_a_share_is_a_polya_number(scale, shares):
    drawn = exact_shares.polya(np.full(DRAWS, scale), shares)
    assert chi_square(drawn, stats.nbinom(1 / shares, -np.expm1(-1 / scale))) > 1e-4


@pytest.mark.parametrize(("numerator", "denominator"), [(1, 2), (61, 130), (1, 40)])
def test_poisson_numbers_come_from_coins_of_rational_probability(numerator, denominator):
    drawn = exact_shares.poisson(numerator, denominator, DRAWS)
    assert chi_square(drawn, stats.poisson(numerator / denominator)) > 1e-4


@pytest.mark.parametrize("scale", [2.0**30, 2.0**50])
def test_wide_shares_have_the_mean_and_the_deviation_of_a_gamma_number(scale):
    drawn = exact_shares.polya(np.full(DRAWS, scale), 4) / scale
    assert drawn.mean() == pytest.approx(0.25, abs=4 * 0.5 / DRAWS**0.5)
    assert drawn.std() == pytest.approx(0.5, rel=0.05)


@pytest.mark.long
def test_the_sum_of_shares_has_the_noise_of_one():
    noise, scale, shares = secure_noise(), 12.0, 5
    total = sum(noise.polya_share(scale, shares, DRAWS) for _ in range(shares))
    variance = 0.5 / np.sinh(0.5 / scale) ** 2
    assert np.var(total) == pytest.approx(variance, rel=0.1)
    assert np.mean(total == 0) == pytest.approx(np.tanh(0.5 / scale), rel=0.15)


def test_one_share_is_the_whole_noise_and_no_scale_is_no_noise():
    noise = secure_noise()
    assert noise.polya_share(0.0, 3, 4).tolist() == [0, 0, 0, 0]
    assert np.var(noise.polya_share(3.0, 1, DRAWS)) == pytest.approx(0.5 / np.sinh(0.5 / 3.0) ** 2, rel=0.1)
    assert polya_share([7], epsilon=1e6, shares=4, noise=noise).tolist() == [7]
    with pytest.raises(ValueError, match="a share of noise has a scale below"):
        noise.polya_share(2.0**53, 2, 1)


def test_sixty_four_heads_in_a_row_are_counted_on():
    words = iter([np.array([2**64 - 1], np.uint64), np.array([0b0111], np.uint64)])
    assert exact_shares._fair_heads(1, lambda count: next(words)).tolist() == [67]
