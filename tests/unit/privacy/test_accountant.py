from __future__ import annotations

import copy
import json
import math
import pickle
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.core.errors import BudgetExceeded
from fedlearn.privacy import NeighboringRelation, PrivacyAccountant, PrivacyUnit, laplace, seeded_noise

EPSILONS = st.lists(st.floats(1e-6, 10.0), min_size=1, max_size=20)


@given(epsilons=EPSILONS)
def test_sequential_composition_adds(epsilons):
    accountant = PrivacyAccountant(1000.0)
    for epsilon in epsilons:
        accountant.spend(epsilon, what="query")
    assert accountant.spent.epsilon == math.fsum(epsilons)
    assert accountant.remaining == 1000.0 - math.fsum(epsilons)


@given(epsilons=EPSILONS)
def test_parallel_composition_takes_the_maximum(epsilons):
    accountant = PrivacyAccountant(1000.0)
    accountant.spend_parallel(epsilons, what="disjoint nodes")
    assert accountant.spent.epsilon == max(epsilons)
    assert len(accountant.spent.lines) == 1


def test_parts_that_a_replaced_record_can_leave_are_refused():
    accountant = PrivacyAccountant(1000.0, NeighboringRelation.REPLACE)
    with pytest.raises(ValueError, match="fixed_parts=True"):
        accountant.spend_parallel([0.0, 0.0], what="sizes of parts")
    assert not accountant.spent.lines


def test_a_replaced_record_stays_in_its_part_where_parts_are_fixed():
    accountant = PrivacyAccountant(1.0, NeighboringRelation.REPLACE)
    accountant.spend_parallel([0.3, 0.4], what="shards by row number", fixed_parts=True)
    assert accountant.spent.epsilon == 0.4


@given(shares=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=200), budget=st.floats(1e-6, 1e6))
def test_shares_of_the_budget_fit_into_it(shares, budget):
    accountant = PrivacyAccountant(budget)
    for share in shares:
        accountant.spend(budget * (share / sum(shares)), what="share")
    assert accountant.spent.epsilon == pytest.approx(budget, rel=1e-9)
    assert accountant.remaining <= 1e-9 * budget
    assert accountant.would_exceed(1e-6 * budget)


@given(epsilons=EPSILONS, budget=st.floats(0.1, 20.0))
def test_what_was_booked_never_exceeds_the_budget(epsilons, budget):
    accountant = PrivacyAccountant(budget)
    for epsilon in epsilons:
        fits = not accountant.would_exceed(epsilon)
        before = accountant.spent
        if fits:
            accountant.spend(epsilon, what="query")
        else:
            with pytest.raises(BudgetExceeded):
                accountant.spend(epsilon, what="query")
            assert accountant.spent == before
        assert accountant.spent.epsilon <= budget * (1 + 1e-9)


class _Untouchable:
    """Data that notices being read."""

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("the data was touched")


def test_overspending_is_refused_before_the_data_is_touched():
    accountant = PrivacyAccountant(1.0)
    accountant.spend(0.8, what="first answer")
    with pytest.raises(BudgetExceeded, match=r"second answer: needs epsilon 0\.5, 0\.2 is left"):
        accountant.spend(0.5, what="second answer")
        laplace(_Untouchable(), sensitivity=1.0, epsilon=0.5, noise=seeded_noise(1))
    assert [line.what for line in accountant.spent.lines] == ["first answer"]


def test_parallel_overspending_books_nothing():
    accountant = PrivacyAccountant(1.0)
    with pytest.raises(BudgetExceeded):
        accountant.spend_parallel([0.1, 2.0], what="level")
    assert accountant.spent.lines == ()


@pytest.mark.parametrize("epsilon", [-0.1, math.nan])
def test_no_budget_comes_back(epsilon):
    accountant = PrivacyAccountant(1.0)
    with pytest.raises(ValueError, match="epsilon"):
        accountant.spend(epsilon, what="refund")
    with pytest.raises(ValueError, match="epsilons"):
        accountant.spend_parallel([epsilon], what="refund")
    with pytest.raises(ValueError, match="epsilons"):
        accountant.spend_parallel([], what="nothing")


@pytest.mark.parametrize("budget", [0.0, -1.0, math.nan])
def test_a_budget_is_above_zero(budget):
    with pytest.raises(ValueError, match="budget"):
        PrivacyAccountant(budget)


def test_an_infinite_budget_covers_everything_and_only_it_covers_an_infinite_epsilon():
    accountant = PrivacyAccountant(math.inf)
    accountant.spend(math.inf, what="exact answer")
    accountant.spend(1.0, what="and more")
    assert accountant.remaining == math.inf
    with pytest.raises(BudgetExceeded):
        PrivacyAccountant(1e300).spend(math.inf, what="exact answer")


def test_one_insecure_line_makes_the_whole_insecure():
    accountant = PrivacyAccountant(1.0)
    accountant.spend(0.1, what="secure", is_secure=True)
    assert accountant.spent.is_secure
    accountant.spend(0.1, what="who knows")
    assert not accountant.spent.is_secure


@pytest.mark.parametrize("budget", [2.0, math.inf])
def test_a_stored_account_goes_on_where_it_was(budget):
    accountant = PrivacyAccountant(budget, NeighboringRelation.REPLACE, PrivacyUnit.NODE)
    accountant.spend(0.5, what="root split", level=0, is_secure=True)
    accountant.spend_parallel([0.1, 0.2], what="shards", level=1, fixed_parts=True)
    stored = json.loads(json.dumps(accountant.to_dict(), allow_nan=False))
    restored = PrivacyAccountant.from_dict(stored)
    assert restored.spent == accountant.spent
    assert restored.remaining == accountant.remaining
    assert restored.to_dict() == accountant.to_dict()


def test_an_account_that_was_tampered_with_is_refused():
    accountant = PrivacyAccountant(1.0)
    accountant.spend(1.0, what="all")
    with pytest.raises(ValueError, match="more than the stored budget"):
        PrivacyAccountant.from_dict({**accountant.to_dict(), "budget": 0.5})


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_spends_from_the_same_budget(copied):
    accountant = PrivacyAccountant(1.0)
    copied(accountant).spend(0.4, what="query")
    assert accountant.spent.epsilon == 0.4


def test_an_account_does_not_leave_its_process():
    with pytest.raises(TypeError, match="second budget"):
        pickle.dumps(PrivacyAccountant(1.0))


@pytest.mark.parametrize("kind", [{"relation": NeighboringRelation.REPLACE}, {"unit": PrivacyUnit.NODE}])
def test_what_counts_in_something_else_is_refused(kind):
    accountant = PrivacyAccountant(1.0, **kind)
    with pytest.raises(ValueError, match="open an account of that kind"):
        accountant.require(NeighboringRelation.ADD_REMOVE, PrivacyUnit.RECORD, by="a private tree")


@pytest.mark.parametrize("budget", [1e308, sys.float_info.max])
def test_a_sum_beyond_the_largest_float_exceeds_the_budget(budget):
    accountant = PrivacyAccountant(budget)
    accountant.spend(budget, what="first")
    with pytest.raises(BudgetExceeded):
        accountant.spend(budget, what="second")
