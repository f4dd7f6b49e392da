from __future__ import annotations

import hashlib
import json
import os
import random
import sys

import numpy as np
import pytest
import safetensors.numpy

from fedlearn.core.errors import CheckpointError, RunFailed
from fedlearn.core.state_files import pack_state
from fedlearn.runs import checkpoint, files
from fedlearn.runs.checkpoint import RunStore
from fedlearn.runs.file_names import CHECKPOINT
from fedlearn.runs.files import sha256, write_atomically
from fedlearn.runs.history import RoundRecord
from fedlearn.runs.memories import packed, unpacked

REAL_WRITE = files._put_into_place


class Killed(BaseException):
    pass


def record(number, accuracy=0.5):
    counts = dict.fromkeys(
        ["ready", "cohort", "reported", "failed", "refused", "late", "bytes_down", "bytes_up", "uploads"], 3
    )
    seconds = dict.fromkeys(["selection_seconds", "training_seconds", "evaluation_seconds"], 0.25)
    measured = {"train_loss": 1.0, "loss": 2.0, "accuracy": accuracy}
    return RoundRecord(number, 1, **counts, bytes_protocol=3, **seconds, measured=measured)


def state_of(number):
    return {"w": np.full((2, 3), number, np.float32), "steps": np.array(number)}


def save(store, number, accuracy=0.5):
    memory = {"velocity/w": np.full((2, 3), number / 2)}
    kept = packed([(7, b"n%d" % number)])
    store.save(
        state_of(number), memory, record(number, accuracy),
        changed_nodes=kept, all_nodes=lambda: kept, seconds=10.0 * number, cpu_seconds=15.0 * number,
    )  # fmt: skip


def stored(folder, rounds):
    store = RunStore(folder)
    store.begin(state_of(0))
    for number in range(1, rounds + 1):
        save(store, number)
    return store


def assert_is_round(store, number, *, loaded=True):
    assert len(store.history.rounds) == number
    for name, array in state_of(number).items():
        np.testing.assert_array_equal(store.state[name], array)
        assert (store.state[name].dtype, store.state[name].shape) == (array.dtype, array.shape)
    if number:
        assert store.memory["velocity/w"][0, 0] == number / 2
    assert unpacked(store.node_states) == ({7: b"n%d" % number} if number and loaded else {})
    assert (store.seconds, store.cpu_seconds) == (10.0 * number, 15.0 * number)


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_what_was_saved_is_loaded(tmp_path, rounds):
    saved = stored(tmp_path, rounds)
    store = RunStore(tmp_path)
    assert store.exists
    store.load()
    assert_is_round(store, rounds)
    assert store.history == saved.history
    assert store.model_sha256 == saved.model_sha256
    assert sha256((tmp_path / "model.safetensors").read_bytes()) == saved.model_sha256


@pytest.mark.parametrize("rounds", [0, 2])
def test_what_nodes_keep_before_a_commit_is_stored_with_the_round_before_it(tmp_path, rounds):
    store = stored(tmp_path, rounds)
    store.keep_nodes(packed([(9, b"paid")]))
    store.keep_nodes(packed([(9, b"paid twice")]))
    loaded = RunStore(tmp_path)
    loaded.load()
    assert loaded.model_sha256 == store.model_sha256
    of_rounds = {7: b"n2"} if rounds else {}
    assert unpacked(loaded.node_states) == of_rounds | {9: b"paid twice"}
    for each in (store, loaded):
        save(each, rounds + 1)
    loaded.load()
    assert unpacked(loaded.node_states) == {7: b"n%d" % (rounds + 1), 9: b"paid twice"}


def test_what_was_kept_is_as_it_was_where_the_next_cannot_be_written(tmp_path, monkeypatch):
    store = stored(tmp_path, 1)
    store.keep_nodes(packed([(9, b"paid")]))

    def full(path, data):
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patch, pytest.raises(RunFailed, match="No space left"):
        patch.setattr(checkpoint, "write_atomically", full)
        store.keep_nodes(packed([(9, b"more")]))
    store.load()
    assert unpacked(store.node_states) == {7: b"n1", 9: b"paid"}


def test_only_the_files_of_the_latest_round_are_kept(tmp_path):
    stored(tmp_path, 3)
    names = {path.name for path in (tmp_path / "checkpoint").iterdir()}
    of_the_round = {"round-000003.state.safetensors", "round-000003.memory.safetensors", "round-000001.nodes"}
    assert names == of_the_round | {"history.jsonl"}


def test_best_is_the_first_round_of_highest_accuracy(tmp_path):
    store = RunStore(tmp_path)
    store.begin(state_of(0))
    for number, accuracy in enumerate([0.1, 0.7, 0.7, 0.3], start=1):
        save(store, number, accuracy)
    assert store.history.best.round_number == 2
    assert (tmp_path / "best.safetensors").read_bytes() == pack_state(state_of(2))


def test_metrics_table_has_one_row_for_each_round(tmp_path):
    stored(tmp_path, 2)
    lines = (tmp_path / "metrics.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("round_number,attempts,ready,cohort,reported")


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("nth", range(1, 8))
def test_kill_at_any_write_leaves_the_old_round_or_the_new_one(tmp_path, monkeypatch, nth, before):
    store = stored(tmp_path, 1)
    writes = 0

    def write(path, data, **more):
        nonlocal writes
        writes += 1
        if before and writes == nth:
            raise Killed
        REAL_WRITE(path, data, **more)
        if not before and writes == nth:
            raise Killed

    monkeypatch.setattr(files, "_put_into_place", write)
    with pytest.raises(Killed):
        save(store, 2, accuracy=0.9)
        raise Killed  # more writes than there are
    monkeypatch.undo()
    again = RunStore(tmp_path)
    again.load()
    number = len(again.history.rounds)
    assert number == (2 if nth > 3 or (nth == 3 and not before) else 1)  # the 3rd write is checkpoint.json
    assert_is_round(again, number)
    assert (tmp_path / "model.safetensors").read_bytes() == pack_state(state_of(number))
    assert (tmp_path / "best.safetensors").read_bytes() == pack_state(state_of(number))
    save(again, number + 1)  # and the run goes on
    assert_is_round(again, number + 1, loaded=False)


OPERATIONS = ("open", "os.rename", "os.remove", "os.mkdir", "fsync")
killing: list = []  # what is done at each file operation, while a test is at it


def at_operation(event, given):
    """Audit hooks cannot be removed: this one acts only inside a test."""
    if killing and event in OPERATIONS and not (event == "open" and not given[2] & (os.O_WRONLY | os.O_RDWR)):
        killing[0]()


sys.addaudithook(at_operation)


def killed_at(nth, monkeypatch, act):
    """Run `act` and kill it before its nth file operation; return whether it came to that."""
    count = 0
    real = os.fsync

    def operation():
        nonlocal count
        count += 1
        if count == nth:
            killing.clear()
            raise Killed

    def fsync(descriptor):
        at_operation("fsync", ())
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        killing.append(operation)
        try:
            act()
        except Killed:
            return True
        finally:
            killing.clear()
    return False


@pytest.mark.parametrize("torn", [False, True], ids=["whole", "torn"])
def test_kill_at_any_file_operation_leaves_a_round_and_nothing_beside_it(tmp_path, monkeypatch, torn):
    rng, points = random.Random(7), 0
    for nth in range(1, 99):
        folder = tmp_path / str(nth)
        store = stored(folder, 1)
        held = (folder / "checkpoint" / "history.jsonl").stat().st_size
        if not killed_at(nth, monkeypatch, lambda store=store: save(store, 2, accuracy=0.9)):
            break
        points += 1
        again = RunStore(folder)
        if torn and b'"rounds": 1' in (folder / CHECKPOINT).read_bytes():  # any part of what is not synced may be there
            history = folder / "checkpoint" / "history.jsonl"
            history.write_bytes(history.read_bytes()[: rng.randint(held, history.stat().st_size)])
        killed_at(rng.randint(1, 12), monkeypatch, again.load)  # and again, while it is taken up
        again = RunStore(folder)
        again.load()
        number = len(again.history.rounds)
        assert_is_round(again, number)
        left = {path.name for path in folder.rglob("*") if path.is_file()} - {"history.jsonl", CHECKPOINT}
        of_the_round = {f"round-00000{number}.{kind}.safetensors" for kind in ("state", "memory")}
        assert left == of_the_round | {"round-000001.nodes", "model.safetensors", "best.safetensors", "metrics.csv"}
        save(again, number + 1)
        assert (folder / "metrics.csv").read_text().count("\n") == number + 2
        last = RunStore(folder)
        last.load()
        assert_is_round(last, number + 1)
    assert points > 30


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_kill_inside_a_write_leaves_the_file_as_it_was(tmp_path, monkeypatch, step):
    path = tmp_path / "x"
    write_atomically(path, b"old")

    def killed(*_):
        raise Killed

    monkeypatch.setattr(*((files.os, "fsync") if step == "fsync" else (files.Path, "replace")), killed)
    with pytest.raises(Killed):
        write_atomically(path, b"new and longer")
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("suffix", ["state.safetensors", "memory.safetensors", "nodes"])
@pytest.mark.parametrize("damage", ["flipped", "shorter", "gone"])
def test_damaged_file_is_named(tmp_path, suffix, damage):
    stored(tmp_path, 1)
    path = tmp_path / "checkpoint" / f"round-000001.{suffix}"
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(data[:-1] if damage == "shorter" else bytes([data[0] ^ 1]) + data[1:])
    with pytest.raises(CheckpointError, match=path.name) as error:
        RunStore(tmp_path).load()
    assert "\n" not in str(error.value)


def changed(**changes):
    return lambda manifest: json.dumps(manifest | changes)


@pytest.mark.parametrize(
    "damage",
    [
        lambda manifest: "",
        lambda manifest: json.dumps(manifest)[:-10],
        lambda manifest: "[]",
        lambda manifest: "{}",
        changed(format=99),
        changed(files={}),
        changed(files=7),
        changed(seconds="long"),
        changed(history=[{"round_number": 1}]),
        changed(history=[]),
        changed(parameters=None),
    ],
)
def test_damaged_manifest_is_named(tmp_path, damage):
    stored(tmp_path, 1)
    path = tmp_path / CHECKPOINT
    path.write_text(damage(json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")
    with pytest.raises(CheckpointError, match=CHECKPOINT) as error:
        RunStore(tmp_path).load()
    assert "\n" not in str(error.value)


def test_folder_without_a_checkpoint_is_named(tmp_path):
    assert not RunStore(tmp_path).exists
    with pytest.raises(CheckpointError, match=str(tmp_path)):
        RunStore(tmp_path).load()


def test_same_arrays_give_the_same_file(tmp_path):
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert pack_state({"w": rows}) == pack_state({"w": np.asfortranarray(rows)})


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3), (1, 2)])
def test_shapes_are_kept(shape):
    array = np.zeros(shape, np.int64)
    assert safetensors.numpy.load(pack_state({"w": array}))["w"].shape == shape
    assert safetensors.numpy.load(pack_state({"w": array.T}))["w"].shape == shape[::-1]


def test_order_of_parameters_is_that_of_the_model_after_loading(tmp_path):
    names = [f"p{number % 7}.{number}" for number in range(30)]
    RunStore(tmp_path).begin({name: np.zeros(2, np.float32) for name in names})
    store = RunStore(tmp_path)
    store.load()
    assert list(store.state) == names


# --- states that nodes still work on ----------------------------------------------------------------------------------


def with_versions(folder, *versions):
    """Return a store of three rounds; the last says on which states nodes still work."""
    store = RunStore(folder)
    store.begin(state_of(0))
    for number, kept in enumerate(({0}, {0, 1}, {*versions}), start=1):
        store.save(state_of(number), {}, record(number), seconds=1.0, versions=kept)
    return store


def states_in(folder):
    return sorted(int(path.name[6:12]) for path in (folder / "checkpoint").glob("round-*.state.safetensors"))


def test_states_stay_stored_for_as_long_as_somebody_works_on_them(tmp_path):
    store = with_versions(tmp_path, 1)
    assert states_in(tmp_path) == [1, 3]
    loaded = RunStore(tmp_path)
    loaded.load()
    assert states_in(tmp_path) == [1, 3]
    for each in (store, loaded):
        for number in (1, 3):
            found = each.state_of(number)
            assert all((found[name] == array).all() for name, array in state_of(number).items())
            assert list(found) == list(each.state)
        with pytest.raises(CheckpointError, match=r"does not name .*round-000002.*, on which clients still work"):
            each.state_of(2)
    loaded.save(state_of(4), {}, record(4), seconds=1.0)
    assert states_in(tmp_path) == [4]


def test_an_older_state_that_was_changed_is_named(tmp_path):
    with_versions(tmp_path, 1)
    path = tmp_path / "checkpoint/round-000001.state.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    store = RunStore(tmp_path)
    store.load()
    with pytest.raises(CheckpointError, match=r"round-000001\.state\.safetensors is damaged or was changed by hand"):
        store.state_of(1)


def test_a_state_of_a_round_that_never_was_is_refused(tmp_path):
    with_versions(tmp_path, 1)
    text = (tmp_path / CHECKPOINT).read_text()
    rest = text.partition("\n")[2].replace("round-000001", "round-000009")
    digest = hashlib.sha256(rest.encode()).hexdigest()
    (tmp_path / CHECKPOINT).write_text(f'{{"sha256": "{digest}",\n{rest}')
    with pytest.raises(CheckpointError, match="names other files than those of round 3"):
        RunStore(tmp_path).load()


# --- stored seldom ----------------------------------------------------------------------------------------------------


def put_off(store, number, accuracy=0.5, *, is_worked_on=False):
    store.put_off(state_of(number), record(number, accuracy), is_worked_on=is_worked_on)


def best_in(folder):
    return (folder / "best.safetensors").read_bytes()


@pytest.mark.parametrize("best", [1, 2, 3, 4])
def test_rounds_that_were_put_off_are_stored_with_the_next_and_so_is_the_best_of_them(tmp_path, best):
    accuracies = {number: 0.9 if number == best else 0.6 - number / 10 for number in range(1, 5)}
    store, whole = stored(tmp_path / "seldom", 0), stored(tmp_path / "each", 0)
    for number, accuracy in accuracies.items():
        (put_off if number < 4 else save)(store, number, accuracy)
        save(whole, number, accuracy)
    for _ in range(2):  # as it was stored, and as it is taken up
        assert store.history == whole.history
        assert store.model_sha256 == whole.model_sha256
        assert_is_round(store, 4, loaded=store.node_states != b"")
        for name in ("metrics.csv", "best.safetensors", "model.safetensors", "checkpoint/history.jsonl"):
            assert (store.folder / name).read_bytes() == (whole.folder / name).read_bytes()
        store = RunStore(store.folder)
        store.load()
    save(store, 5, 0.1)
    assert states_in(store.folder) == [5]
    assert best_in(store.folder) == pack_state(state_of(best))
    RunStore(store.folder).load()


def test_who_is_killed_before_the_next_store_goes_back_to_the_last(tmp_path):
    store = stored(tmp_path, 2)
    for number in (3, 4):
        put_off(store, number, accuracy=0.9)
    assert len(store.history.rounds) == 4
    again = RunStore(tmp_path)
    again.load()
    assert_is_round(again, 2)
    assert best_in(tmp_path) == pack_state(state_of(1))


def test_of_states_that_were_put_off_those_are_stored_on_which_somebody_works(tmp_path):
    store = stored(tmp_path, 1)
    for number in (2, 3, 4):
        put_off(store, number, accuracy=0.1, is_worked_on=True)
    store.save(state_of(5), {}, record(5, 0.1), seconds=1.0, versions=[1, 3])
    assert states_in(tmp_path) == [1, 3, 5]
    loaded = RunStore(tmp_path)
    loaded.load()
    for number in (1, 3):
        assert all((loaded.state_of(number)[name] == array).all() for name, array in state_of(number).items())


def test_no_state_is_held_that_nobody_works_on(tmp_path):
    store = stored(tmp_path, 1)
    for number in range(2, 9):
        put_off(store, number, accuracy=0.9 if number == 3 else 0.1)
    assert list(store._committed.states) == [3]


def test_a_kill_while_rounds_are_stored_leaves_all_of_them_or_none(tmp_path, monkeypatch):
    points = 0
    for nth in range(1, 99):
        store = stored(tmp_path / str(nth), 1)
        put_off(store, 2, accuracy=0.8, is_worked_on=True)
        put_off(store, 3, accuracy=0.9, is_worked_on=True)
        if not killed_at(nth, monkeypatch, lambda store=store: save(store, 4)):
            break
        points += 1
        again = RunStore(store.folder)
        again.load()
        assert len(again.history.rounds) in (1, 4)
        assert_is_round(again, len(again.history.rounds))
        assert best_in(store.folder) == pack_state(state_of(1 if len(again.history.rounds) == 1 else 3))
        assert (store.folder / "metrics.csv").read_text().count("\n") == len(again.history.rounds) + 1
        save(again, len(again.history.rounds) + 1, accuracy=0.1)
        RunStore(store.folder).load()
    assert points > 30
