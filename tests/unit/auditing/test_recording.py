"""Recorded calls: exact log-ratios, and differences of neighbors that no answer explains."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.auditing.recording import (
    RATIOS,
    Call,
    NotAlike,
    Recorder,
    Replayer,
    log_exponential,
    log_permute_and_flip,
)
from fedlearn.privacy import disjoint_parts, exponential, geometric, laplace, permute_and_flip, secure_noise
from fedlearn.privacy.mechanisms import __all__ as MECHANISMS
from fedlearn.privacy.mechanisms.interception import interceptable, intercepted_by

NOISE = secure_noise()
UTILITIES = st.lists(st.sampled_from([-math.inf, 0.0, 0.5, 3.0, 40.0]), min_size=1, max_size=5).filter(
    lambda row: max(row) > -math.inf
)


def walked(utilities, scale):
    """Return the probability of each candidate: the mechanism's own walk, over all orders and all coins."""
    top = max(utilities)
    heads = [math.exp((u - top) / scale) for u in utilities]
    chance = [0.0] * len(utilities)
    for order in itertools.permutations(range(len(utilities))):
        nobody = 1 / math.factorial(len(utilities))
        for candidate in order:
            chance[candidate] += nobody * heads[candidate]
            nobody *= 1 - heads[candidate]
    return chance


@given(UTILITIES, st.sampled_from([0.1, 1.0, 7.0]))
def test_permute_and_flips_closed_form_is_its_walk(utilities, scale):
    for candidate, chance in enumerate(walked(utilities, scale)):
        found = log_permute_and_flip(np.array([utilities]), np.array([scale]), np.array([candidate]))
        assert math.exp(found[0]) == pytest.approx(chance, rel=1e-9, abs=1e-300)


def test_permute_and_flip_of_many_candidates_sums_to_one():
    utilities = np.random.default_rng(0).normal(size=(1, 200)) * 3
    every = np.arange(200)
    logs = log_permute_and_flip(np.repeat(utilities, 200, axis=0), np.ones(200), every)
    assert np.exp(logs).sum() == pytest.approx(1, rel=1e-9)


@given(UTILITIES)
def test_the_exponential_mechanisms_closed_form_sums_to_one_in_its_proportions(utilities):
    every = np.arange(len(utilities))
    logs = log_exponential(np.repeat([utilities], len(every), axis=0), np.full(len(every), 2.0), every)
    assert np.exp(logs).sum() == pytest.approx(1)
    np.testing.assert_allclose(logs - logs.max(), (np.array(utilities) - max(utilities)) / 2)


def ratio_of(mechanism, first, second, answer, stretch=1.0, **parameters):
    calls = [Call(mechanism, "test", np.asarray(v, float), parameters, np.asarray(answer)) for v in (first, second)]
    return RATIOS[mechanism](*calls, stretch)


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=2), st.lists(st.integers(-3, 3), min_size=2, max_size=2))
def test_added_noise_counts_with_the_likeliest_ratio_of_all_answers(first, second):
    def log_density(answer, values):
        return -0.5 / 2 * sum(abs(a - v) for a, v in zip(answer, values, strict=True))

    answers = itertools.product(range(-9, 10), repeat=2)
    largest = max(abs(log_density(answer, first) - log_density(answer, second)) for answer in answers)
    found = ratio_of("geometric", first, second, [0, 0], sensitivity=2, epsilon=0.5)
    assert found >= largest - 1e-12
    one_sided = all(a <= b for a, b in zip(first, second, strict=True))
    assert found == pytest.approx(largest) or not one_sided


def test_rows_with_an_epsilon_of_their_own_pay_it():
    epsilon = np.array([0.5, 2.0])
    assert ratio_of("laplace", [[0, 0], [0, 0]], [[1, 1], [0, 1]], 0, sensitivity=1.0, epsilon=epsilon) == 3.0


def test_a_slip_is_a_larger_epsilon():
    given_ = {"sensitivity": 1.0, "epsilon": 0.4, "monotone": True}
    slipped = ratio_of("permute_and_flip", [[0.0, 3.0]], [[1.0, 3.0]], [0], 1.05, **given_)
    larger = ratio_of("permute_and_flip", [[0.0, 3.0]], [[1.0, 3.0]], [0], **given_ | {"epsilon": 0.42})
    assert slipped == pytest.approx(larger, rel=1e-12)


def replayed(first, second, *, at_front=False, seed=0):
    """Record one function, then replay the other with the recorded answers; return the calls of both."""
    rng = np.random.default_rng(seed)
    recorder = Recorder(rng)
    with intercepted_by(recorder):
        answers = first()
    replayer = Replayer(recorder.calls, rng, at_front=at_front)
    with intercepted_by(replayer):
        again = second()
    return recorder, replayer, answers, again


@pytest.mark.parametrize(
    "ask",
    [
        lambda value: geometric([value, 2], epsilon=1.0, noise=NOISE),
        lambda value: laplace([value, 2.5], sensitivity=1.0, epsilon=1.0, noise=NOISE),
        lambda value: exponential([[value, 2.0, -np.inf]], sensitivity=1.0, epsilon=1.0, noise=NOISE),
        lambda value: permute_and_flip([[value, 2.0, -np.inf]], sensitivity=1.0, epsilon=1.0, noise=NOISE),
    ],
)
def test_a_neighbor_gets_the_answers_of_the_other_and_its_own_values_are_kept(ask):
    for seed in range(20):
        recorder, replayer, first, second = replayed(lambda: ask(3), lambda: ask(4), seed=seed)
        np.testing.assert_array_equal(first, second)
        assert recorder.calls[0].values.flat[0] == 3
        assert replayer.calls[0].values.flat[0] == 4


@pytest.mark.parametrize(
    "other",
    [
        lambda: geometric([3, 2], epsilon=1.01, noise=NOISE),
        lambda: geometric([3, 2], epsilon=1.0, sensitivity=2, noise=NOISE),
        lambda: geometric([3, 2, 0], epsilon=1.0, noise=NOISE),
        lambda: laplace([3, 2], sensitivity=1, epsilon=1.0, noise=NOISE),
        lambda: [geometric([3, 2], epsilon=1.0, noise=NOISE) for _ in range(2)],
    ],
)
def test_another_question_tells_neighbors_apart(other):
    with pytest.raises(NotAlike):
        replayed(lambda: [geometric([3, 2], epsilon=1.0, noise=NOISE) for _ in range(1)], other)


def test_other_candidates_tell_neighbors_apart():
    def ask(row):
        return lambda: permute_and_flip([row], sensitivity=1.0, epsilon=1.0, noise=NOISE)

    with pytest.raises(NotAlike, match="form"):
        replayed(ask([0.0, -np.inf]), ask([0.0, 0.0]))


@pytest.mark.parametrize("at_front", [False, True])
@pytest.mark.parametrize(("rows", "others"), [(5, 4), (4, 5), (5, 5), (1, 0), (0, 1)])
def test_the_records_that_both_have_keep_their_parts(rows, others, at_front):
    def draw(number):
        return lambda: disjoint_parts(number, count=1000, rng=np.random.default_rng())

    _, _, first, second = replayed(draw(rows), draw(others), at_front=at_front)
    common = min(rows, others)
    kept = slice(-common or None, None) if at_front else slice(common)
    assert len(second) == others
    if common:
        np.testing.assert_array_equal(first[kept], second[kept])


def test_half_of_the_choices_are_even_so_that_unlikely_ones_are_seen():
    recorder = Recorder(np.random.default_rng(0))
    with intercepted_by(recorder):
        chosen = [
            permute_and_flip([[0.0, 1000.0, -np.inf]], sensitivity=1.0, epsilon=1.0, noise=NOISE)[0] for _ in range(60)
        ]
    assert 5 < chosen.count(0) < 30
    assert chosen.count(2) == 0


def test_the_exact_ratio_of_every_mechanism_is_known_or_it_makes_only_use_of_those():
    assert set(RATIOS) | {"noisy_quantile"} == set(MECHANISMS)


def test_a_mechanism_whose_ratio_is_not_known_is_refused():
    @interceptable
    def new(values, *, noise):
        return values

    with intercepted_by(Recorder(np.random.default_rng(0))), pytest.raises(ValueError, match="RATIOS"):
        new([1.0], noise=NOISE)


def test_nobody_listens_when_the_door_is_closed_again():
    recorder = Recorder(np.random.default_rng(0))
    with pytest.raises(RuntimeError), intercepted_by(recorder):
        raise RuntimeError
    geometric([1], epsilon=1.0, noise=NOISE)
    assert recorder.calls == []
