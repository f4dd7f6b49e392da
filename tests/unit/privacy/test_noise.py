from __future__ import annotations

import math
import pickle
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from scipy.stats import kstest, laplace

from fedlearn.privacy import secure_noise, seeded_noise

LUCK = 1e-7  # see conftest.py
DRAWS = 20_000


def permute_and_flip_probabilities(utilities, scale):
    """By its definition: each candidate shows heads or not; the winner is uniform among the heads."""
    heads = np.exp((np.asarray(utilities) - max(utilities)) / scale)
    probabilities = np.zeros(len(heads))
    for shown in product([0, 1], repeat=len(heads)):
        weight = np.prod(np.where(shown, heads, 1 - heads))
        if weight > 0:
            probabilities += weight * np.array(shown) / sum(shown)
    return probabilities


def test_seeded_noise_is_reproducible_and_says_that_it_protects_nobody():
    noise = seeded_noise(3)
    assert not noise.is_secure
    assert "protects nobody" in noise.notice
    np.testing.assert_array_equal(noise.laplace(1.0, (5,)), seeded_noise(3).laplace(1.0, (5,)))


def test_secure_noise_is_never_the_same_twice_and_has_nothing_to_excuse():
    noise = secure_noise()
    assert noise.is_secure
    assert noise.notice == ""
    assert (noise.discrete_laplace(1e9, 8) != noise.discrete_laplace(1e9, 8)).any()


def test_a_pickled_source_is_a_source(noise):
    assert pickle.loads(pickle.dumps(noise)).laplace(1.0, (3,)).shape == (3,)


@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 2), 4])
def test_noise_has_the_shape_asked_for(noise, shape):
    wanted = (shape,) if isinstance(shape, int) else shape
    for drawn, kind in [(noise.laplace(1.0, shape), np.float64), (noise.discrete_laplace(1.0, shape), np.int64)]:
        assert drawn.shape == wanted
        assert drawn.dtype == kind


@pytest.mark.parametrize("scale", [-1.0, math.nan, math.inf])
def test_a_scale_that_is_none_is_refused(noise, scale):
    with pytest.raises(ValueError, match="scale"):
        noise.laplace(scale, (2,))
    with pytest.raises(ValueError, match="scale"):
        noise.permute_and_flip([[0.0, 1.0]], scale)


def test_scale_zero_is_no_noise_entry_by_entry(noise):
    scale = np.array([0.0, 1e6, 0.0, 1e6])
    assert ((noise.laplace(scale, (4,)) != 0) == (scale > 0)).all()
    assert (noise.discrete_laplace(scale, (4,))[scale == 0] == 0).all()


@pytest.mark.parametrize("scale", [0.1, 3.0])
def test_laplace_follows_its_distribution(noise, scale):
    assert kstest(noise.laplace(scale, DRAWS), laplace(scale=scale).cdf).pvalue > LUCK


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_discrete_laplace_follows_its_distribution(noise, scale, assert_drawn_from):
    drawn = noise.discrete_laplace(scale, DRAWS)
    decay = math.exp(-1 / scale)
    values = np.arange(-60, 61)
    counts = np.array([(drawn == value).sum() for value in values])
    assert_drawn_from(counts, (1 - decay) / (1 + decay) * decay ** np.abs(values))


def test_a_wide_discrete_laplace_is_a_laplace(noise):
    drawn = noise.discrete_laplace(2.0**40, 5_000) / 2.0**40
    assert kstest(drawn, laplace.cdf).pvalue > LUCK


@pytest.mark.parametrize("utilities", [[0.0, 0.0], [0.0, 1.0], [3.0, -2.0, 2.5], [0.0, 0.3, 0.1, 0.2, -40.0]])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_permute_and_flip_follows_its_closed_form(noise, utilities, scale, assert_drawn_from):
    drawn = noise.permute_and_flip(np.tile(utilities, (DRAWS, 1)), scale)
    counts = np.bincount(drawn, minlength=len(utilities))
    assert_drawn_from(counts, permute_and_flip_probabilities(utilities, scale))


@pytest.mark.slow
def test_permute_and_flip_is_opendps_noisy_max(assert_drawn_from):
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
    theirs = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=2.0)
    utilities = [0.0, 1.0, 3.0, 2.5]
    counts = np.bincount([theirs(utilities) for _ in range(10_000)], minlength=4)
    assert_drawn_from(counts, permute_and_flip_probabilities(utilities, 2.0))


@pytest.mark.parametrize("utilities", [[0.0, 0.0], [0.0, 1.0], [3.0, -2.0, 2.5], [0.0, 0.3, 0.1, 0.2, -40.0]])
def test_gumbel_max_follows_the_exponential_mechanism(noise, utilities, assert_drawn_from):
    drawn = noise.gumbel_max(np.tile(utilities, (DRAWS, 1)), 1.5)
    weights = np.exp(np.array(utilities) / 1.5)
    assert_drawn_from(np.bincount(drawn, minlength=len(utilities)), weights / weights.sum())


@pytest.mark.parametrize("select", ["permute_and_flip", "gumbel_max"])
class TestSelection:
    def test_rows_without_noise_take_the_first_of_the_best(self, noise, select):
        utilities = np.tile([1.0, 5.0, 5.0, 2.0], (3, 1))
        assert getattr(noise, select)(utilities, 0.0).tolist() == [1, 1, 1]

    def test_each_row_has_its_own_scale(self, noise, select):
        utilities = np.tile([0.0, 1.0], (400, 1))
        scale = np.tile([0.0, 1e9], 200)
        drawn = getattr(noise, select)(utilities, scale)
        assert (drawn[::2] == 1).all()
        assert 0 < drawn[1::2].sum() < 200

    def test_minus_infinity_is_never_chosen(self, noise, select):
        utilities = np.tile([-math.inf, 0.0, -math.inf, -1.0], (500, 1))
        assert set(getattr(noise, select)(utilities, 1e6).tolist()) == {1, 3}

    def test_a_lone_candidate_always_wins(self, noise, select):
        assert getattr(noise, select)([[-math.inf, 3.0]], 7.0).tolist() == [1]

    def test_huge_gaps_do_not_overflow(self, noise, select):
        assert getattr(noise, select)([[1e308, -1e308], [-1e308, 1e308]], 1e-300).tolist() == [0, 1]

    def test_no_rows_give_no_choices(self, noise, select):
        assert getattr(noise, select)(np.empty((0, 4)), 1.0).shape == (0,)

    @pytest.mark.parametrize(
        "utilities", [[[math.nan, 1.0]], [[math.inf, 1.0]], [[-math.inf, -math.inf]], [1.0, 2.0], [[]]]
    )
    def test_utilities_without_a_finite_maximum_are_refused(self, noise, select, utilities):
        with pytest.raises(ValueError, match="utilities"):
            getattr(noise, select)(utilities, 1.0)


def test_importing_privacy_loads_neither_opendp_nor_flower_nor_torch():
    program = (
        "import sys, fedlearn.privacy; print([m for m in ('opendp', 'flwr', 'torch', 'scipy') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"
