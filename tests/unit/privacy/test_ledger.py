"""A ledger pays before it looks, never twice for one question, and refuses where a line is not what was written."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.privacy import NeighboringRelation
from fedlearn.privacy.bookings import Booking, Publication, total
from fedlearn.privacy.ledger import Ledger
from fedlearn.privacy.ledger_lines import LedgerDamaged
from fedlearn.words.errors import BudgetExceeded


class Shelf:
    """A storage in this process."""

    name = "patients"

    def __init__(self):
        self.lines, self.answers = b"", {}

    def alone(self):
        return nullcontext()

    def read(self):
        return self.lines

    def append(self, lines):
        self.lines += lines

    def keep(self, sha256, answer):
        self.answers[sha256] = answer

    def kept(self, sha256):
        return self.answers.get(sha256, b"")

    def is_full(self):
        return False


def asked(question="q", *, run="run", epsilon=1.0, relation=NeighboringRelation.ADD_REMOVE, round_number=1):
    return Booking(question, run, "dp-forest", round_number, epsilon, relation, is_secure=True)


def never():
    raise AssertionError("the data are touched")


@pytest.fixture
def shelf():
    return Shelf()


def test_it_is_paid_before_the_data_are_touched_and_kept_before_the_answer_leaves(shelf):
    ledger = Ledger(shelf)

    def answer():
        assert ledger.spent().epsilon == 1.0
        return b"tree"

    assert ledger.once(asked(), answer, budget=1.0) == b"tree"
    booked, published = ledger.entries()
    assert booked == asked()
    assert isinstance(published, Publication)
    assert shelf.kept(published.sha256) == b"tree"


def test_a_question_that_comes_again_gets_the_same_bytes_and_costs_nothing(shelf):
    Ledger(shelf).once(asked(), lambda: b"tree", budget=1.0)
    lines = shelf.lines
    assert Ledger(shelf, most=1.0).once(asked(), never, budget=1.0) == b"tree"
    assert shelf.lines == lines


def test_another_question_of_a_run_whose_budget_is_spent_is_refused_before_the_data_are_touched(shelf):
    ledger = Ledger(shelf)
    ledger.once(asked("first"), lambda: b"tree", budget=1.0)
    lines = shelf.lines
    with pytest.raises(BudgetExceeded, match=r"needs epsilon 1, 0 is left"):
        ledger.once(asked("second"), never, budget=1.0)
    assert shelf.lines == lines


def test_what_is_spent_in_all_is_counted_over_all_runs(shelf):
    ledger = Ledger(shelf, most=2.5)
    ledger.once(asked("a", run="one"), lambda: b"1", budget=1.0)
    ledger.once(asked("b", run="two"), lambda: b"2", budget=1.0)
    with pytest.raises(BudgetExceeded, match=r"0\.5 is left"):
        ledger.once(asked("c", run="three"), never, budget=1.0)
    assert ledger.spent().epsilon == 2.0
    assert ledger.spent("one").epsilon == 1.0


def test_a_failure_between_booking_and_publishing_has_spent_the_budget_and_published_nothing(shelf):
    def dies():
        raise MemoryError

    with pytest.raises(MemoryError):
        Ledger(shelf).once(asked(), dies, budget=1.0)
    assert Ledger(shelf).spent().epsilon == 1.0
    assert Ledger(shelf).published("q") is None
    with pytest.raises(BudgetExceeded):
        Ledger(shelf).once(asked(), never, budget=1.0)


def test_it_says_which_rounds_can_be_answered_again(shelf):
    ledger = Ledger(shelf)
    ledger.once(asked(round_number=3), lambda: b"tree", budget=1.0)
    assert ledger.has_answered("run", 3)
    assert not ledger.has_answered("run", 4)
    assert not ledger.has_answered("another run", 3)


def test_where_sizes_are_known_all_losses_count_as_of_replaced_records(shelf):
    ledger = Ledger(shelf, most=4.0)
    ledger.once(asked("a", run="one"), lambda: b"1", budget=1.0)
    ledger.once(asked("b", run="two", epsilon=2.0, relation=NeighboringRelation.REPLACE), lambda: b"2", budget=2.0)
    assert str(ledger.spent()) == "epsilon = 4 (replace one record; unit: record)"
    with pytest.raises(BudgetExceeded):
        ledger.once(asked("c", run="three", epsilon=0.1), never, budget=1.0)


def test_an_empty_ledger_has_spent_nothing():
    assert total([]).epsilon == 0
    assert total([]).relation is NeighboringRelation.ADD_REMOVE


def filled(shelf, questions=3):
    for number in range(questions):
        Ledger(shelf).once(asked(f"q{number}", run=f"run{number}"), lambda n=number: b"%d" % n, budget=1.0)
    return shelf.lines


@given(st.data())
def test_a_change_of_one_byte_is_named_by_its_line_or_the_next(data):
    shelf = Shelf()
    lines = filled(shelf)
    place = data.draw(st.integers(0, len(lines) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != lines[place]))
    shelf.lines = lines[:place] + bytes([other]) + lines[place + 1 :]
    with pytest.raises(LedgerDamaged) as damaged:
        Ledger(shelf).once(asked("new", run="new"), never, budget=1.0)
    assert damaged.value.line == lines[:place].count(b"\n") + 1


@given(st.integers(1, 6), st.integers(1, 50))
def test_a_line_that_is_gone_or_cut_short_is_named(line, cut):
    shelf = Shelf()
    lines = filled(shelf).splitlines(keepends=True)
    shelf.lines = b"".join([*lines[: line - 1], *lines[line:]])
    with pytest.raises(LedgerDamaged) as damaged:
        Ledger(shelf).spent()
    assert damaged.value.line == line
    shelf.lines = b"".join(lines[:line])[:-cut]
    with pytest.raises(LedgerDamaged, match=rf"line {line} is cut short"):
        Ledger(shelf).spent()


def test_lines_of_other_data_are_no_ledger_of_these(shelf):
    filled(shelf)
    shelf.name = "staff"
    with pytest.raises(LedgerDamaged, match="line 1 says that it is no ledger of 'staff'"):
        Ledger(shelf).spent()


@pytest.mark.parametrize("change", ["gone", "changed"])
def test_an_answer_that_is_not_what_was_published_is_not_sent(shelf, change):
    Ledger(shelf).once(asked(), lambda: b"tree", budget=1.0)
    (digest,) = shelf.answers
    shelf.answers = {} if change == "gone" else {digest: b"data"}
    with pytest.raises(LedgerDamaged, match="line 3 names an answer that is gone or was changed"):
        Ledger(shelf).once(asked(), never, budget=9.0)


@pytest.mark.parametrize("epsilon", [-1.0, float("nan"), float("inf"), 10**400, True, "1"])
def test_what_is_no_loss_is_not_booked(epsilon):
    with pytest.raises(ValueError, match="must be a finite number from 0 on"):
        asked(epsilon=epsilon)


@pytest.mark.parametrize("relation", NeighboringRelation)
@pytest.mark.parametrize("most", [1e308, float("inf")])
def test_a_sum_beyond_the_largest_float_is_more_than_there_is(shelf, most, relation):
    ledger = Ledger(shelf, most=most)
    ledger.once(asked("first", epsilon=1e308), lambda: b"tree", budget=1e308)
    with pytest.raises(BudgetExceeded):
        ledger.once(asked("second", epsilon=1e308, relation=relation), never, budget=1e308)
    assert not ledger.covers(asked("second", run="other", epsilon=1e308, relation=relation), budget=float("inf"))
    assert ledger.spent().epsilon == 1e308


def test_shares_of_one_run_are_paid_in_parallel_and_runs_one_after_the_other(shelf):
    """But not where only the loss of a replaced record is bounded: it may leave one share for another."""
    costs = [("one/0", 0.5), ("one/1", 0.75), ("two/0", 0.5), ("two/0", 0.25), ("three", 1.0)]
    booked = [asked(run=run, epsilon=epsilon) for run, epsilon in costs]
    assert total(booked).epsilon == 0.75 + 0.75 + 1.0
    replaced = NeighboringRelation.REPLACE
    assert total([asked(run=run, epsilon=1.0, relation=replaced) for run in ("one/0", "one/1")]).epsilon == 2.0
