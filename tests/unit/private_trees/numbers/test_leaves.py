from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.privacy import PrivacyAccountant, seeded_noise
from fedlearn.private_trees.numbers.histograms import UNIT, arrange, pairs_of
from fedlearn.private_trees.numbers.leaves import (
    HatCounts,
    NoisySums,
    combined,
    hat_counts,
    median_of_shares,
    plain_means,
    shrunk,
    smoothed_means,
    smoothed_shares,
)
from fedlearn.private_trees.numbers.tree_plan import greedy_levels_for, plan_for


def sums_of(means, count, variance=0.0) -> NoisySums:
    ones = np.asarray(means, float) * count
    return NoisySums(np.stack([count - ones, ones], axis=1), variance)


def test_exact_sums_without_smoothing_are_the_means():
    published = [NoisySums.none(1), sums_of([0.2, 0.6], 5)]
    root, leaves = plain_means(published)
    np.testing.assert_allclose(leaves, [0.2, 0.6])
    np.testing.assert_allclose(root, [0.4])


def test_an_empty_child_has_its_parents_value():
    published = [NoisySums.none(1), NoisySums(np.array([[0.0, 0.0], [30.0, 70.0]]), 0.0)]
    root, leaves = smoothed_means(published, [10.0, 0.3], 0.02)
    assert leaves[0] == root[0]


def test_noise_that_drowns_a_leaf_leaves_it_with_its_parent():
    quiet = shrunk(sums_of([1.0], 5, variance=1e8), np.array([0.3]), 0.2, 0.02)
    np.testing.assert_allclose(quiet, 0.3, atol=1e-3)


def test_many_exact_records_outweigh_the_parent():
    np.testing.assert_allclose(shrunk(sums_of([0.9], 10**6), np.array([0.1]), 0.2, 0.02), 0.9, atol=1e-4)


def test_two_estimates_are_averaged_by_inverse_variance():
    own, below = sums_of([0.5], 10, variance=2.0), sums_of([0.5, 0.5], 4, variance=1.0)
    both = combined(own, below)  # the children's sum has variance 2, too
    np.testing.assert_allclose(both.sums.sum(), 9.0)
    assert both.variance == 1.0


def test_what_was_not_published_counts_for_nothing():
    both = combined(NoisySums.none(1), sums_of([0.5, 0.5], 4, variance=1.0))
    np.testing.assert_allclose(both.sums.sum(), 8.0)
    assert both.variance == 2.0


@given(seed=st.integers(0, 2**32), knots=st.integers(2, 20))
def test_one_record_adds_its_weight_to_a_histogram_and_its_mean_is_kept(seed, knots):
    y = np.random.default_rng(seed).random(1)
    rows = arrange(np.zeros((1, 1), np.uint8), pairs_of(y), np.zeros(1, int), 1)
    hats = hat_counts(rows, knots, math.inf, seeded_noise(0))
    assert (hats.counts >= 0).all()
    assert hats.counts.sum() == 1.0  # L1 norm 1: the sensitivity that the noise is for
    np.testing.assert_allclose(hats.sums().sums[0], [1 - y[0], y[0]], atol=2 * knots / UNIT)


@given(seed=st.integers(0, 2**32))
def test_the_median_of_many_exact_records_is_near_the_median(seed):
    y = np.random.default_rng(seed).beta(2, 5, 4000)
    rows = arrange(np.zeros((4000, 1), np.uint8), pairs_of(y), np.zeros(4000, int), 1)
    hats = hat_counts(rows, 21, math.inf, seeded_noise(0))
    for smoothing in (True, False):
        (shares,) = smoothed_shares(hats, 0, 1.0, smoothing=smoothing)
        assert abs(median_of_shares(shares)[0] - np.median(y)) < 0.01


def test_an_empty_leafs_distribution_is_its_parents():
    counts = np.zeros((2, 5))
    counts[1, 1] = 1000
    root, leaves = smoothed_shares(HatCounts(counts, 0.0), 1)
    np.testing.assert_allclose(leaves[0], root[0])
    np.testing.assert_allclose(leaves.sum(axis=1), 1.0)


@given(
    epsilon=st.floats(1e-3, 1e3),
    levels=st.integers(0, 12),
    criterion=st.sampled_from(["vote", "squared", "absolute"]),
    leaf_share=st.floats(0.05, 0.95),
)
def test_a_path_spends_exactly_epsilon(epsilon, levels, criterion, leaf_share):
    plan = plan_for(epsilon, greedy_levels=levels, random_levels=1, criterion=criterion, leaf_share=leaf_share)
    accountant = PrivacyAccountant(epsilon)
    plan.spend_from(accountant, is_secure=True)
    assert math.isclose(accountant.spent.epsilon, epsilon, rel_tol=1e-15)
    assert [line.level for line in accountant.spent.lines] == sorted(line.level for line in accountant.spent.lines)
    assert all(line.epsilon > 0 for line in accountant.spent.lines)


def test_deeper_levels_get_harmonic_shares():
    plan = plan_for(1.0, greedy_levels=3, random_levels=0, criterion="squared", leaf_share=0.5)
    first, second, third = plan.choice_epsilons
    assert math.isclose(second / first, 3 / 2)
    assert math.isclose(third / first, 3)
    assert math.isclose(plan.leaf_epsilon, 0.5)


def test_only_the_vote_pays_for_a_center():
    assert set(plan_for(1.0, greedy_levels=3, random_levels=0, criterion="squared").center_epsilons) == {0.0}
    assert min(plan_for(1.0, greedy_levels=3, random_levels=0).center_epsilons) > 0


@given(n=st.floats(1, 1e9), epsilon=st.floats(1e-3, 1e3))
def test_the_depth_grows_with_epsilon_and_n_and_a_node_is_never_below_the_smallest(n, epsilon):
    levels = greedy_levels_for(epsilon, n, offset=6.2, smallest=2)
    assert levels >= 1
    assert levels <= greedy_levels_for(2 * epsilon, n, offset=6.2, smallest=2)
    assert levels <= greedy_levels_for(epsilon, 2 * n, offset=6.2, smallest=2)
    assert levels == 1 or n / 2**levels >= 2 - 1e-9
