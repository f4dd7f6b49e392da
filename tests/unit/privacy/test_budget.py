from __future__ import annotations

import json
import math

import pytest

from fedlearn.privacy import NeighboringRelation, PrivacySpent, PrivacyUnit, SpentLine

LINES = (SpentLine("root split", 0.25, level=0, is_secure=True), SpentLine("leaves", 0.75, level=1, is_secure=True))
SPENT = PrivacySpent(1.0, NeighboringRelation.ADD_REMOVE, PrivacyUnit.RECORD, is_secure=True, lines=LINES)


def test_replacing_a_record_costs_twice_what_adding_one_does():
    doubled = SPENT.under(NeighboringRelation.REPLACE)
    assert doubled.epsilon == 2.0
    assert [line.epsilon for line in doubled.lines] == [0.5, 1.5]
    assert doubled.relation is NeighboringRelation.REPLACE


def test_the_same_relation_changes_nothing():
    assert SPENT.under(NeighboringRelation.ADD_REMOVE) is SPENT


def test_a_bound_under_replacement_says_nothing_about_adding():
    with pytest.raises(ValueError, match="add or remove one record"):
        SPENT.under(NeighboringRelation.REPLACE).under(NeighboringRelation.ADD_REMOVE)


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_spending_survives_json(epsilon):
    spent = PrivacySpent(epsilon, NeighboringRelation.REPLACE, PrivacyUnit.NODE, False, (SpentLine("all", epsilon),))
    stored = json.dumps(spent.to_dict(), allow_nan=False)
    assert PrivacySpent.from_dict(json.loads(stored)) == spent


def test_insecure_spending_says_that_it_protects_nobody():
    spent = PrivacySpent(1.0, NeighboringRelation.ADD_REMOVE, PrivacyUnit.RECORD, is_secure=False)
    assert "protects nobody" in str(spent)
    assert "protects nobody" not in str(SPENT)
