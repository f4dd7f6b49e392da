"""Memories of nodes are appended to a file that stays short, and read back after any damage."""

from __future__ import annotations

import random

import pytest

from fedlearn.runs import checkpoint, files, memories, published
from fedlearn.runs.checkpoint import RunStore
from fedlearn.runs.memories import FEWEST, MemoryFile, packed, unpacked
from tests.unit.runs.test_checkpoint import record, state_of

MEMORY = 100_000  # bytes of one


class Nodes:
    """Keeps what nodes keep, as an engine does."""

    def __init__(self):
        self.kept = {}
        self.changed = set()

    def keep(self, node, data):
        self.kept[node] = data
        self.changed.add(node)

    def save(self, store, number):
        changed = packed((node, self.kept[node]) for node in sorted(self.changed))
        self.changed.clear()
        store.save(
            state_of(number), {}, record(number), changed_nodes=changed, all_nodes=lambda: packed(self.kept.items()),
            seconds=1.0,
        )  # fmt: skip

    def check(self, folder):
        store = RunStore(folder)
        store.load()
        assert unpacked(store.node_states) == {node: data for node, data in self.kept.items() if data}
        return store


@pytest.fixture
def written(monkeypatch):
    """The lengths of all that is written."""
    sizes = []
    for real in (files.write_atomically, files.write_from):
        for module in (checkpoint, memories, published):
            counted = lambda *given, real=real: (sizes.append(len(given[-1])), real(*given))  # noqa: E731
            monkeypatch.setattr(module, real.__name__, counted)
    return sizes


def test_a_commit_writes_the_memories_that_have_changed_and_no_others(tmp_path, written):
    nodes, store = Nodes(), RunStore(tmp_path)
    store.begin(state_of(0))
    for node in range(60):
        nodes.keep(node, b"a" * MEMORY)
    nodes.save(store, 1)
    for number in range(2, 20):
        written.clear()
        nodes.keep(number, b"b" * MEMORY)
        nodes.save(store, number)
        assert MEMORY < sum(written) < MEMORY + 20_000
    nodes.check(tmp_path)


def test_the_file_is_at_most_twice_as_long_as_what_nodes_keep(tmp_path, written):
    """However often they change: on average each byte is written twice."""
    nodes, store, rng = Nodes(), RunStore(tmp_path), random.Random(1)
    store.begin(state_of(0))
    changed = 0
    for number in range(1, 150):
        for node in rng.sample(range(20), 3):
            nodes.keep(node, rng.randbytes(MEMORY) if rng.random() < 0.9 else b"")
            changed += len(nodes.kept[node])
        nodes.save(store, number)
        (file,) = tmp_path.glob("checkpoint/*.nodes")
        assert file.stat().st_size <= max(2 * len(packed(nodes.kept.items())) + 10 * MEMORY, FEWEST)
        if number % 40 == 0:
            store = nodes.check(tmp_path)
    assert sum(written) < 2.5 * changed
    assert int(file.name[6:12]) > 100  # it was begun anew


def test_nodes_that_forget_all_leave_no_file_where_it_would_be_written_anew(tmp_path):
    nodes, store = Nodes(), RunStore(tmp_path)
    store.begin(state_of(0))
    nodes.keep(2, bytes(FEWEST))
    nodes.save(store, 1)
    nodes.keep(2, b"")
    nodes.save(store, 2)
    nodes.check(tmp_path)


def test_an_entry_that_is_cut_short_is_refused():
    data = packed([(2, b"abc"), (7, b"")])
    for cut in {*range(1, len(data))} - {15}:  # where the first one ends
        with pytest.raises(ValueError, match="cut short"):
            unpacked(data[:cut])
    assert unpacked(data[:15]) == unpacked(data) == {2: b"abc"}


def test_the_hash_is_that_of_all_that_was_appended():
    file = MemoryFile.of("x", b"abc", whole=3).plus(b"def")
    assert (file.size, file.sha256) == (6, files.sha256(b"abcdef"))
