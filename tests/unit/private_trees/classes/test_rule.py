"""What follows from epsilon and a public number of records, and what it costs to know that number."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedlearn.privacy import PrivacyAccountant
from fedlearn.private_trees.classes.classification import DPClassificationTree
from fedlearn.private_trees.classes.encoding import edges_between
from fedlearn.private_trees.classes.permute_and_flip_forest import PermuteAndFlipForest
from fedlearn.private_trees.classes.random_forest import DPRandomForestClassifier
from fedlearn.private_trees.classes.rule import NUMBER_SHARE, TREES, depth_for, trees_for
from tests.unit.private_trees.classes.private_classifiers import SIZES, examples, made

RULED = ("tree permute_and_flip", "edprf disjoint", "edprf same", "forest laplace disjoint", "forest laplace same")


def test_more_epsilon_or_more_records_make_no_shallower_tree_and_no_smaller_forest():
    depths = [depth_for(0.1, records, 14) for records in (1, 1000, 10**4, 10**5, 10**6, 10**9)]
    trees = [trees_for(0.1, records) for records in (1, 1000, 10**4, 10**5)]
    assert depths == sorted(depths) and trees == sorted(trees)
    assert depth_for(math.inf, 10**9, 14) == 6
    assert depth_for(1e-9, 1, 14) == trees_for(1e-9, 1) == 1


def test_no_tree_uses_more_than_half_the_columns_and_each_one_at_least():
    assert [depth_for(8.0, 10**9, columns) for columns in (1, 2, 5, 6, 14)] == [1, 1, 2, 3, 6]


@pytest.mark.parametrize("name", RULED)
def test_the_number_of_records_is_paid_for_and_the_trees_get_the_rest(name):
    X, y = examples(400)
    account = PrivacyAccountant(2.0)
    spent = made(name, 2.0, accountant=account).fit(X, y).privacy_spent_
    assert spent.lines[0].what == "number of records"
    assert spent.lines[0].epsilon == pytest.approx(NUMBER_SHARE * 2.0)
    assert spent.epsilon == pytest.approx(2.0)
    assert account.remaining == pytest.approx(0.0)


@pytest.mark.parametrize("name", RULED)
@pytest.mark.parametrize("given", [{"n_declared": 400}, {"max_depth": 2, "n_estimators": 3}])
def test_a_declared_number_or_a_given_shape_costs_nothing(name, given):
    X, y = examples(400)
    if "tree" in name:
        given = {key: value for key, value in given.items() if key != "n_estimators"}
    spent = made(name, 2.0, **given).fit(X, y).privacy_spent_
    assert all(line.what != "number of records" for line in spent.lines)
    assert spent.epsilon == pytest.approx(2.0)


def test_what_follows_is_the_rule_of_the_declared_number():
    X, y = examples(40)
    for records in (10, 100, 1000, 10_000):
        forest = PermuteAndFlipForest(
            epsilon=1.0, categories=SIZES, classes=["no", "yes"], n_declared=records, noise="seeded", random_state=0
        ).fit(X, y)
        assert (forest.max_depth_, forest.n_estimators_) == (depth_for(1.0, records, 3), trees_for(1.0, records))
        assert forest.table_.num_trees == forest.n_estimators_


@pytest.mark.parametrize("records", [10, 1000, 100_000])
def test_random_trees_of_counts_follow_the_rule_and_those_of_labels_do_not(records):
    X, y = examples(40)
    given = {
        "categories": [2] * 9,
        "classes": ["no", "yes"],
        "n_declared": records,
        "noise": "seeded",
        "random_state": 0,
    }
    counts = DPRandomForestClassifier(epsilon=1.0, **given).fit(np.tile(X, 3) % 2, y)
    labels = DPRandomForestClassifier(epsilon=1.0, mechanism="exponential", **given).fit(np.tile(X, 3) % 2, y)
    assert (counts.n_estimators_, counts.max_depth_) == (TREES, depth_for(1.0, records, 9))
    assert (labels.n_estimators_, labels.max_depth_) == (10, 3)
    assert counts.table_.num_trees == TREES and counts.table_.depth == counts.max_depth_


def test_counts_give_probabilities_and_labels_give_votes():
    X, y = examples(4000)
    said = {
        leaf: made("tree permute_and_flip", 8.0, leaf=leaf).fit(X, y).predict_proba(X) for leaf in ("label", "counts")
    }
    assert set(np.unique(said["label"])) == {0.0, 1.0}
    assert np.abs(said["counts"][y == "yes"].mean(axis=0) - [0.1, 0.9]).max() < 0.1
    loss = -np.log(np.maximum(said["counts"][np.arange(len(y)), (y == "yes").astype(int)], 1e-12)).mean()
    assert loss < 0.25  # a twentieth of the labels is noise: 0.2


def test_bounds_stand_in_for_bins():
    X, y = examples(400)
    low, high = 0.0, 3.0
    by_bounds = {"categories": None, "bounds": (low, high)}
    by_bins = {"categories": None, "bins": {feature: edges_between(low, high) for feature in range(3)}}
    tables = [made("edprf disjoint", **declared).fit(X, y).table_ for declared in (by_bounds, by_bins)]
    np.testing.assert_array_equal(tables[0].value, tables[1].value)


def test_only_columns_that_have_nothing_else_need_bounds():
    X, y = examples(60)
    given = {"categories": {0: 2}, "bins": {1: [0.5]}, "bounds": {2: (1.0, 9.0, "log")}}
    tree = DPClassificationTree(epsilon=1.0, **given, classes=["no", "yes"], noise="seeded", random_state=0).fit(X, y)
    assert tree._encoding_.sizes.tolist() == [2, 2, 8]
    del given["bounds"]
    with pytest.raises(ValueError, match="feature 2 needs"):
        DPClassificationTree(epsilon=1.0, **given, classes=["no", "yes"], noise="seeded", random_state=0).fit(X, y)
