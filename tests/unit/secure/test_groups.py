"""Groups of a cohort: who is in which, what they stand, and what they cover."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.core.cohort import At
from fedlearn.core.errors import UsageError
from fedlearn.secure.groups import coverage, drop_seed, groups_of, largest_group, level_within, standing


@given(st.sets(st.integers(0, 10_000), min_size=3, max_size=60), st.integers(3, 12), st.integers(0, 99))
def test_every_node_is_in_one_group_of_at_least_its_size(nodes, size, seed):
    found = groups_of(sorted(nodes), size=size, seed=seed, at=At(2, 1))
    assert sorted(node for group in found for node in group) == sorted(nodes)
    smallest, largest = min(map(len, found)), max(map(len, found))
    assert smallest >= min(size, len(nodes))
    assert largest - smallest <= 1
    assert largest <= largest_group(size, fewest=len(nodes), most=len(nodes))


def test_groups_and_their_drop_seeds_are_new_in_each_attempt_and_the_same_again():
    first = groups_of(range(40), size=4, seed=1, at=At(1, 1))
    assert first == groups_of(reversed(range(40)), size=4, seed=1, at=At(1, 1))
    for at in (At(1, 2), At(2, 1)):
        assert groups_of(range(40), size=4, seed=1, at=at) != first
        assert drop_seed(first[0], seed=1, at=at) != drop_seed(first[0], seed=1, at=At(1, 1))
    assert len({drop_seed(group, seed=1, at=At(1, 1)) for group in first}) == len(first)


@pytest.mark.parametrize("size", range(3, 14))
def test_a_group_stands_all_colluders_in_it_and_no_more_than_its_threshold_allows(size):
    for colluders in range(size - 1):
        level = level_within(size, colluders=colluders)
        neighbors = size - 1
        assert neighbors + colluders < 2 * level.threshold <= 2 * neighbors
        assert level.opened == float("-inf")
    with pytest.raises(UsageError, match=f"a group stands at most {size - 2} colluders"):
        level_within(size, colluders=size - 1)


def test_probabilities_that_groups_stand():
    assert standing(level_within(4, colluders=0), 0.1) == pytest.approx(0.9477)
    assert standing(level_within(10, colluders=2), 0.1) == pytest.approx(0.9872, abs=1e-4)
    assert standing(level_within(4, colluders=0), 0.0) == 1.0
    assert coverage(0.1, groups=5, standing=0.9477) < coverage(0.1, groups=5)


def test_entries_that_several_groups_send_are_fewer():
    shares = [coverage(0.3, groups=7, standing=0.9, senders=senders) for senders in (1, 2, 3, 7)]
    sent = np.random.default_rng(1).random((20_000, 7)) < 0.27
    np.testing.assert_allclose(shares, [(sent.sum(axis=1) >= n).mean() for n in (1, 2, 3, 7)], atol=0.01)
