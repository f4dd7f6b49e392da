"""Drawing of parts: even, independent of other records, and unknown where noise is secure.

The seeded tests are what they are. Those of secure draws err with a probability below 1e-9.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from fedlearn.privacy import disjoint_parts

RISK = 1e-9  # of a false alarm
ROWS = 60_000


def is_even(counts: np.ndarray) -> bool:
    """Whether counts may come from an even distribution: chi-square, Pearson 1900."""
    expected = counts.sum() / counts.size
    return bool(((counts - expected) ** 2 / expected).sum() < chi2.isf(RISK, counts.size - 1))


@pytest.mark.parametrize("rng", [np.random.default_rng(1), np.random.default_rng()], ids=["seeded", "fresh"])
@pytest.mark.parametrize("count", [2, 3, 25])
def test_parts_are_even_and_that_of_a_record_says_nothing_of_the_next_ones(rng, count):
    parts = disjoint_parts(ROWS, count=count, rng=rng)
    assert is_even(np.bincount(parts, minlength=count))
    for distance in (1, 2):
        pairs = parts[:-distance] * count + parts[distance:]
        assert is_even(np.bincount(pairs, minlength=count**2)[: count**2])


def test_the_test_sees_parts_of_exactly_equal_size_and_a_part_that_is_a_little_larger():
    assert not is_even(np.bincount(np.arange(ROWS) % 3 * 3 + (np.arange(ROWS) + 1) % 3, minlength=9))
    assert not is_even(np.array([21_000, 19_500, 19_500]))


def test_sizes_of_parts_spread_as_those_of_independent_draws_do():
    sizes = np.array([(disjoint_parts(400, count=4, rng=np.random.default_rng(s)) == 0).sum() for s in range(2000)])
    assert sizes.var() == pytest.approx(400 * 0.25 * 0.75, rel=0.15)  # binomial; 0.15 is 4.7 standard deviations


def test_a_record_that_comes_last_moves_no_other():
    fewer, more = (disjoint_parts(rows, count=7, rng=np.random.default_rng(2)) for rows in (500, 501))
    np.testing.assert_array_equal(fewer, more[:-1])
