from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest
from scipy.stats import laplace as laplace_distribution

from fedlearn.privacy import exponential, geometric, laplace, noisy_quantile, permute_and_flip, seeded_noise
from fedlearn.privacy.mechanisms.scale import noise_scale

LUCK = 1e-7  # see conftest.py
NUMBERS = st.floats(-1e6, 1e6)


class RecordedNoise:
    """Returns the given noise, and remembers the scale."""

    is_secure = False
    notice = "written down"

    def __init__(self, drawn=0):
        self.drawn = drawn

    def discrete_laplace(self, scale, shape):
        self.scale = np.broadcast_to(scale, shape)
        return np.full(shape, self.drawn, np.int64)

    def permute_and_flip(self, utilities, scale):
        self.utilities, self.scale = utilities, scale
        return np.asarray(utilities).argmax(axis=1)

    gumbel_max = permute_and_flip


@given(sensitivity=st.floats(1e-6, 1e6), epsilon=st.floats(1e-6, 1e6))
def test_the_scale_is_never_rounded_below_the_quotient(sensitivity, epsilon):
    assert Fraction(float(noise_scale(sensitivity, epsilon))) * Fraction(epsilon) >= Fraction(sensitivity)


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, math.inf, math.nan])
def test_a_sensitivity_is_finite_and_above_zero(sensitivity):
    with pytest.raises(ValueError, match="sensitivity"):
        laplace([1.0], sensitivity=sensitivity, epsilon=1.0, noise=seeded_noise(1))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, 1e-320])
def test_an_epsilon_is_above_zero(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        permute_and_flip([[1.0, 2.0]], sensitivity=1.0, epsilon=epsilon, noise=seeded_noise(1))


class TestLaplace:
    @pytest.mark.parametrize(("sensitivity", "epsilon"), [(1.0, 1.0), (0.3, 0.05), (20.0, 4.0)])
    def test_its_noise_follows_the_laplace_distribution(self, noise, sensitivity, epsilon):
        values = np.full(10_000, 12.5)
        drawn = laplace(values, sensitivity=sensitivity, epsilon=epsilon, noise=noise) - values
        assert kstest(drawn, laplace_distribution(scale=sensitivity / epsilon).cdf).pvalue > LUCK

    @given(
        values=st.lists(NUMBERS, min_size=1, max_size=8),
        change=st.data(),
        sensitivity=st.floats(0.01, 100.0),
        epsilon=st.floats(1e-3, 100.0),
    )
    def test_what_it_adds_noise_to_moves_by_no_more_than_the_noise_was_made_for(
        self, values, change, sensitivity, epsilon
    ):
        share = sensitivity / len(values)
        neighbor = [value + change.draw(st.floats(-share, share)) * (1 - 1e-12) for value in values]
        noise = RecordedNoise()
        steps = [laplace(v, sensitivity=sensitivity, epsilon=epsilon, noise=noise) for v in (values, neighbor)]
        moved = sum(abs(Fraction(float(a)) - Fraction(float(b))) for a, b in zip(*steps, strict=True))
        grid = _grid_of(sensitivity, epsilon)
        assert moved / grid <= Fraction(float(noise.scale[0])) * Fraction(epsilon)

    @given(values=st.lists(NUMBERS, min_size=1, max_size=8), sensitivity=st.floats(0.01, 100.0))
    def test_its_answers_lie_on_a_grid_that_the_data_do_not_choose(self, values, sensitivity):
        published = laplace(values, sensitivity=sensitivity, epsilon=1.0, noise=seeded_noise(1))
        steps = [Fraction(float(number)) / _grid_of(sensitivity, 1.0) for number in published]
        assert all(step.denominator == 1 for step in steps)

    @pytest.mark.parametrize("drawn", [2**63 - 1, -(2**63)])
    @pytest.mark.parametrize("value", [1e300, -1e300, 0.0])
    def test_what_is_out_of_reach_is_clipped_and_does_not_wrap_around(self, drawn, value):
        published = laplace(value, sensitivity=1.0, epsilon=1.0, noise=RecordedNoise(drawn))
        assert published == math.copysign(2.0**29, drawn)

    def test_counts_up_to_half_a_billion_come_through(self):
        published = laplace(5e8, sensitivity=1.0, epsilon=1.0, noise=RecordedNoise())
        assert published == 5e8

    def test_each_row_has_its_own_epsilon_and_infinity_is_exact(self, noise):
        values = np.array([[0.1, 0.2], [0.3, 0.4]])
        published = laplace(values, sensitivity=1.0, epsilon=[math.inf, 0.5], noise=noise)
        np.testing.assert_array_equal(published[0], values[0])
        assert (published[1] != values[1]).all()

    @pytest.mark.parametrize("values", [np.empty((0, 2)), np.float64(3.0), np.zeros((2, 3, 4))])
    def test_the_shape_stays(self, noise, values):
        assert laplace(values, sensitivity=1.0, epsilon=1.0, noise=noise).shape == np.shape(values)

    def test_values_that_are_no_numbers_are_refused(self, noise):
        with pytest.raises(ValueError, match="values"):
            laplace([1.0, math.nan], sensitivity=1.0, epsilon=1.0, noise=noise)


def _grid_of(sensitivity, epsilon):
    """The grid as the docstring has it: 2^-32 of the sensitivity, or of 2^-16 of the scale where that is larger."""
    return Fraction(2) ** (math.floor(math.log2(max(sensitivity, sensitivity / epsilon / 2**16))) - 32)


class TestGeometric:
    @pytest.mark.parametrize(("sensitivity", "epsilon"), [(1, 1.0), (2, 0.5)])
    def test_its_noise_follows_the_geometric_distribution(self, noise, assert_drawn_from, sensitivity, epsilon):
        drawn = geometric(np.full(20_000, 7), sensitivity=sensitivity, epsilon=epsilon, noise=noise) - 7
        decay = math.exp(-epsilon / sensitivity)
        values = np.arange(-90, 91)
        counts = np.array([(drawn == value).sum() for value in values])
        assert_drawn_from(counts, (1 - decay) / (1 + decay) * decay ** np.abs(values))

    def test_each_row_has_its_own_epsilon_and_infinity_is_exact(self, noise):
        published = geometric(np.full((2, 50), 3, np.int32), epsilon=[math.inf, 0.1], noise=noise)
        assert published.dtype == np.int64
        assert (published[0] == 3).all()
        assert (published[1] != 3).any()

    @pytest.mark.parametrize("drawn", [2**63 - 1, -(2**63)])
    @pytest.mark.parametrize("count", [2**62, -(2**62), 5])
    def test_noise_out_of_reach_is_clipped_and_does_not_wrap_around(self, drawn, count):
        published = geometric([count], epsilon=1.0, noise=RecordedNoise(drawn))
        assert published.tolist() == [math.copysign(2**61, drawn)]

    def test_numbers_that_are_no_counts_are_refused(self, noise):
        with pytest.raises(ValueError, match="use laplace"):
            geometric([0.5], epsilon=1.0, noise=noise)
        with pytest.raises(ValueError, match="whole numbers"):
            geometric([1], sensitivity=0.5, epsilon=1.0, noise=noise)


@pytest.mark.parametrize("mechanism", [exponential, permute_and_flip])
class TestSelection:
    @pytest.mark.parametrize(("monotone", "scale"), [(True, 6.0), (False, 12.0)])
    def test_monotone_utilities_need_half_the_noise(self, mechanism, monotone, scale):
        noise = RecordedNoise()
        mechanism([[1.0, 2.0]], sensitivity=3.0, epsilon=0.5, noise=noise, monotone=monotone)
        assert noise.scale == pytest.approx(scale)

    def test_each_row_has_its_own_epsilon_and_infinity_is_the_first_of_the_best(self, mechanism, noise):
        utilities = np.tile([1.0, 5.0, 5.0], (300, 1))
        epsilon = np.where(np.arange(300) < 100, math.inf, 1e-6)
        drawn = mechanism(utilities, sensitivity=1.0, epsilon=epsilon, noise=noise)
        assert (drawn[:100] == 1).all()
        assert set(drawn[100:].tolist()) == {0, 1, 2}


def test_permute_and_flip_is_better_than_the_exponential_mechanism(noise):
    utilities = np.tile([0.0, 1.0, 2.0, 3.0], (20_000, 1))
    flipped = permute_and_flip(utilities, sensitivity=1.0, epsilon=2.0, noise=noise)
    chosen = exponential(utilities, sensitivity=1.0, epsilon=2.0, noise=noise)
    # Exact means: 2.575 and 2.493; the standard deviation of either average is below 0.006.
    assert flipped.mean() > chosen.mean() + 0.03


class TestNoisyQuantile:
    @given(
        values=st.lists(st.floats(-2.0, 12.0), max_size=15),
        added=st.floats(-2.0, 12.0),
        quantile=st.floats(0.0, 1.0),
    )
    def test_a_record_moves_no_utility_by_more_than_the_sensitivity(self, values, added, quantile):
        noise = RecordedNoise()
        settings = {"quantile": quantile, "bounds": (0.0, 10.0), "epsilon": 2.0, "noise": noise, "candidates": 21}
        noisy_quantile(values, **settings)
        before = noise.utilities
        noisy_quantile([*values, added], **settings)
        assert np.abs(noise.utilities - before).max() <= max(quantile, 1 - quantile) + 1e-12
        assert noise.scale == pytest.approx(max(quantile, 1 - quantile))  # 2 * sensitivity / epsilon

    @pytest.mark.parametrize("quantile", [0.1, 0.25, 0.5, 0.9])
    def test_much_budget_gives_nearly_the_quantile(self, noise, quantile):
        values = np.random.default_rng(5).beta(2, 5, 2_000)
        published = noisy_quantile(values, quantile=quantile, bounds=(0.0, 1.0), epsilon=50.0, noise=noise)
        assert published == pytest.approx(np.quantile(values, quantile), abs=0.02)

    def test_an_infinite_epsilon_is_the_quantile_itself(self, noise):
        published = noisy_quantile([1.0, 2.0, 99.0], quantile=0.75, bounds=(0.0, 10.0), epsilon=math.inf, noise=noise)
        assert published == np.quantile([1.0, 2.0, 10.0], 0.75)

    @pytest.mark.parametrize("epsilon", [1.0, math.inf])
    def test_no_values_give_a_number_within_the_bounds(self, noise, epsilon):
        assert 3.0 <= noisy_quantile([], quantile=0.5, bounds=(3.0, 4.0), epsilon=epsilon, noise=noise) <= 4.0

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"bounds": (1.0, 1.0)}, "bounds"),
            ({"bounds": (0.0, math.inf)}, "bounds"),
            ({"quantile": 1.5}, "quantile"),
            ({"values": [math.nan]}, "NaN"),
            ({"candidates": 1}, "candidates"),
            ({"epsilon": 0.0}, "epsilon"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, noise, wrong, message):
        right = {"values": [1.0], "quantile": 0.5, "bounds": (0.0, 2.0), "epsilon": 1.0}
        with pytest.raises(ValueError, match=message):
            noisy_quantile(**{**right, **wrong}, noise=noise)
