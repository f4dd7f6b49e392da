"""A ledger pays before it looks, never twice for one question, and refuses where a line is not what was written."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.core.errors import BudgetExceeded
from fedlearn.privacy import NeighboringRelation, PrivacyUnit
from fedlearn.privacy.accounts import GaussianRounds, epsilon_of, noise_multiplier_for
from fedlearn.privacy.bookings import Booking, Publication, total
from fedlearn.privacy.ledger import Ledger
from fedlearn.privacy.ledger_lines import LedgerDamaged


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


# --- Gaussian mechanisms ----------------------------------------------------------------------------------------------


def noisy(question="q", *, run="run", noise=1.0, rounds=1, rate=1.0, planned=0, **more):
    mechanism = GaussianRounds(noise, rounds, rate)
    given = {"relation": NeighboringRelation.ADD_REMOVE, "is_secure": True, "mechanism": mechanism, "planned": planned}
    return Booking(question, run, "cnn", 1, 0.0, **given | more)


def test_a_line_holds_the_parameters_of_a_mechanism_and_comes_back(shelf):
    booking = noisy(noise=1.5, rate=0.1, planned=30, unit=PrivacyUnit.NODE)
    Ledger(shelf, most=8.0, delta=1e-5).once(booking, lambda: b"sum", budget=8.0, delta=1e-5)
    assert Ledger(shelf).entries()[0] == booking
    assert b'"mechanism": {"noise_multiplier": 1.5, "rounds": 1, "sampling_rate": 0.1}' in shelf.lines


def test_a_line_of_skellam_noise_says_so_and_comes_back(shelf):
    booking = replace(noisy(), mechanism=GaussianRounds(2.0, 1, is_skellam=True))
    Ledger(shelf, most=8.0, delta=1e-5).once(booking, lambda: b"sum", budget=8.0, delta=1e-5)
    assert Ledger(shelf).entries()[0] == booking
    assert b'"is_skellam": true' in shelf.lines


def test_a_line_of_pure_epsilon_has_the_bytes_that_it_always_had(shelf):
    Ledger(shelf).once(asked(), lambda: b"tree", budget=1.0)
    line = shelf.lines.splitlines()[1].rpartition(b" ")[0]
    assert line == (
        b'{"about": "dp-forest", "epsilon": 1.0, "is_secure": true, "kind": "spent", "question": "q", '
        b'"relation": "add or remove one record", "round_number": 1, "run": "run", "time": 0}'
    )


def spend(ledger, booking, *, budget=8.0, delta=1e-5):
    return ledger.once(booking, lambda: b"sum", budget=budget, delta=delta)


def count_of(ledger, one, most=100):
    """Return how many rounds are answered before the first that is refused."""
    for number in range(most):
        try:
            spend(ledger, one(number))
        except BudgetExceeded:
            return number
    return most


@pytest.mark.parametrize("planned", [0, 30])
def test_a_calibrated_run_has_its_rounds_and_not_one_more(shelf, planned):
    noise = noise_multiplier_for(8.0, delta=1e-5, rounds=30)
    ledger = Ledger(shelf, most=8.0, delta=1e-5)
    assert count_of(ledger, lambda number: noisy(str(number), noise=noise, planned=planned)) == 30
    assert ledger.spent().epsilon == pytest.approx(8.0, rel=1e-9)
    assert ledger.spent().delta == 1e-5


def test_a_sampled_run_has_all_rounds_of_its_plan_and_nothing_comes_after_it(shelf):
    ledger = Ledger(shelf, most=8.0, delta=1e-5)
    sampled = {"noise": 0.9951, "rate": 0.2, "planned": 30}  # epsilon 8 by loss distributions
    assert count_of(ledger, lambda number: noisy(str(number), **sampled)) == 30
    with pytest.raises(BudgetExceeded):
        spend(ledger, noisy("more", run="another", noise=50.0))


def test_a_server_that_chooses_after_answers_gets_no_more_than_the_filter(shelf):
    ledger = Ledger(shelf, most=8.0, delta=1e-5)
    spent = []
    for number in range(60):
        one = noisy(str(number), run=f"run {number}", noise=2.0 + number % 7)
        try:
            spend(ledger, one)
        except BudgetExceeded:
            continue
        spent.append(one.mechanism)
    assert 7 < epsilon_of(spent, delta=1e-5) <= 8.0 * (1 + 1e-9)


def test_the_budget_of_a_run_has_a_delta_of_its_own(shelf):
    noise = noise_multiplier_for(2.0, delta=1e-3, rounds=3)
    ledger = Ledger(shelf, most=8.0, delta=1e-6)
    for number in range(3):
        spend(ledger, noisy(str(number), noise=noise), budget=2.0, delta=1e-3)
    with pytest.raises(BudgetExceeded):
        spend(ledger, noisy("4", noise=noise), budget=2.0, delta=1e-3)


def test_without_a_delta_no_gaussian_mechanism_is_answered(shelf):
    with pytest.raises(BudgetExceeded):
        Ledger(shelf, most=1e9).once(noisy(noise=1e6), never, budget=1e9, delta=1e-5)
    with pytest.raises(BudgetExceeded):
        Ledger(shelf, most=1e9, delta=1e-5).once(noisy(noise=1e6), never, budget=1e9)
    assert not shelf.lines


def test_pure_epsilons_and_gaussian_mechanisms_share_a_ceiling(shelf):
    ledger = Ledger(shelf, most=8.0, delta=1e-5)
    ledger.once(asked("tree", run="trees", epsilon=3.0), lambda: b"tree", budget=3.0)
    noise = noise_multiplier_for(5.0, delta=1e-5, rounds=2)
    spend(ledger, noisy("1", noise=noise))
    assert ledger.covers(asked("small", run="trees", epsilon=0.5), budget=4.0)
    spend(ledger, noisy("2", noise=noise))
    assert not ledger.covers(asked("small", run="trees", epsilon=0.5), budget=4.0)
    assert ledger.spent().epsilon == pytest.approx(8.0)
    assert ledger.spent("trees").epsilon == 3.0
    assert ledger.spent("trees").delta == 0


def test_replaced_records_count_gaussian_mechanisms_with_half_the_noise(shelf):
    ledger = Ledger(shelf, most=100.0, delta=1e-5)
    spend(ledger, noisy("1", noise=4.0), budget=100.0)
    ledger.once(asked("t", run="t", relation=NeighboringRelation.REPLACE), lambda: b"tree", budget=1.0)
    assert ledger.spent().epsilon == pytest.approx(1.0 + epsilon_of([GaussianRounds(2.0, 1)], delta=1e-5))
    assert ledger.spent().relation is NeighboringRelation.REPLACE


def test_a_promise_to_nodes_beside_one_to_records_is_one_to_records(shelf):
    ledger = Ledger(shelf, most=100.0, delta=1e-5)
    spend(ledger, noisy("1", noise=4.0, unit=PrivacyUnit.NODE), budget=100.0)
    assert ledger.spent().unit is PrivacyUnit.NODE
    spend(ledger, noisy("2", noise=3.0, run="another"), budget=100.0)
    assert ledger.spent().unit is PrivacyUnit.RECORD
    both = [GaussianRounds(2.0, 1), GaussianRounds(3.0, 1)]
    assert ledger.spent().epsilon == pytest.approx(epsilon_of(both, delta=1e-5))


def test_a_sampled_plan_does_not_outlive_another_relation(shelf):
    ledger = Ledger(shelf, most=100.0, delta=1e-5)
    spend(ledger, noisy("1", noise=4.0, rate=0.1, planned=3), budget=100.0)
    assert not ledger.covers(asked("t", run="t", relation=NeighboringRelation.REPLACE), budget=1.0)
    assert ledger.covers(asked("t", run="t"), budget=1.0)


def test_of_shares_of_a_run_the_one_with_most_rounds_counts(shelf):
    ledger = Ledger(shelf, most=100.0, delta=1e-5)
    for number, share in enumerate([0, 0, 1, 2]):
        spend(ledger, noisy(str(number), noise=3.0, run=f"run/{share}"), budget=100.0)
    assert ledger.spent().epsilon == pytest.approx(epsilon_of([GaussianRounds(3.0, 2)], delta=1e-5))
    spend(ledger, noisy("other", noise=2.0, run="run/2"), budget=100.0)
    everything = [GaussianRounds(3.0, 4), GaussianRounds(2.0, 1)]
    assert ledger.spent().epsilon == pytest.approx(epsilon_of(everything, delta=1e-5)), "different noise adds up"


@pytest.mark.parametrize(
    "more",
    [
        {"mechanism": {"noise_multiplier": 0.0, "rounds": 1}},
        {"mechanism": {"noise_multiplier": 1.0, "rounds": 0}},
        {"mechanism": 3},
        {"epsilon": 1.0, "mechanism": GaussianRounds(1.0, 1)},
        {"planned": -1},
        {"unit": "person"},
    ],
)
def test_a_booking_of_no_mechanism_is_refused(more):
    with pytest.raises((ValueError, TypeError)):
        Booking(**{"question": "q", "run": "r", "about": "cnn", "round_number": 1, "epsilon": 0.0, "is_secure": True,
                   "relation": NeighboringRelation.ADD_REMOVE} | more)  # fmt: skip


def test_a_line_whose_noise_was_made_larger_is_named(shelf):
    spend(Ledger(shelf, most=8.0, delta=1e-5), noisy(noise=1.5))
    shelf.lines = shelf.lines.replace(b'"noise_multiplier": 1.5', b'"noise_multiplier": 9.5')
    with pytest.raises(LedgerDamaged, match="line 2"):
        Ledger(shelf).spent()
