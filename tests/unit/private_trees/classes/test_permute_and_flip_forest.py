from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import check_estimator

from fedlearn.privacy import seeded_noise
from fedlearn.private_trees.classes.class_counting import ONE, CodedRecords, count_leaves
from fedlearn.private_trees.classes.growing import SelectionRule, grow_by_selection
from fedlearn.private_trees.classes.permute_and_flip_forest import PermuteAndFlipForest
from fedlearn.private_trees.classes.shares import harmonic_shares
from fedlearn.private_trees.node_table import LEAF
from tests.oracles.private_estimators import WEIGHTS
from tests.unit.private_trees.classes.private_classifiers import examples, made


def grown(penalty, *, depth=3, epsilon=2.0, trees=2, seed=0):
    """Return a grown forest with the budget of its leaves."""
    rng = np.random.default_rng(seed)
    sizes = np.array([2, 3, 2])
    codes = np.stack([rng.integers(0, size, 300) for size in sizes], axis=1).astype(np.uint8)
    codes[rng.random(codes.shape) < 0.2] = 255
    labels = ((codes[:, 0] == 1) & (codes[:, 1] != 2)).astype(np.int64)
    records = CodedRecords(codes, labels, np.full(300, ONE), np.full(300, -1), sizes, 2)
    growth, left, counts = grow_by_selection(
        records,
        np.ones((trees, 3), bool),
        epsilon=epsilon,
        shares=harmonic_shares(depth),
        rule=SelectionRule(penalty=penalty),
        noise=seeded_noise(seed),
    )
    np.testing.assert_array_equal(counts, count_leaves(growth, records)[1])
    return growth, left


@given(penalty=st.sampled_from([0.0, 1.0, 20.0, 500.0]), depth=st.integers(0, 4), seed=st.integers(0, 9))
def test_the_budget_of_every_grown_path_sums_to_epsilon(penalty, depth, seed):
    growth, left = grown(penalty, depth=depth, seed=seed)
    feature, first_child = growth.nodes()
    shares = harmonic_shares(depth)
    level_of = np.searchsorted(growth.level_starts(), np.arange(len(feature)), side="right") - 1
    leaves = np.flatnonzero(feature == LEAF)
    assert len(left) == len(leaves)
    for leaf, remaining in zip(leaves, left, strict=True):
        level = level_of[leaf]
        # A node that could choose and stayed has paid for that; one without features, or on the last level, has not.
        chose = level < min(depth, 3)
        assert remaining + 2.0 * shares[: level + chose].sum() == pytest.approx(2.0)
        assert remaining > 0
    assert (first_child[leaves] == LEAF).all()


def test_a_high_penalty_keeps_the_root_a_leaf_and_none_splits_to_the_end():
    high, left = grown(500.0)
    assert high.nodes()[0].tolist() == [LEAF, LEAF]
    assert left == pytest.approx(2.0 * (1 - harmonic_shares(3)[0]))
    _, left = grown(0.0)
    assert left == pytest.approx(2.0 * harmonic_shares(3)[3])
    assert len(left) == 2 * 12  # two trees of 2 * 3 * 2 leaves


def test_a_node_without_features_left_pays_nothing_more():
    growth, left = grown(0.0, depth=5)  # three features, so the paths end at level 3
    assert growth.level_starts()[-1] == len(growth.nodes()[0])
    assert left == pytest.approx(2.0 * harmonic_shares(5)[3:].sum())


@given(features=st.integers(1, 3), trees=st.integers(1, 4))
def test_a_tree_uses_no_more_features_than_it_may(features, trees):
    X, y = examples(80)
    model = made("edprf same", 5.0, max_features=features, n_estimators=trees, penalty=0.0, max_depth=3).fit(X, y)
    assert model.table_.num_trees == trees
    assert model.table_.depth == features
    assert len(model.privacy_spent_.lines) == features + 1


def test_lines_of_the_account_are_harmonic_and_say_how_trees_compose():
    X, y = examples()
    for sampling, word in (("disjoint", "largest of 3 trees"), ("same", "sum over 3 trees")):
        spent = made(f"edprf {sampling}", 1.1, max_depth=2, n_estimators=3).fit(X, y).privacy_spent_
        assert [line.epsilon for line in spent.lines] == pytest.approx([0.2, 0.3, 0.6])
        assert all(word in line.what for line in spent.lines)


def test_trees_on_the_same_data_get_their_part_of_the_budget():
    # A lone record and many trees: with its whole budget in each tree the label would be right nearly always.
    X, y = np.zeros((1, 3)), np.array(["yes"])
    settings = {"max_depth": 0, "n_estimators": 400, "leaf": "label"}
    shares = made("edprf same", 4.0, **settings).fit(X, y).table_.value[:, 1].mean()
    # Permute-and-flip with a lead of 1 and epsilon .01: wrong with probability exp(-.01) / 2.
    assert shares == pytest.approx(1 - math.exp(-0.01) / 2, abs=6 * 0.5 / math.sqrt(400))
    settings["n_estimators"] = 1
    lone = [made("edprf disjoint", 4.0, **settings, random_state=s).fit(X, y) for s in range(400)]
    right = np.mean([model.table_.value[0, 1] for model in lone])
    assert right == pytest.approx(1 - math.exp(-4.0) / 2, abs=6 * math.sqrt(0.0092 / 400))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"n_estimators": 0}, "n_estimators = 0"),
        ({"penalty": -1.0}, "penalty"),
        ({"max_features": 0}, "max_features = 0"),
    ],
)
def test_a_wrong_setting_is_named(changes, says):
    X, y = examples()
    with pytest.raises(ValueError, match=says):
        made("edprf same", **changes).fit(X, y)


@pytest.mark.parametrize("declared", [{}, {"bounds": (-10, 10)}], ids=["nothing", "bounds"])
def test_scikit_learn_conventions_hold(declared):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forest = PermuteAndFlipForest(
            epsilon=10.0, **declared, noise="seeded", random_state=0, max_weight=4.0, bounds_from_data=True
        )
        refused = {"check_complex_data": "an error would tell of a record", **WEIGHTS}
        results = check_estimator(forest, on_fail=None, on_skip=None, expected_failed_checks=refused)
    assert {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"} == {}
