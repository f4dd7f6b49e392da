"""Messages whose nodes are trained ahead, together."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, RecordDict

from client import stacks
from client.learners.base import Learner, LocalFit, LocalTask
from client.memory import NodeMemory
from fedlearn import flower

STATE = {"w": np.zeros(2, np.float32)}


class Together(Learner):
    """Trains all that it is given in one memory, and remembers whom."""

    def __init__(self):
        self.trained = []
        self.memory = np.zeros(2, np.float32)

    def fit_many(self, state, tasks):
        self.trained.append([task.partition_id for task in tasks])
        if 13 in self.trained[-1]:
            raise ValueError("a number that is none")
        for task in tasks:
            self.memory[:] = task.partition_id
            task.memory.texts["seen"] = "yes"
            yield LocalFit({"w": self.memory}, 1, {})


def call(node):
    message = flower.received(
        RecordDict({"config": ConfigRecord({"node": node})}), node_id=node, message_type="train",
        message_id=f"to {node}", ttl=60.0,
    )  # fmt: skip
    settings = {"compression.downlink": "identity"}
    return message, Context(1, node, {"partition-id": node}, RecordDict(), settings)


def task_of(message, context):
    node = context.node_id
    if node == 7:
        raise ValueError("what it keeps cannot be read")
    state = STATE if node < 20 else {"w": np.ones(2, np.float32)}
    return state, LocalTask(None, np.arange(1), 0, 1, node, {}, NodeMemory())


@pytest.fixture(autouse=True)
def unboxed(monkeypatch):
    """Messages here bring no arrays."""
    pass_on = lambda message, context, call_next: call_next(message, context)  # noqa: E731
    monkeypatch.setattr(stacks, "boxed", pass_on)
    monkeypatch.setattr(stacks, "expand", pass_on)


def ahead(*nodes):
    learner = Together()
    calls = [call(node) for node in nodes]
    stacks.train_ahead(calls, learner, task_of)
    return learner.trained, [stacks.taken(message) for message, _ in calls], calls


def test_each_message_finds_its_fit_once_with_what_the_node_remembers():
    trained, made, calls = ahead(1, 2, 3)
    assert trained == [[1, 2, 3]]
    assert [each.fit.arrays["w"].tolist() for each in made] == [[1, 1], [2, 2], [3, 3]]
    assert [each.memory.texts for each in made] == [{"seen": "yes"}] * 3
    assert stacks.taken(calls[0][0]) is None


def test_a_message_that_cannot_be_read_is_left_to_its_node():
    trained, made, _ = ahead(1, 7, 3)
    assert trained == [[1, 3]]
    assert [each is None for each in made] == [False, True, False]


def test_a_stack_that_fails_leaves_nothing_and_says_so_once(caplog):
    for _ in range(2):
        _, made, _ = ahead(1, 13)
        assert made == [None, None]
    assert caplog.messages == ["training.stack: these nodes are trained one by one: ValueError: a number that is none"]


@pytest.mark.parametrize("nodes", [(1,), (1, 7), (1, 20)])
def test_one_node_and_nodes_with_other_states_are_no_stack(nodes):
    trained, made, _ = ahead(*nodes)
    assert trained == []
    assert all(each is None for each in made)


def test_what_a_stack_has_left_behind_is_not_found_by_the_next():
    ahead(1, 2)
    message, _ = call(1)
    stacks.train_ahead([call(1), call(2)], Together(), task_of)
    ahead(3, 4)
    assert stacks.taken(message) is None
