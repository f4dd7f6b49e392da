"""Discrete Gaussian numbers by columns have exactly the stated probabilities, also where float64 cannot decide."""

from __future__ import annotations

import decimal
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from fedlearn.privacy import exact_columns, exact_gaussian
from fedlearn.privacy.exact_columns import _columns, _is_under, discrete_gaussian
from fedlearn.privacy.exact_gaussian import WIDEST_GAUSSIAN

SCALES = [64.0, 100.3, 127.999, 2.0**39, 1.7 * 2.0**40, math.nextafter(WIDEST_GAUSSIAN, 0)]


def exactly(scale, size, unit):
    """Return unit exp(-size^2 / (2 scale^2)) to 60 digits."""
    with decimal.localcontext(decimal.Context(prec=60)):
        x = Fraction(size) ** 2 / (2 * Fraction(scale) ** 2)
        return Fraction((-decimal.Decimal(x.numerator) / decimal.Decimal(x.denominator)).exp()) * unit


def words(*fixed):
    """Return bits that have been written down, and zeros after them."""
    rest = list(fixed)

    def draw(count):
        taken, rest[:count] = rest[:count], []
        return np.array([*taken, *[0] * (count - len(taken))], np.uint64)

    return draw


@pytest.mark.parametrize("scale", SCALES)
def test_no_column_is_lower_than_the_curve_and_no_sure_slot_above_it(scale):
    columns, width = _columns(scale), 2 ** _columns(scale).log_width
    used = columns.sure + len(columns.heights)
    assert used < exact_columns.SLOTS
    slots = np.bincount(columns.start[:used] // width, minlength=columns.count)
    sure = np.bincount(columns.start[: columns.sure] // width, minlength=columns.count)
    assert len(slots) == columns.count
    for each in range(columns.count):
        assert slots[each] >= exactly(scale, each * width, columns.unit)
        assert sure[each] <= exactly(scale, (each + 1) * width - 1, columns.unit)
        of_column = columns.heights[columns.start[columns.sure : used] == each * width]
        assert of_column.tolist() == list(range(sure[each], slots[each]))


@pytest.mark.parametrize("scale", SCALES)
def test_columns_beyond_are_higher_than_the_curve(scale):
    columns = _columns(scale)
    assert columns.count * 2.0**columns.log_width >= exact_columns.REACH * scale
    for group in range(12):
        first = (columns.count << columns.log_width) + (group << columns.log_width + exact_columns.GROUP)
        assert exactly(scale, first, columns.unit << exact_columns.GROUP + group + 1) < Fraction(1, 100)


@pytest.mark.parametrize("scale", [64.0, 100.3])
def test_whole_numbers_come_as_often_as_they_must(scale, assert_drawn_from):
    most = math.ceil(3 * scale)
    numbers = np.arange(-20 * most, 20 * most + 1)
    weights = np.exp(-((numbers / scale) ** 2) / 2)
    inner = weights[np.abs(numbers) <= most] / weights.sum()
    tails = (1 - inner.sum()) / 2
    drawn = np.clip(discrete_gaussian(scale, 200_000), -most - 1, most + 1) + most + 1
    assert_drawn_from(np.bincount(drawn, minlength=2 * most + 3), np.array([tails, *inner, tails]))


def test_wide_ones_are_those_of_the_other_sampler(assert_drawn_from):
    scale, edges = 1.37 * 2.0**39, norm.ppf(np.linspace(0, 1, 101))
    ours = np.histogram(discrete_gaussian(scale, 200_000) / scale, edges)[0]
    assert_drawn_from(ours, np.full(100, 0.01))
    others = np.histogram(exact_gaussian.discrete_gaussian(np.full(20_000, scale)) / scale, edges)[0]
    assert_drawn_from(others, np.full(100, 0.01))
    lowest = discrete_gaussian(scale, 40_000) % 16
    assert_drawn_from(np.bincount(lowest, minlength=16), np.full(16, 1 / 16))


@pytest.mark.parametrize("scale", SCALES)
def test_a_point_on_the_curve_is_decided_by_more_digits(scale):
    columns = _columns(scale)
    at = columns.sure + len(columns.heights) // 2
    size = int(columns.start[at]) + 2**columns.log_width // 2
    height = int(exactly(scale, size, columns.unit))
    edge = int((exactly(scale, size, columns.unit) - height) * 2**128)
    for beside, expected in ((-(2**20), True), (2**20, False)):
        word, more = divmod(edge + beside, 2**64)
        assert _is_under(size, height, word, scale, columns.unit, words(more)) is expected


def test_a_point_that_float64_cannot_decide_is_decided_exactly():
    scale = 2.0**39
    columns = _columns(scale)
    slot = columns.sure + 400
    size, height = int(columns.start[slot]), int(columns.heights[400])
    while not height < exactly(scale, size, columns.unit) < height + 1:
        size += 1 << columns.log_width - 6
    edge = int((exactly(scale, size, columns.unit) - height) * 2**64)
    low = size - int(columns.start[slot])
    for beside, kept in ((-3, 1), (3, 0)):
        assert len(columns.kept(1, words(slot << 48 | low, edge + beside))) == kept


def test_minus_zero_is_another_try():
    columns = _columns(2.0**39)
    assert columns.kept(2, words(0, 1 << 47)).tolist() == [0]
    assert columns.kept(2, words(1, 1 << 47 | 1)).tolist() == [1, -1]


def test_the_top_of_the_curve_is_under_all_heights_but_the_last():
    columns = _columns(2.0**39)
    assert _is_under(0, columns.unit - 1, 2**64 - 1, 2.0**39, columns.unit, words())
    assert not _is_under(0, columns.unit, 0, 2.0**39, columns.unit, words())


def test_a_point_beyond_the_columns_is_kept_as_rarely_as_it_must():
    columns = _columns(2.0**39)
    first, wide = columns.count << columns.log_width, 1 << columns.log_width + exact_columns.GROUP
    slot = (columns.sure + len(columns.heights)) << 48
    for group, position in ((0, 5), (2, 0), (2, wide // 4)):
        size = first + group * wide + position
        chance = int(exactly(2.0**39, size, columns.unit << exact_columns.GROUP + group + 1) * 2**64)
        for word, kept in ((chance - 2, [size]), (chance + 2, [])):
            assert columns.kept(1, words(slot, 2**group - 1, position, word)).tolist() == kept
    assert columns.kept(1, words(slot, 2**64 - 1, 0, 0, 2**63)).tolist() == []  # column 64


def test_slots_that_no_column_needs_are_other_tries():
    columns = _columns(2.0**39)
    used = columns.sure + len(columns.heights) + 1
    assert used < exact_columns.SLOTS
    assert columns.kept(2, words(used << 48, (exact_columns.SLOTS - 1) << 48)).tolist() == []


def test_as_many_come_as_were_asked_for():
    for count in (0, 1, 7, 4096):
        assert discrete_gaussian(2.0**39, count).shape == (count,)
    assert discrete_gaussian(2.0**39, 3, words(*[2**64 - 1] * 11, 1, 2, 3)).tolist() == [1, 2, 3]
