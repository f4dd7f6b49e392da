from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.private_trees.classes.utilities import CRITERIA, sensitivity, shrink, utility
from tests.oracles import categorical_trees as oracle

weights = st.integers(0, 60 * 2**24).map(lambda units: units / 2**24)
counts = st.lists(st.lists(weights, min_size=2, max_size=2), min_size=1, max_size=5)


@given(branches=counts, criterion=st.sampled_from(CRITERIA))
def test_utilities_equal_the_oracle(branches, criterion):
    fast = utility(criterion, np.array([branches]), np.array([0]))
    assert fast[0, 0] == pytest.approx(oracle.utility(criterion, branches), abs=1e-9)


@given(
    nodes=st.lists(counts, min_size=1, max_size=4),
    parts=st.lists(st.floats(0, 1), min_size=20, max_size=20),
    label=st.integers(0, 1),
    criterion=st.sampled_from(CRITERIA),
)
def test_a_record_spread_over_a_level_changes_all_utilities_together_by_at_most_the_sensitivity(
    nodes, parts, label, criterion
):
    branches = [branch for node in nodes for branch in node]
    parts = np.array(parts[: len(branches)]) + 1e-12
    shares = parts / parts.sum()  # the record's weights over all branches of the level
    added = np.zeros((1, len(branches), 2))
    added[0, :, label] = shares
    before = np.array([branches])
    first = np.cumsum([0, *map(len, nodes)])[:-1]
    change = utility(criterion, before + added, first) - utility(criterion, before, first)
    direction = 1 if criterion == "max" else -1
    assert (direction * change >= -1e-9).all()  # monotone
    bound = sensitivity(criterion, max_records=math.ceil(before.sum() + 1))
    assert np.abs(change).sum() <= bound + 1e-9


@given(
    nodes=st.lists(counts, min_size=1, max_size=4),
    parts=st.lists(st.floats(0, 1), min_size=20, max_size=20),
    label=st.integers(0, 1),
    declared=st.integers(1, 40),
)
def test_beyond_the_declared_number_utilities_differ_by_no_more_than_the_sensitivity(nodes, parts, label, declared):
    branches = [branch for node in nodes for branch in node]
    parts = np.array(parts[: len(branches)]) + 1e-12
    added = np.zeros((1, len(branches), 2))
    added[0, :, label] = parts / parts.sum()
    before, first = np.array([branches], float), np.cumsum([0, *map(len, nodes)])[:-1]
    records = max(math.ceil(before.sum()), declared)

    def of_candidates(counted, number):
        split = utility("information_gain", counted, first)
        whole = np.add.reduceat(counted, first, axis=1)  # another candidate, whose branches cannot be told apart
        joined = utility("information_gain", whole, np.arange(len(first)))
        return np.stack([split, joined]) * shrink(number, max_records=declared)

    change = of_candidates(before + added, records + 1) - of_candidates(before, records)
    apart = np.maximum(change.max(axis=0), 0) - np.minimum(change.min(axis=0), 0)
    assert apart.sum() <= sensitivity("information_gain", max_records=declared) + 1e-9


def test_gini_and_entropy_come_close_to_their_sensitivities():
    before, after = np.array([[[1e6, 0.0]]]), np.array([[[1e6, 1.0]]])
    for criterion in CRITERIA[1:]:
        change = utility(criterion, before, np.array([0])) - utility(criterion, after, np.array([0]))
        assert change[0, 0] > 0.99 * sensitivity(criterion, max_records=10**6 + 1)


def test_the_entropy_of_weighted_counts_changes_by_more_than_whole_records_of_the_node_would_allow():
    # Why the bound must hold the size of the data and not of a node: ten nodes of 10 records, a tenth of a record each.
    before = np.array([[[10.0, 0.0]]])
    after = np.array([[[10.0, 0.1]]])
    change = utility("information_gain", before, np.array([0])) - utility("information_gain", after, np.array([0]))
    assert 10 * change[0, 0] > sensitivity("information_gain", max_records=11)
    assert 10 * change[0, 0] <= sensitivity("information_gain", max_records=101)


def test_information_gain_asks_for_a_declared_number_of_records():
    with pytest.raises(ValueError, match="max_records is not declared"):
        sensitivity("information_gain")
