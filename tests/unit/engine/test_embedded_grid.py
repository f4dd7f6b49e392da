"""A grid with workers of its own survives failures, and leaks no memory or descriptor."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection

import numpy as np
import pytest

from fedlearn import wire
from tests.contracts.test_grids import answers, codes


def test_a_node_that_dies_fails_alone(embedded, ask):
    replies = list(
        embedded.send_and_receive([ask(node, "exit" if node in (5, 6, 17) else "") for node in range(2, 22)])
    )
    assert {node for node, code in codes(replies).items() if code} == {5, 6, 17}
    assert {r.error.code for r in replies if r.has_error()} == {8}
    assert {r.error.reason for r in replies if r.has_error()} == {"its worker process died (exit code 5)"}
    assert {answer["calls"] for answer in answers(replies).values()} == {1}


def test_a_node_that_is_alone_in_its_task_and_dies_fails_alone(embedded, ask):
    assert codes(embedded.send_and_receive([ask(2, "exit")])) == {2: 8}


def test_the_child_of_a_client_that_forks_does_not_answer_too(embedded, ask):
    for calls in (1, 2, 3):
        told = answers(embedded.send_and_receive([ask(node, "fork" if node == 5 else "") for node in range(2, 22)]))
        assert [answer["calls"] for answer in told.values()] == [calls] * 20


def test_what_nodes_keep_does_not_go_through_the_pipes(embedded, ask, monkeypatch):
    send, receive = Connection._send, Connection._recv
    counts = []
    monkeypatch.setattr(Connection, "_send", lambda pipe, data, *_: counts.append(len(data)) or send(pipe, data))
    monkeypatch.setattr(Connection, "_recv", lambda pipe, size, *_: counts.append(size) or receive(pipe, size))
    for calls in (1, 2, 3):
        told = answers(embedded.send_and_receive([ask(node, "hoard") for node in range(2, 8)]))
        assert {answer["calls"] for answer in told.values()} == {calls}
    assert len(embedded.node_states()) > 6_000_000
    assert 0 < sum(counts) < 50_000


def test_a_message_that_is_not_answered_in_time_expires(embedded, ask):
    begin = time.monotonic()
    replies = embedded.send_and_receive([ask(2, "hang", ttl=0.5), ask(3, ttl=0.5)])
    assert time.monotonic() - begin < 5
    assert codes(replies)[2] == 3
    told = answers(embedded.send_and_receive([ask(2)]))
    assert told[2]["calls"] == 1


def test_nobody_waits_longer_than_told_to(embedded, ask):
    embedded.send_and_receive([ask(node) for node in range(2, 6)])  # the workers have started
    begin = time.monotonic()
    replies = embedded.send_and_receive([ask(2, "hang"), *(ask(node) for node in range(3, 22))], timeout=1.0)
    assert 0.9 < time.monotonic() - begin < 5
    assert codes(replies) == dict.fromkeys(range(3, 22), 0)  # those behind it in its task, too
    assert len(embedded._pool._workers) <= 2


@pytest.mark.long
def test_as_many_nodes_may_hang_as_there_are_workers_and_some(embedded, ask):
    replies = embedded.send_and_receive([ask(node, "hang" if node < 6 else "") for node in range(2, 22)], timeout=4.0)
    assert codes(replies) == dict.fromkeys(range(6, 22), 0)
    assert len(answers(embedded.send_and_receive([ask(node) for node in range(2, 22)]))) == 20
    assert len(embedded._pool._workers) == 2


@pytest.mark.long
def test_what_was_done_twice_counts_once(embedded, ask):
    messages = [ask(node, "doze" if node == 2 else "", ttl=8.0) for node in range(2, 22)]
    for calls in (1, 2):
        told = answers(embedded.send_and_receive(messages))
        assert {node: answer["calls"] for node, answer in told.items()} == dict.fromkeys(range(2, 22), calls)


def usage_of(grid, ask, size, rounds):
    """Send arrays to all nodes again and again; return the workers' descriptors and mappings at the end."""
    for _ in range(rounds):
        record = wire.pack_arrays({"w": np.zeros(size)})
        told = answers(grid.send_and_receive([ask(node, x=record) for node in grid.get_node_ids()]))
    return max((answer["descriptors"], answer["mappings"]) for answer in told.values())


@pytest.mark.slow
def test_workers_keep_neither_descriptors_nor_memory_of_earlier_batches(embedded, ask):
    before = usage_of(embedded, ask, 1000, 12)  # every slot of a worker has been written
    assert usage_of(embedded, ask, 1000, 30) == before
    for size in range(2000, 200_000, 20_000):
        after = usage_of(embedded, ask, size, 1)
    assert after == before
