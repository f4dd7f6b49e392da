"""Shares of noise: the sum of all is geometric, a sum of more has more noise, one share protects no record."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedlearn.privacy import polya_share, seeded_noise

DRAWS = 20_000


def summed(shares, reports, *, epsilon=1.0, draws=DRAWS, seed=1):
    noise = seeded_noise(seed)
    parts = [
        polya_share(np.zeros(draws, np.int64), epsilon=epsilon, shares=shares, noise=noise) for _ in range(reports)
    ]
    return np.sum(parts, axis=0)


@pytest.mark.parametrize("shares", [1, 3, 20])
def test_so_many_shares_add_up_to_geometric_noise(shares, assert_drawn_from):
    drawn, values = summed(shares, shares), np.arange(-60, 61)
    counts = np.array([(drawn == value).sum() for value in values])
    decay = math.exp(-1)
    assert_drawn_from(counts, (1 - decay) / (1 + decay) * decay ** np.abs(values))


def test_shares_that_do_not_come_leave_less_noise_than_promised_and_further_ones_more():
    promised = 2 * math.exp(-1) / (1 - math.exp(-1)) ** 2
    fewer, more = (summed(20, reports).var() for reports in (10, 40))
    assert fewer == pytest.approx(promised / 2, rel=0.15)
    assert more == pytest.approx(2 * promised, rel=0.15)


def test_most_shares_of_many_are_no_noise_at_all():
    alone = polya_share(np.full(DRAWS, 7), epsilon=1.0, shares=100, noise=seeded_noise(2))
    assert (alone == 7).mean() > 0.9


def test_wide_noise_of_few_shares_is_as_wide_as_it_must_be():
    scale = 2.0**20
    drawn = summed(16, 16, epsilon=1 / scale) / scale
    assert drawn.var() == pytest.approx(2, rel=0.15)


@pytest.mark.parametrize("shares", [0, -1, 1.5])
def test_a_number_of_shares_that_is_none_is_refused(shares):
    with pytest.raises(ValueError, match="shares"):
        polya_share([1], epsilon=1.0, shares=shares, noise=seeded_noise(0))


def test_numbers_that_are_not_whole_are_refused():
    with pytest.raises(ValueError, match="must be integers"):
        polya_share([0.5], epsilon=1.0, shares=2, noise=seeded_noise(0))


def test_without_a_budget_limit_nothing_is_added():
    assert polya_share([3, 4], epsilon=math.inf, shares=5, noise=seeded_noise(0)).tolist() == [3, 4]


def distribution(shape, decay, width=600):
    """The probabilities of the difference of two Polya numbers, from -width to width, by their definition."""
    numbers = np.arange(1, width + 1)
    polya = (1 - decay) ** shape * np.cumprod(np.append(1.0, decay * (shape + numbers - 1) / numbers))
    return np.convolve(polya, polya[::-1])


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize(("shares", "reports"), [(1, 1), (5, 5), (5, 6), (5, 40), (64, 100)])
def test_the_sum_of_enough_shares_loses_no_more_than_epsilon_computed_exactly(shares, reports, epsilon):
    found = distribution(reports / shares, math.exp(-epsilon))
    seen = found[found > 1e-12]  # what is rarer is cut off, and rounded
    loss = np.abs(np.diff(np.log(seen))).max()
    assert loss <= epsilon * (1 + 1e-6)
    assert reports > shares or loss == pytest.approx(epsilon)


@pytest.mark.parametrize("reports", [1, 3, 4])
def test_the_sum_of_too_few_shares_loses_more(reports):
    found = distribution(reports / 5, math.exp(-1))
    seen = found[found > 1e-12]
    assert np.abs(np.diff(np.log(seen))).max() > 1.05
