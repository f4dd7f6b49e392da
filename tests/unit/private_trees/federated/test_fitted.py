"""A forest of a run reads like an estimator of scikit-learn, in the words of the declaration."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedlearn.core.errors import Refused, UsageError
from fedlearn.data.data_spec import DataSpec, TableSchema
from fedlearn.private_trees import DPRegressionTree, NodeTable
from fedlearn.private_trees.federated.models.forest import state_of
from fedlearn.private_trees.federated.models.forest_classification import dp_classifier, dp_random_forest, pf_forest
from fedlearn.private_trees.federated.models.forest_regression import dp_forest
from fedlearn.private_trees.federated.models.relay_model import dp_relay
from fedlearn.private_trees.node_table import union
from fedlearn.private_trees.tree_drawing import importances

PRICES = TableSchema("price", {"area": (0, 250)}, {"town": ("a", "b", "c")}, target_bounds=(0, 1000))
RICH = TableSchema("rich", {"age": (0, 80)}, {"job": ("clerk", "farmer")}, classes=("no", "yes"))
# area <= 100 ? 200 : (town in {a} ? 400 : 600)
HOUSES = NodeTable.of_nodes(
    feature=[0, -1, 1, -1, -1], threshold=[100, np.nan, 0.5, np.nan, np.nan], first_child=[1, -1, 3, -1, -1],
    num_children=[2, 0, 2, 0, 0], value=[[0], [200], [0], [400], [600]],
)  # fmt: skip
# job = clerk ? no : (age in one of eight bins of ten years: yes, but for the first)
SHARES = [[1, 0]] + [[0, 1]] * 7
JOBS = NodeTable.of_nodes(
    feature=[1, -1, 0, *[-1] * 8], threshold=[np.nan] * 11, first_child=[1, -1, 3, *[-1] * 8],
    num_children=[2, 0, 8, *[0] * 8], value=[[0, 0], [1, 0], [0, 0], *SHARES],
)  # fmt: skip


def spec_of(schema):
    return DataSpec("t", (2,), "float64", classes=len(schema.classes), target_bounds=schema.target_bounds, table=schema)


def houses(*tables, build=dp_forest):
    return build(spec_of(PRICES), {"leaf": "mean"} if build is dp_forest else {}).fitted(state_of(union(tables)))


def jobs(*tables, build=dp_classifier):
    return build(spec_of(RICH), {}).fitted(state_of(union(tables)))


def test_rules_of_numbers_are_in_the_words_of_the_table():
    one = """\
|--- area <= 100
|   |--- value: 200
|--- area > 100
|   |--- town in {a}
|   |   |--- value: 400
|   |--- town in {b, c}
|   |   |--- value: 600"""
    heads = [f"tree {tree} of 2, weight 0.5" for tree in (0, 1)]
    assert houses(HOUSES, HOUSES).rules(decimals=0) == "\n".join(f"{head}\n{one}" for head in heads)


def test_text_of_classes_names_categories_bins_and_classes():
    lines = jobs(JOBS).export_text().splitlines()
    assert lines[:3] == ["|--- job = clerk", "|   |--- no: 1.00, yes: 0.00", "|--- job = farmer"]
    assert lines[3:7] == [
        "|   |--- age <= 10", "|   |   |--- no: 1.00, yes: 0.00", "|   |--- 10 < age <= 20",
        "|   |   |--- no: 0.00, yes: 1.00",
    ]  # fmt: skip


def test_importances_are_those_of_the_trees_by_the_names_of_features():
    forest = houses(HOUSES)
    assert forest.feature_names_in_.tolist() == ["area", "town"]
    assert forest.feature_importances_.tolist() == importances(HOUSES, 2).tolist()
    assert list(forest.importances()) == ["area", "town"] and sum(forest.importances().values()) == pytest.approx(1)
    assert "no further epsilon" in forest.notice_


def test_frames_are_predicted_by_the_names_of_columns_and_categories():
    frame = pd.DataFrame({"town": ["c", " a", "a"], "area": [180, 180.0, 60]})
    assert houses(HOUSES).predict(frame).tolist() == [600, 400, 200]
    assert houses(HOUSES).predict(np.array([[180, 2], [180, 0], [60, 0]])).tolist() == [600, 400, 200]
    people = pd.DataFrame({"age": [5, 45, 45], "job": ["farmer", "farmer", "clerk"]})
    assert jobs(JOBS).predict(people).tolist() == ["no", "yes", "no"]
    assert jobs(JOBS).predict_proba(people).tolist() == [[1, 0], [0, 1], [1, 0]]


def test_what_was_not_declared_is_missing_and_goes_to_all_children():
    frame = pd.DataFrame({"area": [180, 180, np.nan], "town": ["z", None, "a"]})
    assert houses(HOUSES).predict(frame).tolist() == [500, 500, 300]


def test_numbers_are_names_of_categories_in_a_frame():
    schema = TableSchema("price", {"area": (0, 250)}, {"town": ("1", "2", "3")}, target_bounds=(0, 1000))
    forest = dp_forest(spec_of(schema), {"leaf": "mean"}).fitted(state_of(HOUSES))
    frame = pd.DataFrame({"area": [180, 180], "town": [1, 2]})
    assert forest.predict(frame).tolist() == [400, 600]
    assert forest.predict(frame.astype(float)).tolist() == [400, 600]


@pytest.mark.parametrize("X", [pd.DataFrame({"area": [1.0]}), np.zeros((1, 3))])
def test_rows_of_another_table_are_refused_in_one_line(X):
    with pytest.raises(UsageError, match=r"has no column 'town'|has 3 columns: the run has learned from 2"):
        houses(HOUSES).predict(X)


def test_a_leaf_of_a_distribution_shows_its_median_in_the_unit_of_the_target():
    model = dp_forest(spec_of(PRICES), {"leaf": "median"})
    shares = np.zeros((5, model.outputs))
    shares[:, 3] = 1.0
    table = NodeTable(*(getattr(HOUSES, name) for name in HOUSES.to_arrays() if name != "value"), value=shares)
    assert "value: 300.00" in model.fitted(state_of(table)).rules()


def test_steps_of_a_relay_are_shown_as_they_are_and_added_up():
    step = NodeTable.of_nodes(feature=[-1], threshold=[np.nan], first_child=[-1], num_children=[0], value=[[-50.0]])
    relay = houses(HOUSES, step, build=dp_relay)
    assert "value: -50.00" in relay.export_text(tree=1)
    assert relay.predict(np.array([[180.0, 2.0]])).tolist() == [550]


@pytest.mark.parametrize("build", [dp_classifier, dp_random_forest, pf_forest])
def test_before_round_one_a_forest_has_no_rules_and_predicts_all_the_same(build):
    model = build(spec_of(RICH), {})
    forest = model.fitted(model.initial_state(seed=1))
    assert (forest.rules(), set(forest.importances().values())) == ("", {0.0})
    assert forest.predict_proba([[1, 1]]).tolist() == [[0.5, 0.5]]
    with pytest.raises(ValueError, match="the forest has no tree"):
        forest.export_text()


def test_a_forest_is_drawn_and_says_what_it_is():
    texts = {text.get_text() for text in houses(HOUSES).plot(decimals=0).texts}
    assert texts == {"area <= 100", "town in {a}", "200", "400", "600"}
    assert repr(jobs(JOBS)) == "<FittedClassifier: 1 trees of 2 features for 'rich'>"


def test_estimators_have_rules_too():
    tree = DPRegressionTree(epsilon=50.0, bounds=(0, 1), target_bounds=(0, 1), noise="seeded", random_state=0, depth=1)
    X = np.random.default_rng(0).uniform(size=(200, 1))
    assert tree.fit(X, X[:, 0]).rules() == f"tree 0 of 1, weight 1\n{tree.export_text()}"


@pytest.mark.parametrize(
    ("name", "place", "wrong"), [("first_child", 0, 0), ("first_child", 0, 900), ("feature", 0, 7)]
)
@pytest.mark.parametrize(("schema", "build", "table"), [(PRICES, dp_relay, HOUSES), (RICH, dp_classifier, JOBS)])
def test_trees_that_lead_nowhere_are_refused_before_they_are_followed(schema, build, table, name, place, wrong):
    state = {key: array.copy() for key, array in state_of(table).items()}
    state[name][place] = wrong
    with pytest.raises(Refused):
        build(spec_of(schema), {}).fitted(state)
