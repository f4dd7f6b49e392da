"""Memories of nodes in shared memory come back unchanged, and their place is not reused while a process reads."""

from __future__ import annotations

import os
from multiprocessing import Pipe

import numpy as np
import pytest

from fedlearn.engine.embedded import node_store
from fedlearn.engine.embedded.node_store import NodeStore
from fedlearn.engine.embedded.sharing import SharedMemory, hand_over


@pytest.fixture
def made() -> list[SharedMemory]:
    return []


@pytest.fixture
def store(made) -> NodeStore:
    return NodeStore(2, made.append)


def test_it_holds_what_a_dictionary_would(store):
    rng, expected = np.random.default_rng(1), {}
    for step in range(2000):
        node = int(rng.integers(30))
        if rng.random() < 0.2:
            assert (node in store) == (node in expected)
            store.pop(node, None)
            expected.pop(node, None)
        else:
            store[node] = expected[node] = rng.bytes(int(rng.integers(0, 300)))
        if step % 7 == 0:
            store.reuse()
    assert dict(store) == expected
    assert len(store) == len(expected)
    store.clear()
    assert dict(store) == {}


def test_another_process_reads_it_where_the_span_says():
    ours, theirs = Pipe()
    store = NodeStore(2, lambda memory: hand_over(memory, ours, os.getpid()))
    store[7] = b"seven"
    store[8] = bytes(range(200))
    span = store.span_of(8)
    assert span.read(theirs.recv().receive(theirs)) == bytes(range(200))
    assert store.span_of(9) is None


def test_what_was_replaced_stays_where_it_is_until_nobody_reads_it(store, made):
    store[7] = b"before"
    span = store.span_of(7)
    for number in range(20):
        store[7] = b"after %d" % number
        store[8] = b"other %d" % number
    assert span.read(made[0]) == b"before"
    store.reuse()
    for number in range(40):
        store[100 + number] = b"new"
    assert span.start in {store.span_of(100 + number).start for number in range(40)}


def test_a_store_that_is_written_again_and_again_does_not_grow(store, made):
    for number in range(100):
        for node in range(10):
            store[node] = bytes([number]) * (3000 + number)
        store.reuse()
    assert len(made) == 1
    assert store._end == 2 * 10 * 4096


def test_what_does_not_fit_gets_another_shared_memory_of_the_next_slot(store, made, monkeypatch):
    monkeypatch.setattr(node_store, "SEGMENT", 4096)
    for node in range(9):
        store[node] = bytes([node]) * 1000
    store[9] = bytes(5000)
    assert [(memory.slot, memory.size) for memory in made] == [(2, 4096), (3, 4096), (4, 4096), (5, 8192)]
    assert [store[node][:1] for node in range(9)] == [bytes([node]) for node in range(9)]
