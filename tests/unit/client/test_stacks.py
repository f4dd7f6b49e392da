"""Training messages of several nodes, handled together."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, RecordDict

from client.answer import report as plain_report
from client.app import handle_many
from client.isolated_fits import fits_of
from client.memory import memory_of
from fedlearn import flower, wire
from fedlearn.config import config_from, from_flower, to_flower
from fedlearn.core.cohort import Instruction
from fedlearn.models.loaded import initial_state

SETTINGS = to_flower(
    config_from({"clients": 20, "data.dataset": "digits", "model.name": "linear", "training.local_epochs": 1})
)


class Together:
    """The fits of a learner that trains all nodes in one memory, and notes whom; one alone as always."""

    def __init__(self, monkeypatch):
        self.trained = []
        monkeypatch.setattr(fits_of(from_flower(SETTINGS)), "fit_many", self.fit_many)
        self._fit = fits_of(from_flower(SETTINGS)).fit

    def fit_many(self, state, tasks):
        self.trained.append([task.partition_id for task in tasks])
        memory = {name: array.copy() for name, array in state.items()}
        for task in tasks:
            task.memory.texts["seen"] = "yes"
            if task.partition_id == 13:
                raise ValueError("a number that is none")
            fit = self._fit(state, task)
            for name, array in fit.arrays.items():
                memory[name][...] = array
            yield fit.replaced(memory)


@pytest.fixture
def together(monkeypatch):
    return Together(monkeypatch)


def call(node, *, state=None):
    arrays = {"no": np.zeros(3, np.float32)} if node == 7 else state or initial_state(SETTINGS, {})
    content = RecordDict({wire.ARRAYS: wire.pack_arrays(arrays)})
    message = flower.received(content, node_id=node, message_type="train", message_id=f"to {node}", ttl=60.0)
    message = flower.with_id(wire.with_instruction(message, Instruction(1, 1, 0), ttl=60.0))
    return message, Context(1, node, {"partition-id": node}, RecordDict(), SETTINGS)


def arrays_of(replies):
    return [{name: a.tobytes() for name, a in wire.read_state(reply.content).items()} for reply in replies]


def alone(*nodes):
    return arrays_of(reply for node in nodes for reply in handle_many([call(node)]))


def test_each_node_reports_its_own_fit_and_keeps_its_memory(together):
    calls = [call(node) for node in (1, 2, 3)]
    assert arrays_of(handle_many(calls)) == alone(1, 2, 3)
    assert together.trained == [[1, 2, 3]]
    assert [memory_of(context).texts for _, context in calls] == [{"seen": "yes"}] * 3


def test_a_node_that_cannot_read_its_message_fails_alone(together):
    calls = [call(1), call(7), call(3)]
    first, failed, last = handle_many(calls)
    assert isinstance(failed, BaseException)
    assert arrays_of([first, last]) == alone(1, 3)


def test_a_stack_that_fails_leaves_nothing_and_says_so_once(together, caplog):
    for _ in range(2):
        calls = [call(1), call(13)]
        assert arrays_of(handle_many(calls)) == alone(1, 13)
        assert [memory_of(context).texts for _, context in calls] == [{}, {}]
    why = "ValueError: a number that is none"
    assert caplog.messages == [f"training.stack: these clients are trained one by one: {why}"]


def test_nodes_with_other_states_are_no_stack(together):
    other = {name: array + np.float32(1) for name, array in initial_state(SETTINGS, {}).items()}
    first, second = handle_many([call(1), call(2, state=other)])
    assert together.trained == []
    assert arrays_of([first]) == alone(1)
    assert arrays_of([second]) != alone(2)


def test_a_reply_goes_into_a_box_where_the_message_came_in_one():
    calls = [call(1), call(2)]
    wire.box(calls[1][0].content)
    plain, boxed = handle_many(calls)
    assert wire.unbox(boxed.content)
    assert not wire.unbox(plain.content)
    assert arrays_of([plain, boxed]) == alone(1, 2)


def test_a_box_that_does_not_open_fails_its_node_alone(together):
    calls = [call(1), call(2), call(3)]
    calls[1][0].content.clear()
    calls[1][0].content[wire.BOX] = ConfigRecord({wire.BOX: b"spoiled bytes"})
    first, failed, last = handle_many(calls)
    assert str(failed).startswith("undecodable: the box")
    assert arrays_of([first, last]) == alone(1, 3)
    assert together.trained == [[1, 3]]


def test_a_node_whose_report_fails_costs_no_other_its_fit(together, monkeypatch):
    """What is done with each message after the common fit is done apart, and what has been learned is kept."""
    calls = [call(1), call(2), call(3)]
    monkeypatch.setattr("client.handlers.training.report", failing_for(2))
    first, failed, last = handle_many(calls)
    assert str(failed) == "no room"
    assert [memory_of(context).texts for _, context in calls] == [{"seen": "yes"}] * 3
    assert not isinstance(first, BaseException) and not isinstance(last, BaseException)


def failing_for(node):
    def report(request, answer, *, state):
        if request.partition_id == node:
            raise OSError("no room")
        return plain_report(request, answer, state=state)

    return report
