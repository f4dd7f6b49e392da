"""The ray engine's grid: a node reads its messages in turn, and a runner that is lost is not the end."""

from __future__ import annotations

import threading
import time

import pytest
from flwr.app import Message, RecordDict

from fedlearn.engine.node_calls import error_reply
from fedlearn.engine.ray_runtime.runner_grid import RunnerGrid
from tests.waiting import wait_until


class Gate:
    """A runner whose nodes wait until somebody lets them go on."""

    def __init__(self):
        self.running = []
        self.open = threading.Event()

    def run(self, message, context, *, seconds):
        self.running.append(message.metadata.dst_node_id)
        self.open.wait(10)
        return error_reply(message, 2, "done"), context

    def close(self):
        self.open.set()


@pytest.fixture
def grid_of():
    made = []

    def grid_of(*runners):
        made.append(RunnerGrid(runners, 20, {}))
        return made[-1]

    yield grid_of
    for grid in made:
        grid.close()


def query(node):
    return Message(RecordDict(), node, "query")


def errors(replies):
    return {
        reply.metadata.src_node_id: (reply.error.code, reply.error.reason) for reply in replies if reply.has_error()
    }


def test_sending_does_not_wait_for_the_nodes(grid_of):
    gate = Gate()
    grid = grid_of(gate)
    (message_id,) = grid.push_messages([query(4)])
    assert list(grid.pull_messages([message_id])) == []
    gate.open.set()
    wait_until(lambda: errors(grid.pull_messages([message_id])) == {4: (2, "done")}, "the nodes", 10)


def test_a_node_reads_its_messages_in_turn_and_others_do_not_wait_for_it(grid_of):
    gate = Gate()
    grid = grid_of(gate, gate, gate)
    ids = list(grid.push_messages([query(4), query(4), query(4), query(9)]))
    wait_until(lambda: len(gate.running) == 2, "the nodes", 10)
    time.sleep(0.05)  # a third one would have begun
    assert sorted(gate.running) == [4, 9]
    gate.open.set()
    grid.node_states()  # waits until all is read
    assert len(list(grid.pull_messages(ids))) == 4
    assert gate.running.count(4) == 3


def test_what_a_node_keeps_is_asked_for_when_it_has_read_everything(threads, ask):
    threads.push_messages([ask(3, "nap"), ask(3, "nap")])
    kept = threads.node_states()
    threads.send_and_receive([ask(3)])
    assert len(kept) > 0
    assert threads.node_states() != kept


def test_a_node_whose_process_dies_fails_alone(threads, ask):
    replies = list(threads.send_and_receive([ask(node, "exit" if node in (5, 6, 17) else "") for node in range(2, 22)]))
    assert len(replies) == 20
    assert errors(replies) == dict.fromkeys((5, 6, 17), (8, "gone"))


def test_a_message_that_is_not_answered_in_time_expires(threads, ask):
    replies = threads.send_and_receive([ask(2, "hang", ttl=0.2), ask(3, "hang", ttl=0.2), ask(4, ttl=0.2)])
    # Node 4 had to wait for a free runner until its time was over, too.
    assert errors(replies) == dict.fromkeys((2, 3, 4), (3, "no answer within 0.2 s"))


def test_nobody_waits_longer_than_told_to(threads, ask):
    begin = time.monotonic()
    replies = list(threads.send_and_receive([ask(2, "hang"), ask(3)], timeout=0.3))
    assert 0.3 <= time.monotonic() - begin < 5
    assert [reply.metadata.src_node_id for reply in replies] == [3]


def test_a_runner_that_fails_serves_the_next_message(grid_of):
    class Broken(Gate):
        def run(self, message, context, *, seconds):
            raise OSError("no route")

    replies = grid_of(Broken()).send_and_receive([query(4), query(5)])
    assert errors(replies) == dict.fromkeys((4, 5), (2, "OSError: no route"))


def test_closing_ends_the_threads_and_forgets_what_waits(grid_of):
    before = threading.active_count()
    gate = Gate()
    grid = grid_of(gate)
    grid.push_messages([query(4), query(5)])
    wait_until(lambda: gate.running, "the nodes", 10)
    grid.close()
    assert gate.running == [4]
    assert threading.active_count() == before
