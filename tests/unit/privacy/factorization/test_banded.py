"""Banded factorizations have the sensitivities and errors of the table, and the promise holds whatever a unit sends."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlearn.privacy.accounts import noise_multiplier_for
from fedlearn.privacy.factorization import (
    Banded,
    independent,
    most_separation,
    optimal,
    options,
    searched,
    square_root,
)  # fmt: skip
from fedlearn.privacy.factorization.banded import toeplitz
from fedlearn.privacy.factorization.planning import best_factorization

# rounds, bands -> error of prefix sums, relative to independent noise of the same promise, one participation
CLOSED = {
    100: {1: 1.0, 4: 0.5773, 16: 0.3808, 64: 0.3302, 100: 0.3336},
    200: {1: 1.0, 4: 0.5676, 16: 0.3480, 64: 0.2641, 200: 0.2584},
    500: {1: 1.0, 4: 0.5617, 16: 0.3265, 64: 0.2137, 500: 0.1821},
    1000: {1: 1.0, 4: 0.5597, 16: 0.3190, 64: 0.1938, 1000: 0.1387},
    2000: {1: 1.0, 4: 0.5587, 16: 0.3152, 64: 0.1830, 2000: 0.1051},
}
OPTIMA = {100: {4: 0.5474, 16: 0.3670, 64: 0.3166}, 200: {4: 0.5299, 16: 0.3272, 64: 0.2559}}
OF_PFL = 0.482  # pfl-research 0.6.0, 100 rounds, 16 bands
SENSITIVITIES = [  # rounds, bands, separation
    (1000, 4, 1000, 1.21995), (1000, 16, 1000, 1.39423), (1000, 64, 1000, 1.54559), (100, 1, 16, math.sqrt(7)),
    (100, 4, 16, 3.22769), (100, 16, 16, 3.62651), (1000, 64, 64, 6.17019), (2000, 16, 16, 15.58797),
    (1000, 1000, 1000, 1.80693),
]  # fmt: skip
ERRORS = [(1000, 1, 22.37186), (1000, 4, 10.26390), (1000, 16, 5.11922), (1000, 64, 2.80537)]


def ratio(matrix, separation=None):
    wait = matrix.rounds if separation is None else separation
    plain = independent(matrix.rounds)
    return matrix.sensitivity(wait) * matrix.error() / plain.sensitivity(wait) / plain.error()


def test_the_closed_form_is_the_square_root_of_the_prefix_sums():
    expected = [1, 0.5, 0.375, 0.3125, 0.2734375, 0.24609375, 0.2255859375, 0.20947265625]
    assert square_root(8, 8).rows[-1].tolist() == expected
    whole = square_root(30, 30).matrix()
    assert np.allclose(whole @ whole, np.tril(np.ones((30, 30))))


@pytest.mark.parametrize("rounds", CLOSED)
def test_the_closed_form_has_the_errors_of_the_table(rounds):
    for bands, expected in CLOSED[rounds].items():
        assert ratio(square_root(rounds, bands)) == pytest.approx(expected, abs=5.1e-5)


@pytest.mark.parametrize(("rounds", "bands", "separation", "expected"), SENSITIVITIES)
def test_the_closed_form_has_the_sensitivities_of_the_table(rounds, bands, separation, expected):
    assert square_root(rounds, bands).sensitivity(separation) == pytest.approx(expected, abs=5.1e-6)


@pytest.mark.parametrize(("rounds", "bands", "expected"), ERRORS)
def test_the_closed_form_has_the_deviations_of_the_table(rounds, bands, expected):
    assert square_root(rounds, bands).error() == pytest.approx(expected, abs=5.1e-6)


@pytest.mark.parametrize(
    ("rounds", "bands"),
    [pytest.param(t, b, marks=pytest.mark.slow if t == 100 else pytest.mark.long) for t in OPTIMA for b in OPTIMA[t]],
)
def test_the_search_comes_to_the_optimum_of_the_table(rounds, bands):
    found = searched(rounds, bands)
    assert ratio(found) == pytest.approx(OPTIMA[rounds][bands], abs=5.1e-5)
    assert np.allclose(found.column_squares(), 1)
    assert found.bands == bands
    assert ratio(found) < ratio(optimal(rounds, bands)) <= 1.04 * ratio(found)


@pytest.mark.parametrize(
    ("rounds", "bands", "expected"),
    [
        (1025, 16, 50.85), (1500, 20, 59.41), (2000, 16, 95.42), (2000, 64, 28.80), (3000, 20, 114.34),
    ],
)  # fmt: skip
def test_the_toeplitz_optimum_has_the_noise_of_an_independent_search(rounds, bands, expected):
    found = optimal(rounds, bands)
    assert found.sensitivity(bands) * found.error() == pytest.approx(expected, abs=0.006)
    closed = square_root(rounds, bands)
    assert found.sensitivity(bands) * found.error() < 0.89 * closed.sensitivity(bands) * closed.error()


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 60), st.integers(2, 8), st.integers(0, 2**32 - 1))
def test_no_toeplitz_matrix_nearby_has_less_noise(rounds, bands, seed):
    bands = min(bands, rounds)
    found = optimal(rounds, bands)
    moved = found.rows[-1] * (1 + np.random.default_rng(seed).normal(0, 0.02, bands))
    other = toeplitz(moved / moved[0], rounds)
    noise = (np.linalg.norm(each.rows[-1]) * each.error() for each in (found, other))
    assert next(noise) <= next(noise) * (1 + 1e-9)


def test_the_optimum_has_at_most_four_fifths_of_the_noise_of_pfl():
    assert ratio(optimal(100, 16)) <= 0.80 * OF_PFL


def test_seven_hundred_rounds_have_a_factorization():
    """A search over all banded matrices overflowed there."""
    found = best_factorization(700, 16)
    assert found.bands == 16
    assert ratio(found, 16) < 0.29


def test_beside_sampling_correlated_noise_pays_from_a_separation_of_five_on():
    one = noise_multiplier_for(8.0, delta=1e-5, rounds=1)
    sampled = 0.9950 * independent(30).error()  # rate 0.2, by loss distributions
    found = {}
    for wait in (5, 4, 3, 2):
        matrices = [square_root(30, bands) for bands in range(1, wait + 1)]
        found[wait] = min(one * matrix.sensitivity(wait) * matrix.error() / sampled for matrix in matrices)
    assert found == pytest.approx({5: 0.865, 4: 1.046, 3: 1.283, 2: 1.797}, abs=6e-4)


@pytest.mark.long
def test_with_slack_correlated_noise_pays_too():
    first, second, *_ = options(8.0, 1e-5, rounds=30, units=1000, taken=20, separation=16)
    assert first.name == "correlated noise, 16 bands"
    assert second.name == "sampling"
    assert first.error / second.error == pytest.approx(0.864, abs=2e-3)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_the_sensitivity_is_the_worst_over_all_participations_and_vectors(rounds, bands, seed):
    rng = np.random.default_rng(seed)
    bands = min(bands, rounds)
    rows = rng.normal(size=(rounds, bands)) * (np.arange(rounds)[:, None] >= np.arange(bands))
    rows[:, 0] = np.abs(rows[:, 0]) + 0.1
    matrix, wait = Banded(rows), int(bands + rng.integers(3))
    full, worst = matrix.matrix(), 0.0
    for size in range(1, rounds + 1):
        for chosen in itertools.combinations(range(rounds), size):
            if all(b - a >= wait for a, b in itertools.pairwise(chosen)):
                sent = rng.normal(size=(size, 3))
                sent /= np.linalg.norm(sent, axis=1, keepdims=True)
                moved = np.linalg.norm(full[:, list(chosen)] @ sent)
                assert moved <= matrix.sensitivity(wait) * (1 + 1e-12)
                worst = max(worst, moved)
    assert worst == pytest.approx(matrix.sensitivity(wait)), "some pattern reaches it"


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_the_error_is_that_of_the_prefix_sums(rounds, bands, seed):
    rng = np.random.default_rng(seed)
    bands = min(bands, rounds)
    rows = rng.normal(size=(rounds, bands)) * (np.arange(rounds)[:, None] >= np.arange(bands))
    rows[:, 0] = np.abs(rows[:, 0]) + 0.5
    for matrix in (Banded(rows), square_root(rounds, bands)):
        prefixes = np.tril(np.ones((rounds, rounds))) @ np.linalg.inv(matrix.matrix())
        assert matrix.error() == pytest.approx(math.sqrt((prefixes**2).sum() / rounds))


@pytest.mark.parametrize("wait", [1, 3])
def test_participations_closer_than_the_bands_are_refused(wait):
    with pytest.raises(ValueError, match="separation"):
        square_root(30, 4).sensitivity(wait)


@pytest.mark.parametrize(
    "rows", [np.zeros((3, 1)), np.full((3, 2), np.nan), -np.ones((2, 1)), np.ones((0, 1)), np.ones(3)]
)
def test_what_is_no_factorization_is_refused(rows):
    with pytest.raises(ValueError, match="rows"):
        Banded(rows)


def test_bands_beyond_the_rounds_are_refused():
    for bands in (0, 5):
        with pytest.raises(ValueError, match="bands"):
            square_root(4, bands)


def test_the_separation_follows_from_nodes_and_availability():
    assert most_separation(100, 20) == 5
    assert most_separation(100, 20, 0.79) == 3
    assert most_separation(20, 20) == 1
    for nodes, cohort, availability in ((10, 11, 1.0), (10, 0, 1.0), (10, 1, 0.0), (10, 1, 1.1)):
        with pytest.raises(ValueError, match="clients"):
            most_separation(nodes, cohort, availability)


def test_where_everybody_takes_part_all_ways_cost_the_same():
    found = options(8.0, 1e-5, rounds=30, units=20, taken=20)
    assert len({round(option.error, 6) for option in found if "Renyi" not in option.name}) == 1
