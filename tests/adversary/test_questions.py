"""No sums of one question that nodes accept tell what a single node has added; weaker rules are found."""

from __future__ import annotations

import random

import pytest

from client.owner import signed_sets
from tests.adversary.questions import PLANTED, broken, sums_of, told_of


def test_no_sequence_of_sums_tells_of_one_node():
    assert list(broken(range(100))) == []


def test_sequences_meet_sums_over_several_sets_and_over_the_same_again():
    found = [sums_of(random.Random(seed), (), colluding=0) for seed in range(300)]
    assert any(len(each) > len({*each}) for each in found)
    assert any(len({*each}) > 1 for each in found)


@pytest.mark.parametrize("rule", PLANTED.values(), ids=PLANTED)
def test_a_weaker_rule_is_found(rule, monkeypatch):
    monkeypatch.setattr(signed_sets, "may_sign", rule)
    assert next(broken(range(500)), "")


def test_the_solver_is_exact():
    three = [{"1", "2", "3"}, {"3", "4", "5"}, {"1", "2", "4", "5"}]
    assert told_of(three, ()) == "3" and told_of(three[:2], ()) == ""
    assert told_of(three[:1], ("1", "2")) == "3"
