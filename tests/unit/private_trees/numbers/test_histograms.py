from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from fedlearn.private_trees.binning import Grid
from fedlearn.private_trees.domain import Domain
from fedlearn.private_trees.numbers.histograms import (
    SMALLEST_PIECE,
    UNIT,
    arrange,
    histogram,
    node_sums,
    pairs_of,
    route,
)
from fedlearn.private_trees.numbers.splitting import TARGET_STEPS, Cells, choose_at_random, utilities
from tests.oracles import regression_trees as oracle

BINS = 6


def random_rows(seed: int, *, rows: int = 60, features: int = 3, slots: int = 4, missing: float = 0.2):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, BINS, (rows, features)).astype(np.uint8)
    codes[rng.random(codes.shape) < missing] = oracle.MISSING
    return codes, rng.integers(0, TARGET_STEPS, rows) / (TARGET_STEPS - 1), rng.integers(0, slots, rows)


def grid_of(features: int = 3) -> Grid:
    return Grid.of(Domain.declare(num_features=features, bounds=(0, 1)), candidates=BINS - 1)


@given(seed=st.integers(0, 2**32), scale=st.sampled_from(["linear", "log"]), candidates=st.integers(1, 254))
def test_the_code_of_a_value_is_the_number_of_thresholds_below_it(seed, scale, candidates):
    grid = Grid.of(Domain.declare(num_features=1, bounds=(1, 9, scale)), candidates=candidates)
    x = np.random.default_rng(seed).uniform(0, 10, (20, 1))
    x = np.concatenate([x, grid.thresholds[:, :1], [[np.nan]]])
    np.testing.assert_array_equal(grid.codes(x), oracle.codes(x, grid.thresholds.tolist()))
    assert ((grid.thresholds > 1) & (grid.thresholds < 9)).all()


def test_categories_have_a_threshold_between_neighboring_codes():
    grid = Grid.of(Domain.declare(num_features=2, categories=[3, 1]))
    assert grid.thresholds[0, :2].tolist() == [0.5, 1.5]
    assert grid.count.tolist() == [2, 0]


@given(seed=st.integers(0, 2**32), missing=st.sampled_from([0.0, 0.3, 1.0]))
def test_histograms_equal_the_slow_oracle_bit_for_bit(seed, missing):
    codes, y, slot = random_rows(seed, missing=missing)
    rows = arrange(codes, pairs_of(y), slot, 4)
    expected = oracle.histogram(codes, pairs_of(y), slot, 4, BINS)
    np.testing.assert_array_equal(histogram(rows, rows.pairs, BINS), expected)
    np.testing.assert_array_equal(node_sums(rows), expected[:, 0].sum(axis=1))


@given(seed=st.integers(0, 2**32))
def test_children_share_the_weight_of_their_parents_rows(seed):
    codes, y, slot = random_rows(seed)
    rows = arrange(codes, pairs_of(y), slot, 4)
    feature, cut = np.array([0, 1, 2, 0], np.int32), np.array([0, 2, 4, 5])
    children = route(rows, feature, cut)
    for parent in range(4):
        here = slot == parent
        left, right = oracle.sides(codes[here], feature[parent], cut[parent])
        weights = node_sums(children)[2 * parent : 2 * parent + 2].sum(axis=1) / UNIT
        np.testing.assert_allclose(weights, [left.sum(), right.sum()], atol=1e-5)


@given(seed=st.integers(0, 2**32), levels=st.integers(1, 8))
def test_the_pieces_of_a_record_never_weigh_more_than_the_record(seed, levels):
    rng = np.random.default_rng(seed)
    codes = np.full((1, 2), oracle.MISSING, np.uint8)
    rows = arrange(codes, pairs_of(rng.random(1)), np.zeros(1, int), 1)
    for _ in range(levels):
        rows = route(rows, np.zeros(rows.slots, np.int32), np.zeros(rows.slots, np.int64))
    assert UNIT - 2 * 2**levels <= node_sums(rows).sum() <= UNIT  # each halving may lose a unit of each part
    assert rows.slots == 2**levels


def without_values(rows: int, *, levels: int, features: int = 2, seed: int = 0):
    """Return the rows of the last level, where no record has any value."""
    rng = np.random.default_rng(seed)
    codes = np.full((rows, features), oracle.MISSING, np.uint8)
    routed = arrange(codes, pairs_of(rng.random(rows)), np.zeros(rows, int), 1)
    for _ in range(levels):
        routed = route(routed, np.zeros(routed.slots, np.int32), np.zeros(routed.slots, np.int64))
    return routed


@pytest.mark.parametrize("levels", [4, 5, 12])
def test_a_record_is_in_few_pieces_however_deep_the_tree(levels):
    rows = without_values(50, levels=levels)
    assert len(rows.pairs) == 50 * UNIT // SMALLEST_PIECE
    assert rows.pairs.sum(axis=1).max() <= SMALLEST_PIECE


def test_small_pieces_go_to_either_side_as_often_and_as_independently_as_coins():
    """Chi-square over the last two of six levels, 8 degrees of freedom more than coins need; false alarm 1e-9."""
    rows = without_values(4000, levels=6)
    here = np.diff(rows.start).reshape(-1, 4)  # of each node of level 4, its four grandchildren
    expected = here.sum(axis=1, keepdims=True) / 4
    statistic = ((here - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(1e-9, here.size * 3 / 4)


@given(seed=st.integers(0, 2**32), extra=st.integers(0, 30))
def test_one_more_record_moves_no_piece_of_any_other(seed, extra):
    codes, y, _ = random_rows(seed, rows=31, missing=0.8)
    rng = np.random.default_rng(seed)
    kept = np.delete(np.arange(31), extra)
    both = [
        arrange(codes[some], pairs_of(y[some]), np.zeros(len(some), int), 1) for some in (np.arange(31), kept, [extra])
    ]
    for _ in range(8):
        slots = both[0].slots
        feature, cut = rng.integers(0, 3, slots).astype(np.int32), rng.integers(0, BINS, slots)
        both = [route(rows, feature, cut) for rows in both]
    more, fewer, alone = (node_sums(rows) for rows in both)
    np.testing.assert_array_equal(more, fewer + alone)
    assert alone.sum() <= UNIT


@pytest.mark.parametrize("criterion", ["vote", "squared", "absolute"])
@given(seed=st.integers(0, 2**32))
def test_utilities_equal_the_slow_oracle(criterion, seed):
    codes, y, _ = random_rows(seed, rows=25)
    rows = arrange(codes, pairs_of(y), np.zeros(25, int), 1)
    scores = utilities(rows, Cells.whole(grid_of(), 1), grid_of(), criterion=criterion, center=np.array([0.4]))
    y, w = rows.pairs[:, 1] / UNIT, np.ones(25)
    constant = (y**2).sum() if criterion == "squared" else 0.0
    options = {"center": 0.4} if criterion == "vote" else {}
    expected = [
        getattr(oracle, criterion)(y, w, *oracle.sides(codes, feature, cut), **options) + constant
        for feature in range(3)
        for cut in range(BINS - 1)
    ]
    np.testing.assert_allclose(scores[0], expected, atol=1e-4)


@pytest.mark.parametrize("criterion", ["vote", "squared", "absolute"])
@given(seed=st.integers(0, 2**32), y=st.floats(0, 1), rows=st.integers(0, 12))
def test_one_record_moves_all_utilities_one_way_by_at_most_its_weight(criterion, seed, y, rows):
    codes, targets, _ = random_rows(seed, rows=rows + 1)
    targets[-1] = y
    scores = []
    for count in (rows, rows + 1):
        kept = arrange(codes[:count], pairs_of(targets[:count]), np.zeros(count, int), 1)
        score = utilities(kept, Cells.whole(grid_of(), 1), grid_of(), criterion=criterion, center=np.array([0.5]))
        if criterion == "squared":  # the sum of squares, left out because all candidates have it
            score = score - ((kept.pairs[:, 1] / UNIT) ** 2).sum()
        scores.append(score)
    moved = (scores[1] - scores[0]) * (1 if criterion == "vote" else -1)
    assert moved.min() >= -1e-5
    assert moved.max() <= 1 + 1e-5


@given(seed=st.integers(0, 2**32))
def test_random_splits_lie_inside_their_cell_and_leave_the_children_the_rest(seed):
    rng = np.random.default_rng(seed)
    cells = Cells.whole(grid_of(4), 2)
    for _ in range(4):  # three splits exhaust three features of four at most
        feature, cut = choose_at_random(cells, rng)
        slot = np.arange(len(feature))
        assert (cells.low[slot, feature] <= cut).all()
        assert (cut < cells.high[slot, feature]).all()
        cells = cells.split(feature, cut)
        assert (cells.low <= cells.high).all()


def test_an_exhausted_cell_offers_no_candidate():
    grid = grid_of(1)
    cells = Cells(np.array([[2]], np.uint8), np.array([[2]], np.uint8))
    rows = arrange(np.full((3, 1), 2, np.uint8), pairs_of(np.ones(3)), np.zeros(3, int), 1)
    scores = utilities(rows, cells, grid, criterion="squared", center=np.array([0.5]))
    assert np.isneginf(scores).all()
    feature, cut = choose_at_random(cells, np.random.default_rng(0))
    assert feature.tolist() == [0]
    assert cut.tolist() == [2]
    assert math.isclose(node_sums(route(rows, feature, cut))[0].sum() / UNIT, 3)
