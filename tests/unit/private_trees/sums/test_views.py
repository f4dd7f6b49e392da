"""Columns as codes: every value has exactly one bin, on every grid."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.private_trees.sums.record_partitions import Partitions
from fedlearn.private_trees.sums.views import FINE, Views

MIXED = {"bounds": {0: (0, 10), 1: (1, 100, "log")}, "categories": {2: ["a", "b", "c"], 3: 2}}


def mixed(rows):
    table = np.empty((len(rows), 4), object)
    for row, values in zip(table, rows, strict=True):
        row[:] = values
    return table


values = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.sampled_from(["a", "c", "?"]))


@given(st.lists(st.tuples(values, values, values, values), max_size=8))
def test_a_record_lies_in_one_cell_of_every_partition_whatever_it_holds(rows):
    views = Views.declare(4, **MIXED)
    codes = views.encode(mixed(rows))
    assert codes.shape == (len(views.sizes), len(rows))
    assert (codes <= views.sizes[:, None]).all()
    partitions = Partitions.of(views)
    for number in range(len(partitions)):
        cell = partitions.cell_of(number, codes)
        assert cell.shape == (len(rows),) and (cell >= 0).all() and (cell < partitions.cells[number]).all()


def test_what_is_missing_has_a_bin_of_its_own_on_coarser_grids_too():
    views = Views.declare(1, bounds=(0, 1), categories=None)
    codes = views.encode(np.array([[np.nan], [1.0], [np.inf], [-np.inf]]))
    for number in range(len(partitions := Partitions.of(views))):
        missing, *known, low = partitions.cell_of(number, codes).tolist()
        assert missing == partitions.cells[number] - 1
        assert set(known) == {missing - 1} and low == 0


def test_a_frame_with_named_columns_is_seen_as_an_array_is():
    rows = [(1.0, 2.0, "a", 1), (None, 50.0, "?", 0), (9.0, 1.0, None, 7)]
    frame = pd.DataFrame(mixed(rows), columns=list("wxyz"))
    named = {"bounds": {"w": (0, 10), "x": (1, 100, "log")}, "categories": {"y": ["a", "b", "c"], "z": 2}}
    views = Views.declare(4, names=list("wxyz"), **named)
    np.testing.assert_array_equal(views.encode(frame), Views.declare(4, **MIXED).encode(mixed(rows)))


def test_a_tail_is_told_apart_where_even_bins_hold_all_of_it():
    views = Views.declare(1, bounds=(0, 100_000), categories=None)
    even, tail = views.encode(np.array([[0.0], [500.0], [2000.0], [3000.0]]))
    assert even.tolist() == [0, 0, 0, 0]
    assert len(set(tail.tolist())) == 4


def test_more_categories_than_a_byte_holds_are_refused():
    with pytest.raises(ValueError, match="254"):
        Views.declare(1, bounds=None, categories=[300])


def test_a_numeric_column_has_one_view_where_one_is_wanted():
    views = Views.declare(2, bounds=(0, 1), categories=None, one_each=True)
    assert views.feature.tolist() == [0, 1]
    assert (views.sizes <= FINE).all()
