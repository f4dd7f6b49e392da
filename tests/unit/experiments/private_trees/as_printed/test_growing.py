"""The printed algorithm: equal to its slow oracle, and not as private as it says."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.private_trees.as_printed import kernels
from experiments.private_trees.as_printed.growing import (
    PrintedSettings,
    disjoint_parts,
    grow_printed_forest,
    grow_printed_tree,
    split_utilities,
)
from experiments.private_trees.as_printed.true_loss import true_privacy_loss
from fedlearn.privacy.noise import seeded_noise
from fedlearn.private_trees.binning import Grid
from fedlearn.private_trees.domain import Domain, NotPrivateWarning
from fedlearn.private_trees.node_table import level_of_nodes
from fedlearn.private_trees.predicting import predict
from tests.oracles import printed_trees as oracle

OFF = math.inf
LOW, HIGH = -2.0, 6.0  # of the features; the target's are 10 and 14: powers of two, so scaling is exact
CANDIDATES = 7


def domain(features: int = 3) -> Domain:
    return Domain.declare(num_features=features, bounds=(LOW, HIGH), target_bounds=(10, 14))


def rows_of(seed: int, count: int, features: int = 3):
    """Features and targets of [0, 1], on coarse grids, so that sums are exact and values repeat."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 129, (count, features)) / 128
    y = np.clip(np.round(64 * (X[:, 0] * 0.5 + 0.25 + rng.normal(0, 0.2, count))), 0, 64) / 64
    return X, y


def raw(X, y):
    return LOW + (HIGH - LOW) * X, 10 + 4 * y


def grown(X, y, settings, noise, parts=None, trees=1):
    parts = np.zeros(len(y), np.int64) if parts is None else parts
    raw_X, raw_y = raw(X, y)
    where = domain(X.shape[1])
    return grow_printed_forest(raw_X, raw_y, parts=parts, trees=trees, domain=where, settings=settings, noise=noise)


@pytest.mark.parametrize("leaf", ["mean", "median"])
@pytest.mark.parametrize("reading", ["fitted", "literal"])
@pytest.mark.parametrize("epsilon", [OFF, 200.0, 5.0])
@pytest.mark.parametrize("count", [0, 1, 5, 60, 150])
def test_tree_equals_the_slow_oracle(leaf, reading, epsilon, count):
    X, y = rows_of(count, count)
    settings = PrintedSettings(
        epsilon=epsilon, depth=4, min_split=6, min_leaf=2, candidates=CANDIDATES, leaf=leaf, reading=reading
    )
    table = grown(X, y, settings, seeded_noise(3))
    slow = oracle.grow(X, y, range(count), settings, seeded_noise(3))
    probes = np.vstack([X, rows_of(99, 50)[0]])
    expected = [10 + 4 * slow.predict(x) for x in probes]
    np.testing.assert_allclose(predict(table, raw(probes, 0)[0])[:, 0], expected, rtol=0, atol=1e-9)


@given(st.integers(0, 10**6), st.integers(0, 40), st.sampled_from(["mean", "median"]))
def test_errors_of_splits_equal_their_definition(seed, count, leaf):
    X, y = rows_of(seed, count, features=2)
    settings = PrintedSettings(epsilon=1, candidates=CANDIDATES, leaf=leaf)
    order = np.argsort(y, kind="stable")
    fast = split_utilities(codes(X), y, order, np.array([0]), np.array([count]), settings)[0]
    np.testing.assert_allclose(fast, oracle.utilities(range(count), X, y, settings), rtol=0, atol=1e-9)


def codes(X):
    unit = Domain.declare(num_features=X.shape[1], bounds=(0, 1))
    return Grid.of(unit, candidates=CANDIDATES).codes(X)


@given(st.lists(st.integers(0, 16), max_size=9), st.floats(0.1, 50))
def test_gaps_of_the_private_median_are_drawn_with_the_printed_weights(targets, strength):
    y = np.sort(np.array(targets, float)) / 16
    draws = (np.arange(4000) + 0.5) / 4000
    start, stop = np.zeros(4000, np.int64), np.full(4000, len(y))
    values = kernels.noisy_medians(y, np.arange(len(y)), start, stop, strength, draws, np.full(4000, 0.5))
    weights, edges = oracle.median_weights(list(y), strength)
    for k, weight in enumerate(weights):
        middle = (edges[k] + edges[k + 1]) / 2
        share = np.mean(np.abs(values - middle) < 1e-12) if edges[k + 1] > edges[k] else 0.0
        assert abs(share - weight / sum(weights)) < 1e-3


@pytest.mark.parametrize("leaf", ["mean", "median"])
def test_forest_is_the_mean_of_trees_on_disjoint_parts(leaf):
    X, y = rows_of(1, 200)
    parts = disjoint_parts(200, 4, np.random.default_rng(0))
    settings = PrintedSettings(epsilon=OFF, depth=3, min_split=6, min_leaf=2, candidates=CANDIDATES, leaf=leaf)
    forest = grown(X, y, settings, seeded_noise(0), parts, trees=4)
    trees = [grown(X[parts == part], y[parts == part], settings, seeded_noise(0)) for part in range(4)]
    expected = np.mean([predict(tree, raw(X, y)[0]) for tree in trees], axis=0)
    np.testing.assert_allclose(predict(forest, raw(X, y)[0]), expected, rtol=0, atol=1e-12)


def test_parts_are_nearly_equal_and_cover_every_row():
    sizes = np.bincount(disjoint_parts(103, 25, np.random.default_rng(0)))
    assert sizes.sum() == 103
    assert set(sizes) == {4, 5}


def test_part_without_rows_gives_a_leaf_in_the_middle():
    X, y = rows_of(1, 10)
    settings = PrintedSettings(epsilon=OFF, candidates=CANDIDATES)
    table = grown(X, y, settings, seeded_noise(0), np.zeros(10, np.int64), trees=2)
    assert table.value[table.root[1], 0] == 12


@given(st.integers(0, 10**6), st.floats(0.1, 100), st.sampled_from(["mean", "median"]), st.integers(0, 6))
def test_table_is_a_valid_ensemble_within_depth_and_bounds(seed, epsilon, leaf, depth):
    X, y = rows_of(seed, 80)
    settings = PrintedSettings(epsilon=epsilon, depth=depth, candidates=CANDIDATES, leaf=leaf, min_split=3, min_leaf=1)
    parts = disjoint_parts(80, 3, np.random.default_rng(seed))
    table = grown(X, y, settings, seeded_noise(seed), parts, trees=3)
    table.validate(num_features=3, value_bounds=(10, 14), max_depth=depth)
    assert level_of_nodes(table).max() <= depth


def test_literal_leaves_are_not_clipped():
    X, y = rows_of(0, 30)
    settings = PrintedSettings(epsilon=0.01, depth=0, reading="literal")
    values = [grown(X, y, settings, seeded_noise(seed)).value[0, 0] for seed in range(20)]
    assert min(values) < 10
    assert max(values) > 14


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"depth": -1}, "depth"),
        ({"min_split": 0}, "min_split"),
        ({"min_leaf": 0}, "min_leaf"),
        ({"candidates": 0}, "candidates"),
        ({"leaf": "mode"}, "leaf"),
        ({"reading": "free"}, "reading"),
        ({"choice_rate": 0.0}, "choice_rate"),
    ],
)
def test_setting_that_is_not_allowed_is_named(change, name):
    X, y = rows_of(0, 30)
    allowed = {"epsilon": 1.0, "depth": 2}
    with pytest.raises(ValueError, match=name):
        grow_printed_tree(X, y, domain=domain(), noise=seeded_noise(0), **{**allowed, **change})


def test_missing_values_categories_and_wrong_shapes_are_refused():
    X, y = rows_of(0, 30)
    call = {"epsilon": 1.0, "depth": 2, "noise": seeded_noise(0)}
    with pytest.raises(ValueError, match="missing"):
        grow_printed_tree(np.full_like(X, np.nan), y, domain=domain(), **call)
    with pytest.raises(ValueError, match="shape"):
        grow_printed_tree(X, y[1:], domain=domain(), **call)
    mixed = Domain.declare(num_features=3, bounds={0: (0, 1), 1: (0, 1)}, categories={2: 4})
    with pytest.raises(ValueError, match="categories"):
        grow_printed_tree(X, y, domain=mixed, **call)


# --- what the printed accounting misses -------------------------------------------------------------------------------


class CountingNoise:
    """Seeded noise that counts how often it is asked: along one path, each call is one query."""

    is_secure = False
    notice = "counts queries"

    def __init__(self):
        self.queries = 0
        self._noise = seeded_noise(0)

    def laplace(self, scale, shape):
        self.queries += 1
        return self._noise.laplace(scale, shape)

    def gumbel_max(self, utilities, scale):
        self.queries += 1
        return self._noise.gumbel_max(utilities, scale)


@pytest.mark.parametrize(("reading", "queries"), [("fitted", 2 * 5 + 2), ("literal", 3 * 5 + 2)])
def test_path_asks_more_queries_than_the_paper_books(reading, queries):
    X = np.random.default_rng(0).random((4000, 3))
    settings = PrintedSettings(epsilon=10_000, depth=5, min_split=1, min_leaf=1, reading=reading)
    noise = CountingNoise()
    assert grown(X, X[:, 0], settings, noise).depth == 5
    loss = true_privacy_loss(settings)
    assert noise.queries == loss.queries == queries
    assert loss.booked > settings.epsilon


def test_leaf_of_one_row_loses_ten_times_what_was_booked():
    """20,000 independent one-row trees of depth 0: their leaf is above the upper bound with y = 1 far more often."""
    settings = PrintedSettings(epsilon=0.3, depth=0)
    trees = 20_000
    X = np.zeros((trees, 1))
    above = []
    for target in (0.0, 1.0):
        table = grown(X, np.full(trees, target), settings, seeded_noise(0), np.arange(trees), trees)
        above.append(np.mean(table.value[:, 0] >= 14))
    deviation = 5 * math.sqrt(above[0] / trees)  # five standard errors of the rarer event
    measured = math.log((above[1] - deviation) / (above[0] + deviation))  # of replacing the record
    assert measured > 2 * 4 * settings.epsilon  # replacing costs an epsilon-DP tree 2 epsilon at most
    assert measured <= 2 * true_privacy_loss(settings).epsilon


def choice_log_probabilities(X, y, settings):
    """Exact log-probabilities of line 2."""
    order = np.argsort(y, kind="stable")
    utilities = split_utilities(codes(X), y, order, np.array([0]), np.array([len(y)]), settings)[0]
    exponents = utilities * settings.utility_rate * settings.beta
    return exponents - np.logaddexp.reduce(exponents)


def largest_loss(X, y, settings):
    """Exact loss of the choice when the last record is taken away."""
    with_it, without = (choice_log_probabilities(X[:n], y[:n], settings) for n in (len(y), len(y) - 1))
    return float(np.abs(with_it - without).max())


def test_choice_below_n_split_loses_more_than_booked():
    X, y = np.array([[0.49], [0.51]]), np.array([0.0, 1.0])  # only one of the seven thresholds parts the two rows
    settings = PrintedSettings(epsilon=0.11, depth=5, candidates=CANDIDATES, reading="literal")
    assert largest_loss(X, y, settings) > 2 * settings.beta
    absolute = replace(settings, leaf="median")
    assert largest_loss(X, y, absolute) > 4 * settings.beta


def test_fitted_choice_loses_more_than_booked_whatever_the_size():
    X = np.array([[0.49]] * 50 + [[0.51]])
    settings = PrintedSettings(epsilon=0.11, depth=5, candidates=CANDIDATES, choice_rate=2)
    assert largest_loss(X, np.array([0.0] * 50 + [1.0]), settings) > 1.6 * settings.beta


def test_bounds_of_the_data_publish_the_largest_record():
    X, y = rows_of(0, 100)
    X[0] = 3.0  # the one large record
    tables = []
    for kept in (slice(0, None), slice(1, None)):
        with pytest.warns(NotPrivateWarning):
            learned = Domain.from_data(X[kept], y[kept])
        tables.append(
            grow_printed_tree(X[kept], y[kept], domain=learned, epsilon=100.0, depth=3, noise=seeded_noise(0)).threshold
        )
    with_it, without = (set(np.round(thresholds[~np.isnan(thresholds)], 9)) for thresholds in tables)
    assert with_it
    assert without
    assert not with_it & without
    assert true_privacy_loss(PrintedSettings(epsilon=1), bounds_declared=False).epsilon == math.inf


@given(
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.sampled_from(["mean", "median"]),
    st.sampled_from(["fitted", "literal"]),
)
def test_no_choice_loses_more_than_its_bound(seed, count, leaf, reading):
    rng = np.random.default_rng(seed)
    X, y = rng.random((count, 1)), rng.integers(0, 2, count).astype(float)
    settings = PrintedSettings(epsilon=1.1, depth=5, candidates=CANDIDATES, leaf=leaf, reading=reading)
    rest = replace(settings, depth=0, epsilon=settings.beta)  # sizes and leaf alone, at the same beta
    sizes = (6 if reading == "fitted" else 11) - 1
    bound = (true_privacy_loss(settings).epsilon - true_privacy_loss(rest).epsilon - sizes * settings.beta) / 5
    assert largest_loss(X, y, settings) <= bound + 1e-12


@given(st.lists(st.integers(0, 32), min_size=1, max_size=7), st.floats(0.05, 5))
def test_no_median_leaf_loses_more_than_half_n_leaf_beta(targets, beta):
    y = [target / 32 for target in targets]
    places = (np.arange(32) + 0.5) / 32  # one place between any two neighbors of the targets' grid
    log_densities = []
    for rows in (y, y[:-1]):
        weights, edges = oracle.median_weights(rows, 10 * beta / 2)
        widths = np.diff(edges)
        gaps = np.clip(np.searchsorted(edges, places) - 1, 0, len(weights) - 1)
        log_densities.append(np.log(np.array(weights)[gaps] / widths[gaps] / sum(weights)))
    assert np.abs(log_densities[0] - log_densities[1]).max() <= 10 * beta / 2 + 1e-9


@pytest.mark.parametrize(
    ("settings", "factor"),
    [
        (PrintedSettings(epsilon=1, depth=15, choice_rate=0.5), 28.5 / 31),
        (PrintedSettings(epsilon=1, depth=15), 51 / 31),
        (PrintedSettings(epsilon=1, depth=5), 21 / 11),
        (PrintedSettings(epsilon=1, depth=5, reading="literal"), (11 + 5 * 10 * 11 / 36 + 5) / 11),
        (PrintedSettings(epsilon=1, depth=5, reading="literal", leaf="median"), (11 + 5 * 10 / 2 + 5) / 11),
    ],
)
def test_true_loss_adds_up_query_by_query(settings, factor):
    loss = true_privacy_loss(settings)
    assert loss.epsilon == pytest.approx(factor)
    assert ("is not 1-DP" in str(loss)) == (factor > 1)
