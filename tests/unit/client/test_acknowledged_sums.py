"""A node's sums hold what was counted: a report is taken out once, by its own round and attempt alone."""

import numpy as np
import pytest

from client.acknowledged_sums import book, undo, undo_from
from client.memory import NodeMemory
from fedlearn.core.cohort import At
from fedlearn.core.state import ArraySpec, Entries

LAYOUTS = {"control": {"w": ArraySpec((2, 2), "float32")}}


def sent(*values):
    return {"control": {"w": Entries(np.array(values, np.float32), np.array([0, 3]))}}


@pytest.fixture
def memory():
    memory = NodeMemory()
    book(memory, At(1, 1), sent(1.0, 2.0), LAYOUTS)
    book(memory, At(4, 2), sent(10.0, 20.0), LAYOUTS)
    return memory


def kept(memory):
    return memory.arrays["control"]["w"].tolist()


def test_a_sum_has_all_that_was_sent_and_zero_where_nothing_was(memory):
    assert kept(memory) == [[11.0, 0.0], [0.0, 22.0]]
    assert memory.arrays["control"]["w"].dtype == np.float32


def test_the_last_report_is_taken_out_once(memory):
    assert undo(memory, At(4, 2))
    assert kept(memory) == [[1.0, 0.0], [0.0, 2.0]]
    assert not undo(memory, At(4, 2))
    assert not undo(memory, At(1, 1))
    assert kept(memory) == [[1.0, 0.0], [0.0, 2.0]]


def test_other_memory_stays_although_the_report_is_taken_out(memory):
    memory.arrays["velocity"] = {"w": np.ones(4, np.float32)}
    assert undo(memory, At(4, 2))
    assert memory.arrays["velocity"]["w"].tolist() == [1.0] * 4


@pytest.mark.parametrize("at", [At(4, 1), At(4, 3), At(1, 1), At(5, 2), At(0, 0)])
def test_a_notice_of_another_attempt_changes_nothing(memory, at):
    assert not undo(memory, at)
    assert kept(memory) == [[11.0, 0.0], [0.0, 22.0]]


@pytest.mark.parametrize(("round_number", "expected"), [(4, 1.0), (3, 1.0), (5, 11.0)])
def test_an_instruction_for_a_round_that_is_in_it_takes_it_out(memory, round_number, expected):
    undo_from(memory, round_number)
    assert kept(memory)[0][0] == expected


def test_a_node_that_has_sent_nothing_has_nothing_to_take_out():
    memory = NodeMemory()
    assert not undo(memory, At(0, 0))
    undo_from(memory, 1)
    assert not memory.arrays
