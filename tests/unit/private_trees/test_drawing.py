"""Text and pictures of trees: every node is shown, in the words of the declaration."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from fedlearn.private_trees import (
    DPClassificationTree,
    DPRegressionForest,
    DPRegressionTree,
    DPRelayForest,
    NodeTable,
)
from fedlearn.private_trees.numbers.voted import DPVotedForest
from fedlearn.private_trees.tree_drawing import Words, export_text, plot
from tests.unit.private_trees.classes.private_classifiers import MAKERS, examples, made

# age <= 30 ? 1 : (job = 0 ? 2 : job = 1 ? 3)
TWO_KINDS = NodeTable.of_nodes(
    feature=[0, -1, 1, -1, -1], threshold=[30, np.nan, np.nan, np.nan, np.nan], first_child=[1, -1, 3, -1, -1],
    num_children=[2, 0, 2, 0, 0], value=[[0], [1], [0], [2], [3]],
)  # fmt: skip


def test_numeric_and_categorical_nodes_stand_in_one_tree():
    assert export_text(TWO_KINDS, words=Words(features=["age", "job"], decimals=0)).splitlines() == [
        "|--- age <= 30",
        "|   |--- value: 1",
        "|--- age > 30",
        "|   |--- job = 0",
        "|   |   |--- value: 2",
        "|   |--- job = 1",
        "|   |   |--- value: 3",
    ]


def test_picture_names_the_branches_of_a_categorical_node():
    shown = [text.get_text() for text in plot(TWO_KINDS, words=Words(decimals=0)).texts]
    assert sorted(shown) == ["0", "1", "1", "2", "3", "feature 0 <= 30", "feature 1"]


def test_classifier_shows_categories_bins_and_classes_by_their_declared_names():
    frame = pd.DataFrame({"job": ["clerk", "farmer"] * 40, "age": [20, 20, 40, 70] * 20})
    rich = np.where(frame["job"] == "clerk", "no", np.where(frame["age"] > 30, "yes", "no"))
    tree = DPClassificationTree(
        epsilon=1e4, categories={"job": ["clerk", "farmer"]}, bins={"age": [30, 65]}, classes=["no", "yes"],
        noise="seeded", random_state=0, max_depth=2, leaf="label",
    ).fit(frame, rich)  # fmt: skip
    leaves = {"|   |--- no: 1.0, yes: 0.0", "|   |   |--- no: 1.0, yes: 0.0", "|   |   |--- no: 0.0, yes: 1.0"}
    lines = tree.export_text(decimals=1).splitlines()
    tests = {line.replace("|   ", "").removeprefix("|--- ") for line in lines if "yes:" not in line}
    assert {line for line in lines if "yes:" in line} <= leaves
    assert tests == {"job = clerk", "job = farmer", "age <= 30", "30 < age <= 65", "age > 65"}


@pytest.mark.parametrize("name", MAKERS)
def test_every_classifier_shows_every_leaf_of_each_of_its_trees(name):
    model = made(name, 5.0).fit(*examples())
    trees = range(model.table_.num_trees)
    assert sum(model.export_text(tree=tree).count("yes: ") for tree in trees) == model.table_.is_leaf.sum()


def test_picture_of_a_classifier_has_a_box_for_each_node_and_a_word_for_each_branch():
    model = made("tree permute_and_flip", 5.0).fit(*examples())
    assert len(model.plot().texts) == 2 * model.table_.num_nodes - 1


def test_tree_that_is_not_there_is_named():
    model = made("edprf same", n_estimators=3).fit(*examples())
    for show in (model.export_text, model.plot):
        with pytest.raises(ValueError, match=r"tree: 3 must be in 0 \.\. 2"):
            show(tree=3)


@pytest.mark.parametrize("model", [made("edprf same"), DPRegressionTree()])
def test_nothing_is_shown_before_the_fit(model):
    with pytest.raises(NotFittedError):
        model.export_text()


def by_recursion(table, node, share, out):
    """Add up, node by node, the obvious way."""
    if table.feature[node] < 0:
        return
    children = range(table.first_child[node], table.first_child[node] + table.num_children[node])
    values = [table.value[child] for child in children]
    out[table.feature[node]] += share * np.var(values, axis=0).sum()
    for child in children:
        by_recursion(table, child, share / len(values), out)


@pytest.mark.parametrize("name", ["tree permute_and_flip", "tree labels", "forest laplace disjoint", "edprf same"])
def test_importances_of_features_are_those_of_the_obvious_recursion(name):
    X, y = examples(300, missing=0.1)
    model = made(name, 5.0, max_depth=3).fit(X, y)
    expected = np.zeros(3)
    for tree in model.table_.root:
        by_recursion(model.table_, tree, 1.0, expected)
    np.testing.assert_allclose(model.feature_importances_, expected / expected.sum())


REGRESSORS = [DPRegressionTree, DPRegressionForest, DPRelayForest, DPVotedForest]


@pytest.mark.parametrize("kind", [*REGRESSORS, "tree permute_and_flip", "tree laplace", "edprf disjoint"])
def test_the_feature_that_decides_matters_most(kind):
    X, y = examples(4000)
    if isinstance(kind, str):
        model = made(kind, 8.0).fit(X, y)
    else:
        model = kind(epsilon=8.0, bounds=(0, 4), target_bounds=(0, 1), noise="seeded", random_state=0)
        model.fit(X, X[:, 1] / 2)
    assert model.feature_importances_.argmax() == 1
    assert model.feature_importances_[1] > 0.6
    assert model.feature_importances_.sum() == pytest.approx(1)


def test_a_tree_without_splits_has_no_importances_and_an_unfitted_one_says_so():
    X, y = examples(60)
    np.testing.assert_array_equal(made("tree labels", max_depth=0).fit(X, y).feature_importances_, 0)
    with pytest.raises(NotFittedError):
        _ = made("tree labels").feature_importances_
