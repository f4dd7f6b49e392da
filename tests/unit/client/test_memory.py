"""A node's memory: texts and arrays, in the context of a simulated node and in the file of one on a network."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, RecordDict

from client.memory import NodeMemory, keep, memory_of
from client.owner.memory_file import memory_at_home
from client.request import Request
from fedlearn import flower
from fedlearn.config import config_from, to_flower
from fedlearn.core.errors import RunFailed

FLAT = {"clients": 4, "data.dataset": "digits", "out": "/runs/first"}
LEARNED = {"fc.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "fc.bias": np.array(-0.0)}
MESSAGE = flower.received(RecordDict(), node_id=7, message_type="train", message_id="1", ttl=60.0)


def context(**node_config: str | bool) -> Context:
    """Return what a task finds: on a network the state of the task before is empty."""
    return Context(
        1, 7, {"partition-id": 3, "num-partitions": 4, **node_config}, RecordDict(), to_flower(config_from(FLAT))
    )


def at_home(folder, change=lambda memory: None, *, out="/runs/first", state=None):
    """Let a fresh node of a network handle a message in which its memory is changed; return what it then held."""
    here = context(memory=str(folder))
    here.run_config["out"] = out
    here.state.update(state or {})
    with memory_at_home(Request.of(MESSAGE, here)):
        seen = memory_of(here)
        change(seen)
        keep(here, seen)
    assert memory_of(here) == NodeMemory()
    return seen


def owes(value):
    def change(memory):
        memory.texts["account"] = f"spent {value}"
        memory.arrays["residual"] = {name: array * np.float32(value) for name, array in LEARNED.items()}

    return change


def test_texts_and_arrays_come_back_as_they_were_kept():
    here = context()
    keep(here, NodeMemory({"account": "é"}, {"control": LEARNED, "nothing": {}}))
    memory = memory_of(here)
    assert memory.texts == {"account": "é"}
    assert list(memory.arrays["control"]) == list(LEARNED)
    for name, array in LEARNED.items():
        back = memory.arrays["control"][name]
        assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert memory.arrays["nothing"] == {}


def test_what_is_taken_out_of_the_memory_is_forgotten_and_nothing_else():
    here = context()
    here.state["somebody's own"] = ConfigRecord({"x": 1})
    keep(here, NodeMemory({"a": "1", "b": "2"}, {"residual": LEARNED, "control": LEARNED}))
    keep(here, NodeMemory({"b": "2"}, {"control": LEARNED}))
    assert memory_of(here).texts == {"b": "2"}
    assert list(memory_of(here).arrays) == ["control"]
    keep(here, NodeMemory())
    assert list(here.state) == ["somebody's own"]


def test_in_a_simulation_the_memory_stays_in_the_context():
    here = context()
    with memory_at_home(Request.of(MESSAGE, here)):
        keep(here, NodeMemory({"account": "0.5"}))
    assert memory_of(here) == NodeMemory({"account": "0.5"})
    assert memory_of(context()) == NodeMemory()


def test_a_node_whose_process_is_new_goes_on_with_its_texts_and_its_residual(tmp_path):
    at_home(tmp_path, owes(2))
    memory = at_home(tmp_path)
    assert memory.texts == {"account": "spent 2"}
    np.testing.assert_array_equal(memory.arrays["residual"]["fc.weight"], LEARNED["fc.weight"] * 2)


def test_another_run_folder_is_another_memory(tmp_path):
    at_home(tmp_path, owes(2))
    assert at_home(tmp_path, out="/runs/second") == NodeMemory()


def test_what_a_context_brings_along_does_not_stand_beside_the_file(tmp_path):
    here = context()
    keep(here, NodeMemory({"account": "spent nothing"}, {"old": LEARNED}))
    at_home(tmp_path, owes(2))
    memory = at_home(tmp_path, state=here.state)
    assert memory.texts == {"account": "spent 2"}
    assert list(memory.arrays) == ["residual"]


def test_a_memory_that_has_not_changed_is_not_written(tmp_path):
    at_home(tmp_path)
    assert list(tmp_path.iterdir()) == []
    at_home(tmp_path, owes(2))
    (file,) = tmp_path.iterdir()
    written = file.stat()
    at_home(tmp_path)
    at_home(tmp_path, owes(2))
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (written.st_ino, written.st_mtime_ns)
    at_home(tmp_path, owes(3))
    assert file.stat().st_ino != written.st_ino


def test_a_memory_that_has_not_changed_is_synced_as_a_kill_may_have_come_before_that(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("client.owner.memory_file.sync_folder", synced.append)
    at_home(tmp_path)
    assert synced == []  # there is nothing yet
    at_home(tmp_path, owes(1))
    assert synced == []  # it was written, and synced by that
    assert at_home(tmp_path).texts == {"account": "spent 1"}
    assert synced == [tmp_path]


def test_what_was_kept_before_a_client_failed_is_written(tmp_path):
    here = context(memory=str(tmp_path))
    with pytest.raises(ValueError, match="no"), memory_at_home(Request.of(MESSAGE, here)):
        keep(here, NodeMemory({"account": "spent"}))
        raise ValueError("no")
    assert at_home(tmp_path).texts == {"account": "spent"}


@pytest.mark.parametrize("damage", ["empty", "cut", "one bit", "longer", "another file"])
def test_a_damaged_file_is_an_error_that_names_it_and_never_an_empty_memory(tmp_path, damage):
    at_home(tmp_path, owes(2))
    (file,) = tmp_path.iterdir()
    data = file.read_bytes()
    flipped = bytes([*data[:40], data[40] ^ 1, *data[41:]])
    file.write_bytes({"empty": b"", "cut": data[:-1], "one bit": flipped, "longer": data + b"\0"}.get(damage, b"{}"))
    with pytest.raises(RunFailed, match=r"^the client's memory .* is damaged: [^\n]*$") as raised:
        at_home(tmp_path)
    assert str(file) in str(raised.value)
    assert file.exists()


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path):
    at_home(tmp_path, owes(2))
    (file,) = tmp_path.iterdir()
    file.unlink()
    file.mkdir()
    with pytest.raises(RunFailed, match=r"3-.*\.memory cannot be read: Is a directory$"):
        at_home(tmp_path)


def test_a_visit_that_looked_before_the_file_was_read_forgets_what_it_saw(tmp_path):
    at_home(tmp_path, owes(2))
    request = Request.of(MESSAGE, context(memory=str(tmp_path)))
    assert request.memory == NodeMemory()
    with memory_at_home(request):
        assert request.memory.texts == {"account": "spent 2"}
