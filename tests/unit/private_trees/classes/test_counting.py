from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.private_trees.binning import MISSING
from fedlearn.private_trees.classes.class_counting import (
    COMPLETE,
    ONE,
    STAY,
    CodedRecords,
    Growth,
    count_leaves,
    count_open,
)
from fedlearn.private_trees.classes.growing import table_of
from fedlearn.private_trees.node_table import LEAF
from tests.oracles.categorical_trees import leaf_paths, leaf_weights


@st.composite
def grown(draw):
    """Return random trees and random records for them."""
    sizes = np.array(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    growth = Growth(draw(st.integers(1, 3)), sizes)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    for _ in range(draw(st.integers(0, len(sizes)))):
        free = np.where(growth.open_used, -1.0, rng.random(growth.open_used.shape))
        stays = (rng.random(growth.num_open) < 0.3) | growth.open_used.all(axis=1)
        growth.split(np.where(stays, STAY, free.argmax(axis=1)))
    n, classes = draw(st.integers(0, 12)), draw(st.integers(1, 3))
    codes = np.stack([rng.integers(0, size, n) for size in sizes], axis=1)
    codes[rng.random(codes.shape) < draw(st.floats(0, 1))] = MISSING
    tree = np.full(n, -1) if draw(st.booleans()) else rng.integers(0, growth.num_trees, n)
    weights = rng.integers(0, ONE + 1, n)
    return growth, CodedRecords(codes.astype(np.uint8), rng.integers(0, classes, n), weights, tree, sizes, classes)


def as_tuples(growth, node):
    """Return the tree below a node, and its node numbers by path, as the oracle has them."""
    feature, first_child = growth.nodes()
    if feature[node] == LEAF:
        return (), {(): node}
    trees, numbers = [], {}
    for child in range(growth.sizes[feature[node]]):
        tree, below = as_tuples(growth, first_child[node] + child)
        trees.append(tree)
        numbers |= {(child, *path): number for path, number in below.items()}
    return (int(feature[node]), tuple(trees)), numbers


def lists(records):
    return [[None if code == MISSING else int(code) for code in row] for row in records.codes]


@given(grown())
def test_leaf_counts_equal_the_oracle_bit_for_bit(case):
    growth, records = case
    expected = np.zeros((len(growth.nodes()[0]), records.num_classes), np.int64)
    for root in range(growth.num_trees):
        tree, number = as_tuples(growth, root)
        for row, record in enumerate(lists(records)):
            if records.tree[row] in (-1, root):
                for path, weight in leaf_weights(tree, record, int(records.weights[row])):
                    expected[number[path], records.labels[row]] += weight
    leaves, counts = count_leaves(growth, records)
    np.testing.assert_array_equal(counts, expected[leaves] / ONE)
    assert not np.delete(expected, leaves, axis=0).any()


@given(grown())
def test_weights_of_a_record_sum_to_its_own_in_every_tree_whatever_is_missing(case):
    growth, records = case
    for row in range(len(records.labels)):
        alone = CodedRecords(
            records.codes[[row]], records.labels[[row]], records.weights[[row]], np.array([-1]), records.sizes,
            records.num_classes,
        )  # fmt: skip
        _, counts = count_leaves(growth, alone)
        assert counts.sum() * ONE == growth.num_trees * records.weights[row]
        columns = count_open(growth, alone)
        per_feature = np.add.reduceat(columns.sum(axis=(0, 2)), records.offsets)
        assert (
            per_feature * ONE <= growth.num_trees * records.weights[row]
        ).all()  # some of it may be in closed leaves


@given(grown())
def test_shares_are_even_but_for_a_few_units(case):
    growth, records = case
    tree, _ = as_tuples(growth, 0)
    for record in lists(records):
        exact = dict(leaf_weights(tree, record, Fraction(1)))
        units = dict(leaf_weights(tree, record, ONE))
        assert sum(exact.values()) == 1
        assert max(abs(units[path] - exact[path] * ONE) for path in exact) < 4


@given(grown())
def test_counts_by_category_are_the_counts_of_the_children(case):
    growth, records = case
    counts = count_open(growth, records)
    free = ~growth.open_used
    if not growth.num_open or not free.any(axis=1).all():
        return
    parent, category = growth.split(free.argmax(axis=1))
    chosen = growth.feature[-1][parent]
    totals = count_open(growth, records)[:, : records.sizes[0]].sum(axis=1)  # any feature's categories sum to the node
    np.testing.assert_array_equal(totals, counts[parent, records.offsets[chosen] + category])


@given(grown())
def test_the_complete_part_leaves_missing_values_out(case):
    growth, records = case
    at_root = Growth(growth.num_trees, growth.sizes)
    complete = count_open(at_root, records, spread=False)
    for feature, offset in enumerate(records.offsets):
        present = records.codes[:, feature] != MISSING
        copies = np.where(records.tree < 0, growth.num_trees, 1)
        block = complete[:, offset : offset + records.sizes[feature]]
        assert block.sum() * ONE == (records.weights * copies)[present].sum()
    assert COMPLETE == 2


@given(grown())
def test_a_grown_table_is_well_formed_and_no_path_uses_a_feature_twice(case):
    growth, records = case
    table = table_of(growth, np.full((len(growth.nodes()[0]), records.num_classes), 0.5))
    table.validate(
        num_features=len(growth.sizes),
        outputs=records.num_classes,
        value_bounds=(0.0, 1.0),
        max_depth=len(growth.sizes),
        categories=growth.sizes,
    )
    tree, numbers = as_tuples(growth, 0)
    assert sorted(numbers) == sorted(leaf_paths(tree))

    def check(node, used):
        if node:
            assert node[0] not in used
            for child in node[1]:
                check(child, {*used, node[0]})

    check(tree, set())
