"""Sums over cells, against the obvious way; and what one record changes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.private_trees.sums.counting import cell_sums, unbalance
from fedlearn.private_trees.sums.losses import UNIT, Logistic, pairs_of
from fedlearn.private_trees.sums.record_partitions import Partitions
from fedlearn.private_trees.sums.views import Views

VIEWS = Views.declare(3, bounds={0: (0, 1), 1: (1, 9, "log")}, categories={2: 3})
PARTITIONS = Partitions.of(VIEWS)
EVERY = np.arange(len(PARTITIONS))
values = st.one_of(st.just(np.nan), st.floats(0, 9))


def records(rows, classes):
    table = np.array(rows, np.float64).reshape(-1, 5)
    loss = Logistic(classes)
    score = np.column_stack([table[:, 3]] * loss.outputs) * np.arange(1, loss.outputs + 1)
    return VIEWS.encode(table[:, :3]), pairs_of(loss, score, table[:, 4]), loss.outputs


row = st.tuples(values, values, values, st.floats(-30, 30), st.integers(0, 1))


@given(st.lists(row, max_size=12), st.sampled_from([2, 3]))
def test_unbalance_is_the_sum_of_absolute_sums_on_coarse_grids_too(rows, classes):
    codes, pairs, outputs = records(rows, classes)
    expected = [np.abs(cell_sums(codes, PARTITIONS, each, pairs)[:, :outputs]).sum() / UNIT for each in EVERY]
    np.testing.assert_array_equal(unbalance(codes, PARTITIONS, EVERY, pairs, outputs), expected)
    np.testing.assert_array_equal(unbalance(codes, PARTITIONS, EVERY[::3], pairs, outputs), expected[::3])


@given(st.lists(row, min_size=1, max_size=12), st.sampled_from([2, 3]))
def test_a_record_changes_no_utility_by_more_than_one_and_its_sums_by_one_in_all(rows, classes):
    codes, pairs, outputs = records(rows, classes)
    without = np.ascontiguousarray(codes[:, 1:]), pairs[1:]
    change = unbalance(codes, PARTITIONS, EVERY, pairs, outputs) - unbalance(
        without[0], PARTITIONS, EVERY, without[1], outputs
    )
    assert np.abs(change).max() <= 1
    for each in EVERY:
        sums = cell_sums(codes, PARTITIONS, each, pairs) - cell_sums(without[0], PARTITIONS, each, without[1])
        assert np.abs(sums).sum() <= UNIT
