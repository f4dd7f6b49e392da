from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.privacy import exact

# exp(-1) = 0.36787944117144232159552377016146086744581113103176783...
INVERSE_E = 36787944117144232159552377016146086744581113103176783, 10**53


def words(*fixed):
    """Bits that have been written down; running out of them is an error."""
    rest = list(fixed)

    def draw(count):
        taken, rest[:count] = rest[:count], []
        assert len(taken) == count, "more bits drawn than needed"
        return np.array(taken, np.uint64)

    return draw


def test_the_coin_looks_at_no_more_bits_than_it_needs():
    assert exact.coin(Fraction(1), 2**62, words())  # a quarter is below 1 / e
    assert not exact.coin(Fraction(1), 2**63, words())  # a half is above


@pytest.mark.parametrize(("beside", "heads"), [(-(2**8), True), (2**8, False)])
def test_the_coin_draws_more_bits_until_the_two_numbers_part(beside, heads):
    numerator, denominator = INVERSE_E
    number = numerator * 2**128 // denominator + beside  # the first 64 bits of 1 / e, and where it goes from there
    assert exact.coin(Fraction(1), number >> 64, words(number % 2**64)) is heads


@given(x=st.fractions(Fraction(0), Fraction(60)), word=st.integers(0, 2**64 - 1))
def test_the_coin_agrees_with_float64_wherever_float64_can_tell(x, word):
    distance = word * 2.0**-64 - math.exp(-x)
    if abs(distance) > 1e-15:
        assert exact.coin(x, word, words()) is (distance < 0)


def test_a_sure_coin_always_shows_heads_and_a_hopeless_one_ends():
    assert exact.coin(Fraction(0), 2**64 - 1, words())
    assert not exact.coin(Fraction(10) ** 300, 0, words(0, 5))


def test_a_word_next_to_the_probability_is_decided_exactly():
    numerator, denominator = INVERSE_E
    word = numerator * 2**64 // denominator
    utilities, scale = np.array([[-1.0, 0.0]]), np.array([1.0])
    for second, heads in [(0, True), (2**64 - 1, False)]:
        # words: 16 bits for each of two coins, 48 and then 64 more for the first, one choice among the heads
        drawn = words(word >> 48, word << 16 & 2**64 - 1, second, 0)
        assert exact.permute_and_flip(utilities, scale, drawn).tolist() == [0 if heads else 1]


@pytest.mark.parametrize(("more", "heads"), [(-1, True), (1, False)])
def test_a_short_word_next_to_the_probability_gets_more_bits(more, heads):
    numerator, denominator = INVERSE_E
    word = numerator * 2**64 // denominator + more * 2**40
    drawn = words(word >> 48, word << 16 & 2**64 - 1, 0)
    assert exact.permute_and_flip(np.array([[-1.0, 0.0]]), np.ones(1), drawn).tolist() == [0 if heads else 1]


@given(x=st.floats(0, 20), offset=st.integers(-(2**50), 2**50))
def test_a_coin_of_an_array_agrees_with_the_coin_in_exact_arithmetic(x, offset):
    word = min(max(int(math.exp(-x) * 2**64) + offset, 0), 2**64 - 1)
    drawn = words(word >> 48, word << 16 & 2**64 - 1, *[0] * 9)  # an even second word takes the first of two heads
    chosen = exact.permute_and_flip(np.array([[-x, 0.0]]), np.ones(1), drawn)[0]
    assert bool(chosen == 0) == exact.coin(Fraction(x), word, words(*[0] * 9))


@given(bounds=st.lists(st.integers(1, 2**40), min_size=1, max_size=50), seed=st.integers(0, 2**32))
def test_a_uniform_number_lies_below_its_bound(bounds, seed):
    rng = np.random.default_rng(seed)
    drawn = exact.uniform_below(np.array(bounds), lambda count: rng.integers(0, 2**64, count, dtype=np.uint64))
    assert ((drawn >= 0) & (drawn < bounds)).all()


def test_words_of_the_last_incomplete_block_are_drawn_again():
    # 2^64 = 3 * 6148914691236517205 + 1: the very last word would make 0 likelier than 1 and 2.
    assert exact.uniform_below(np.array([3]), words(2**64 - 1, 7)).tolist() == [1]
    assert exact.uniform_below(np.array([3]), words(2**64 - 2)).tolist() == [2]
    assert exact.uniform_below(np.array([2**63]), words(2**64 - 1)).tolist() == [2**63 - 1]


def test_many_rows_are_worked_on_in_parts(monkeypatch):
    monkeypatch.setattr(exact, "ENTRIES", 64)
    utilities = np.full((100, 10), -1e9)
    best = np.arange(100) % 10
    utilities[np.arange(100), best] = 0.0
    for select in (exact.permute_and_flip, exact.exponential):
        np.testing.assert_array_equal(select(utilities, np.ones(100)), best)


def of_words(scale, *fixed):
    return exact.discrete_laplace(np.array(scale), words(*fixed)).tolist()


TAILS, HEADS, PLUS, MINUS = 2**64 - 1, 0, 0, 2**15  # four coins, or signs, in a word


@given(scale=st.floats(1e-6, 1e15), below=st.integers(0, 2**63 - 1), steps=st.integers(0, 5))
def test_a_number_is_the_floor_of_its_parts_for_the_exact_scale(scale, below, steps):
    # words: U (kept, as the coin is 0), so many coins that show heads and one that does not, the sign
    scaled = Fraction(scale)
    mantissa = int(math.frexp(scale)[0] * 2**53)
    number = math.floor((below % mantissa + mantissa * steps) * scaled / mantissa)
    assert of_words([scale], below, HEADS, *[HEADS] * steps, TAILS, 0) == [number]
    if number:
        assert of_words([scale], below, HEADS, *[HEADS] * steps, TAILS, MINUS) == [-number]


def test_minus_zero_is_another_try():
    assert of_words([1.0], 0, HEADS, TAILS, MINUS, 0, HEADS, HEADS, TAILS, MINUS) == [-1]


def test_a_coin_that_shows_tails_is_another_try():
    almost_one = 2**53 - 1  # U / t for the scale 1 - 2^-53: the coin's probability is 1 / e
    assert of_words([1 - 2.0**-53], almost_one - 1, TAILS, 0, HEADS, HEADS, HEADS, TAILS, 0) == [1]


def test_each_number_has_the_scale_of_its_place():
    # both U, both coins, both runs of one, both signs
    assert of_words([4.0, 2.0**40], 0, 0, HEADS, HEADS, TAILS, MINUS << 16) == [4, -(2**40)]


@pytest.mark.parametrize(("scale", "number"), [(2.0**52, 2**62), (1.0, 3000), (0.75, 2250)])
def test_what_leaves_int64_is_counted_exactly_or_saturates_where_it_changes_nothing(scale, number):
    assert of_words([scale], 0, HEADS, *[HEADS] * 3000, TAILS, 0) == [number]


def test_utilities_that_are_further_apart_than_any_float_are_chosen_as_often_as_they_must():
    """Their difference overflows; a coin of exp(-2) would never show heads."""
    utilities, scale = np.tile([-1e308, 1e308, -np.inf], (4000, 1)), np.full(4000, 1e308)
    for select, share in ((exact.permute_and_flip, math.exp(-2) / 2), (exact.exponential, 1 / (1 + math.exp(2)))):
        chosen = np.bincount(select(utilities, scale), minlength=3) / 4000
        assert abs(chosen[0] - share) < 0.03 and chosen[2] == 0
