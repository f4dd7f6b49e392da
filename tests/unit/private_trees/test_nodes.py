from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlearn.private_trees.node_table import LEAF, MalformedTree, NodeTable, level_of_nodes, union
from fedlearn.private_trees.predicting import leaf_of_rows, predict
from tests.oracles import regression_trees as oracle

CATEGORIES = [0, 3, 0]


def random_table(seed: int, *, trees: int = 2, depth: int = 4, outputs: int = 1) -> NodeTable:
    """Trees of any shape over one categorical and two numeric features."""
    rng = np.random.default_rng(seed)
    feature, threshold, first, count, level = [], [], [], [], []
    root = list(range(trees))
    waiting = [(node, 0) for node in root]
    columns = (feature, threshold, first, count, level)
    size = trees
    for column, empty in zip(columns, (LEAF, np.nan, LEAF, 0, 0), strict=True):
        column.extend([empty] * trees)
    while waiting:
        node, at = waiting.pop(0)
        if at == depth or rng.random() < 0.3:
            continue
        feature[node] = int(rng.integers(3))
        children = CATEGORIES[feature[node]] or 2
        threshold[node] = np.nan if CATEGORIES[feature[node]] else float(rng.random())
        first[node], count[node] = size, children
        for column, empty in zip(columns, (LEAF, np.nan, LEAF, 0, at + 1), strict=True):
            column.extend([empty] * children)
        waiting += [(size + child, at + 1) for child in range(children)]
        size += children
    value = rng.random((size, outputs))
    weight = rng.dirichlet(np.ones(trees))
    return NodeTable.of_nodes(
        root=root,
        weight=weight,
        feature=feature,
        threshold=threshold,
        first_child=first,
        num_children=count,
        value=value,
    )


def valid(table: NodeTable, outputs: int = 1) -> None:
    table.validate(num_features=3, outputs=outputs, value_bounds=(0, 1), max_depth=12, categories=CATEGORIES)


@given(seed=st.integers(0, 2**32), outputs=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_a_grown_table_is_valid_and_survives_the_wire(seed, outputs):
    table = random_table(seed, outputs=outputs)
    valid(table, outputs)
    again = NodeTable.from_arrays(table.to_arrays())
    for name, column in table.to_arrays().items():
        np.testing.assert_array_equal(column, again.to_arrays()[name])


@given(seed=st.integers(0, 2**32), missing=st.floats(0, 0.6))
@settings(max_examples=40, deadline=None)
def test_prediction_equals_the_recursion_with_missing_values_and_unknown_categories(seed, missing):
    rng = np.random.default_rng(seed)
    table = random_table(seed, trees=3, outputs=2)
    X = rng.random((20, 3))
    X[:, 1] = rng.integers(-1, 4, 20)  # -1 and 3 are no categories
    X[rng.random(X.shape) < missing] = np.nan
    expected = np.array([oracle.predicted(table, x) for x in X])
    np.testing.assert_allclose(predict(table, X), expected, rtol=1e-12)


@pytest.mark.parametrize("known", [1, 65])
def test_a_feature_is_told_from_the_one_64_columns_on(known):
    leaf, number = LEAF, np.nan
    table = NodeTable.of_nodes(
        feature=[1, 65, 65, leaf, leaf, leaf, leaf],
        threshold=[0.5, 0.5, 0.5, number, number, number, number],
        first_child=[1, 3, 5, leaf, leaf, leaf, leaf],
        num_children=[2, 2, 2, 0, 0, 0, 0],
        value=np.array([[0.0], [0.0], [0.0], [1.0], [2.0], [4.0], [8.0]]),
    )
    X = np.full((1, 70), np.nan)
    X[0, known] = 1.0
    assert predict(table, X).tolist() == [[6.0 if known == 1 else 5.0]]


def test_the_shares_of_a_row_with_missing_values_sum_to_one():
    table = random_table(3, trees=2)
    ones = NodeTable.from_arrays({**table.to_arrays(), "value": np.ones_like(table.value)})
    np.testing.assert_allclose(predict(ones, np.full((4, 3), np.nan)), 1.0)


def test_leaf_of_rows_is_a_leaf_or_says_that_a_value_was_missing():
    table = random_table(5)
    leaves = leaf_of_rows(table, np.array([[0.2, 1.0, 0.7], [np.nan, np.nan, np.nan]]))
    assert table.is_leaf[leaves[0]].all()
    assert all(leaf == -1 or table.is_leaf[leaf] for leaf in leaves[1])


def test_union_keeps_the_weights_in_proportion():
    first, second = random_table(1), random_table(2)
    X = np.array([[0.1, 2.0, 0.9]])
    both = union([first, second], weights=[3, 1])
    valid(both)
    np.testing.assert_allclose(predict(both, X), 0.75 * predict(first, X) + 0.25 * predict(second, X))
    assert both.num_trees == 4
    assert both.depth == max(first.depth, second.depth)


def test_every_node_of_a_valid_table_is_reached_from_a_root():
    assert (level_of_nodes(random_table(11)) >= 0).all()


def test_union_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        union([])


STUMP = {
    "root": np.array([0], np.int32),
    "weight": np.array([1.0]),
    "feature": np.array([0, -1, -1], np.int32),
    "threshold": np.array([0.5, np.nan, np.nan]),
    "first_child": np.array([1, -1, -1], np.int32),
    "num_children": np.array([2, 0, 0], np.int32),
    "value": np.array([[0.0], [0.1], [0.9]]),
}


def changed(name: str, place: object, value: float) -> dict[str, np.ndarray]:
    column = STUMP[name].copy()
    column[place] = value
    return {**STUMP, name: column}


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        (changed("first_child", 0, 0), "bad-child"),  # a cycle
        (changed("first_child", 0, 2), "bad-child"),  # behind the table
        (changed("num_children", 0, 1), "bad-child"),
        (changed("num_children", 1, 2), "bad-child"),
        (changed("first_child", 1, 2), "bad-child"),
        (changed("root", 0, 1), "bad-child"),
        (changed("root", 0, 7), "bad-child"),
        (changed("feature", 0, 3), "bad-feature"),
        (changed("feature", 0, -2), "bad-feature"),
        (changed("feature", 0, 1), "bad-threshold"),  # categorical: must have none
        (changed("threshold", 0, np.nan), "bad-threshold"),
        (changed("threshold", 0, np.inf), "bad-threshold"),
        (changed("threshold", 1, 0.5), "bad-threshold"),
        (changed("value", (1, 0), np.nan), "bad-value"),
        (changed("value", (2, 0), 1.5), "bad-value"),
        (changed("weight", 0, 0.5), "bad-weight"),
        (changed("weight", 0, np.nan), "bad-weight"),
        ({**STUMP, "value": np.zeros((3, 2))}, "wrong-shape"),
        ({**STUMP, "threshold": np.zeros(2)}, "wrong-shape"),
        ({**STUMP, "root": np.zeros(0, np.int32), "weight": np.zeros(0)}, "wrong-shape"),
    ],
)
def test_a_malformed_table_is_refused_with_its_reason(arrays, reason):
    with pytest.raises(MalformedTree) as refusal:
        valid(NodeTable.from_arrays(arrays))
    assert refusal.value.reason == reason


def test_a_table_too_deep_or_too_large_is_refused():
    table = NodeTable.from_arrays(STUMP)
    with pytest.raises(MalformedTree, match="too-deep"):
        table.validate(num_features=1, max_depth=0)
    with pytest.raises(MalformedTree, match="too-large"):
        table.validate(num_features=1, max_nodes=2)
    with pytest.raises(MalformedTree, match="too-large"):
        union([table, table]).validate(num_features=1, max_trees=1)
    union([table, table]).validate(num_features=1, max_depth=1, max_nodes=6, max_trees=2)


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({k: v for k, v in STUMP.items() if k != "value"}, "wrong-names"),
        ({**STUMP, "more": np.zeros(1)}, "wrong-names"),
        ({**STUMP, "root": np.zeros(1, np.int64)}, "wrong-dtype"),
        ({**STUMP, "value": np.zeros(3)}, "wrong-dtype"),
    ],
)
def test_columns_of_another_name_or_dtype_are_refused(arrays, reason):
    with pytest.raises(MalformedTree) as refusal:
        NodeTable.from_arrays(arrays)
    assert refusal.value.reason == reason
