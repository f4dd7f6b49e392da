"""Attacks on what a run has stored: spoiled files, forged ones, full disks, kills. C1 to C8 are the faults they found.

What is read back must be what was written, or there is one line that names the file. FEDLEARN_SPOILED sets how many
spoiled folders are tried (150 by default); each is drawn from a seed of its own.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

import numpy as np
import pytest

from fedlearn.commands.shared import run_settings
from fedlearn.config import config_from
from fedlearn.core.errors import CheckpointError, FedlearnError, RunFailed, SettingError, UsageError
from fedlearn.data import cache, staging
from fedlearn.engine import inline
from fedlearn.runs import checkpoint, files
from fedlearn.runs.checkpoint import RunStore
from fedlearn.runs.file_names import CHECKPOINT, EVENTS
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.history import COLUMNS, RoundRecord
from fedlearn.runs.log import EventLog, EventTail
from fedlearn.runs.memories import packed, unpacked
from fedlearn.runs.nodes_csv import NodeTable
from fedlearn.runs.settings_of_resume import kept_settings
from tests.adversary import crashes, tiny

SPOILED = int(os.environ.get("FEDLEARN_SPOILED", "150"))
FILES = (
    "settings.toml", "checkpoint.json", "checkpoint/history.jsonl", "checkpoint/round-000003.state.safetensors",
    "checkpoint/round-000003.memory.safetensors", "checkpoint/round-000001.nodes",
)  # fmt: skip
SETTINGS = {"clients": 4, "strategy.name": "fedavgm", "training.lr": 0.125, "data.dataset": "digits"}
CHEAP = {
    "clients": 3, "rounds.total": 1, "rounds.cohort": 0, "data.dataset": "diabetes", "model.name": "dp-forest",
    "strategy.name": "forest_union",
    "engine.name": "inline",
}  # fmt: skip
ARRAYS = {"images": np.arange(600, dtype=np.uint8).reshape(6, 100), "labels": np.arange(6)}


def record(number, accuracy=0.5):
    counts = dict.fromkeys([name for name in COLUMNS if name != "round_number"], 1)
    return RoundRecord(number, **counts, measured={"train_loss": 1.0, "loss": None, "accuracy": accuracy / number})


def state_of(number):
    return {"w": np.full((2, 3), number, np.float32), "steps": np.array(number)}


def store_of(folder, config):
    return RunStore(folder, settings=kept_settings(config))


def save(store, number):
    memory = {"velocity/w": np.full((2, 3), number / 2)}
    kept = packed([(7, b"nodes %d" % number)])
    store.save(
        state_of(number), memory, record(number), changed_nodes=kept, all_nodes=lambda: kept, seconds=1.5 * number
    )


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A folder of three rounds, and what it reads back as."""
    folder = tmp_path_factory.mktemp("sound")
    config = config_from(SETTINGS)
    RunFolder(folder).write_settings(config)
    store = store_of(folder, config)
    store.begin(state_of(0))
    for number in (1, 2, 3):
        save(store, number)
    return folder, read_back(folder)


def read_back(folder):
    """Do what a resume does before it runs, and return all that the next bytes depend on."""
    config = run_settings({}, [], folder)
    RunFolder(folder).check_settings(config)
    store = store_of(folder, config)
    store.load()
    arrays = [(k, v.tobytes(), v.dtype.str) for part in (store.state, store.memory) for k, v in part.items()]
    rows = [each.as_row() for each in store.history.rounds]
    changing = {"engine", "out", "rounds", "evaluation", "data"}
    settings = config.model_dump()
    free = config.model_dump(include=changing)
    for name in ("dir", "notice"):
        free["data"].pop(name)
    free["rounds"].pop("total")
    free = {"data": free["data"], "rounds": free["rounds"]}
    kept = {name: value for name, value in settings.items() if name not in changing}
    return repr((arrays, rows, store.history.best, store.node_states, store.seconds, kept, free))


def spoil(path, rng):
    """Change a file in one of the ways that disks, editors and people do."""
    data = bytearray(path.read_bytes())
    place = rng.randrange(len(data))
    way = rng.randrange(11)
    if way == 0:
        data[place] ^= 1 << rng.randrange(8)
    elif way == 1:
        del data[place:]
    elif way == 2:
        data[place:place] = rng.randbytes(rng.randint(1, 40))
    elif way == 3:
        del data[place : place + rng.randint(1, 60)]
    elif way == 4:
        lines = bytes(data).splitlines(keepends=True)
        lines.pop(rng.randrange(len(lines)))
        data = bytearray(b"".join(lines))
    elif way == 5:
        lines = bytes(data).splitlines(keepends=True)
        rng.shuffle(lines)
        data = bytearray(b"".join(lines))
    elif way == 6:
        data = bytearray(
            rng.choice([b"", b"{}", b"[]", b"null", b"7", b"\0" * 99, b"[" * 10**5, b"9" * 5000, b"a = 1"])
        )
    elif way == 7:
        digits = [i for i, byte in enumerate(data) if chr(byte).isdigit()] or [place]
        data[rng.choice(digits)] = ord(rng.choice("0123456789"))
    elif way == 8:
        data[place:place] = rng.choice([b"9" * 5000, b"[" * 10**5, b'"\\u0000"', b"1e999", b"nan", b"-1", b"\n\n"])
    elif way == 9:
        path.unlink()
        return
    else:
        path.unlink()
        path.mkdir()
        return
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("name", FILES)
def test_c1_c2_spoiled_folder_is_read_as_it_was_or_named_in_one_line(sound, tmp_path, name):
    """Older versions: other settings are taken silently, and traces of wrong types."""
    folder, before = sound
    for seed in range(max(SPOILED // len(FILES), 1)):
        spoiled = tmp_path / str(seed)
        shutil.copytree(folder, spoiled)
        spoil(spoiled / name, random.Random(f"{name} {seed}"))
        try:
            after = read_back(spoiled)
        except FedlearnError as error:
            assert "\n" not in str(error) and len(str(error)) < 6000, (name, seed)
            assert str(spoiled) in str(error) or "settings.toml" in str(error), (name, seed, str(error))
        else:
            assert after == before.replace(str(folder), str(spoiled)), (name, seed)


@pytest.mark.parametrize(
    ("line", "edited", "setting"),
    [
        ("seed = 1", "seed = 2", "seed"),
        ("lr = 0.125", "lr = 0.25", "training.lr"),
        ("lr = 0.125", "", "training.lr"),
        ("clients = 4", "clients = 5", "clients"),
        ('name = "fedavgm"', 'name = "fedadam"', "strategy.name"),
        ('codec = "identity"', 'codec = "drop"', "compression.codec"),
    ],
)
def test_c1_setting_that_was_edited_by_hand_is_named(sound, tmp_path, line, edited, setting):
    spoiled = tmp_path / "run"
    shutil.copytree(sound[0], spoiled)
    text = (spoiled / "settings.toml").read_text()
    assert f"\n{line}\n" in f"\n{text}"
    (spoiled / "settings.toml").write_text(f"\n{text}".replace(f"\n{line}\n", f"\n{edited}\n"))
    with pytest.raises(SettingError, match=rf"^{setting} = .*was begun with .*settings\.toml.*put that value back"):
        read_back(spoiled)


@pytest.mark.parametrize(
    "edit", [("workers = 0", "workers = 3"), ("total = 20", "total = 99"), ("every = 1", "every = 2")]
)
def test_c1_setting_that_is_free_may_be_edited_by_hand(sound, tmp_path, edit):
    folder = tmp_path / "run"
    shutil.copytree(sound[0], folder)
    text = (folder / "settings.toml").read_text()
    assert edit[0] in text
    (folder / "settings.toml").write_text(text.replace(*edit))
    assert read_back(folder)


def resealed(text):
    return b'{"sha256": "%s",\n%s' % (hashlib.sha256(text).hexdigest().encode(), text)


VALUES = [None, "x", -1, 10**30, 0.5, True, [], {}, [[1]], {"a": {"b": 1}}, "x" * 3000, "checkpoint/../../x"]


def test_c2_forged_manifest_with_a_right_checksum_is_one_line(sound, tmp_path):
    """A file with a recomputed checksum gives no traceback either."""
    folder = tmp_path / "run"
    shutil.copytree(sound[0], folder)
    path = folder / CHECKPOINT
    body = b"{" + path.read_bytes().partition(b"\n")[2]
    read_back(folder)
    for seed in range(SPOILED):
        rng = random.Random(seed)
        manifest = json.loads(body)
        within = manifest
        while rng.random() < 0.5 and (inner := [each for each in within.values() if isinstance(each, dict) and each]):
            within = rng.choice(inner)
        key = rng.choice(list(within))
        if rng.random() < 0.2:
            del within[key]
        else:
            within[key] = rng.choice(VALUES)
        text = json.dumps(manifest).encode()[1:]
        path.write_bytes(resealed(text if rng.random() < 0.9 else text.replace(b": ", b": " + b"[" * 10**5, 1)))
        with suppress(FedlearnError):
            read_back(folder)


@pytest.mark.parametrize("value", ['"many"', "null", "-3", "true", "[1]", '{"a": 1}', "9" * 5000, "[" * 10**5, "1e999"])
@pytest.mark.parametrize("column", ["cohort", "accuracy", "training_seconds"])
def test_c2_forged_history_with_right_checksums_is_one_line(sound, tmp_path, column, value):
    folder = tmp_path / "run"
    shutil.copytree(sound[0], folder)
    path = folder / "checkpoint" / "history.jsonl"
    row = json.loads(path.read_text().splitlines()[0])
    before = path.read_text()
    path.write_text(before.replace(f'"{column}": {json.dumps(row[column])}', f'"{column}": {value}', 1))
    assert path.read_text() != before
    manifest = json.loads((folder / CHECKPOINT).read_text())
    manifest["history_bytes"] = path.stat().st_size
    manifest["history_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    del manifest["sha256"]
    (folder / CHECKPOINT).write_bytes(resealed(json.dumps(manifest).encode()[1:]))
    try:
        read_back(folder)
    except FedlearnError as error:
        assert "history.jsonl: line 1" in str(error) and "\n" not in str(error)
    else:
        fitting = {"cohort": (), "training_seconds": ("1e999",), "accuracy": ("null", "-3", "1e999")}
        assert value in fitting[column]


@pytest.mark.parametrize(
    ("before", "after"),
    [('"seconds": 4.5', '"seconds": 5.5'), ('"typical": null', '"typical": {"norm": 1.0, "num_examples": 9}')],
)
def test_c2_value_in_the_checkpoint_that_was_changed_is_named(sound, tmp_path, before, after):
    """A value that fits: only the checksum can find it, and the next round would be compared with it."""
    folder = tmp_path / "run"
    shutil.copytree(sound[0], folder)
    text = (folder / CHECKPOINT).read_text()
    assert text.count(before) == 1
    (folder / CHECKPOINT).write_text(text.replace(before, after))
    with pytest.raises(CheckpointError, match=r"checkpoint\.json is damaged or was changed by hand"):
        read_back(folder)


def test_c2_manifest_that_is_far_too_large_is_not_read(sound, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(sound[0], folder)
    os.truncate(folder / CHECKPOINT, 1 << 40)
    with pytest.raises(CheckpointError, match=r"checkpoint\.json is no file, or far too large"):
        read_back(folder)


@pytest.mark.parametrize("name", [name for name in FILES if "safetensors" in name])
def test_c2_file_that_has_grown_is_not_read_to_its_end(sound, tmp_path, name):
    """A terabyte of zeros: older versions took all memory, or ended with a traceback."""
    folder = tmp_path / "run"
    shutil.copytree(sound[0], folder)
    os.truncate(folder / name, 1 << 40)
    with pytest.raises(CheckpointError, match=rf"{name} is damaged or was changed by hand"):
        read_back(folder)


@pytest.mark.parametrize("name", ["checkpoint/history.jsonl", "checkpoint/round-000001.nodes"])
def test_c2_what_lies_behind_what_was_stored_is_not_read(sound, tmp_path, name):
    """A round that was never committed may; or a terabyte of zeros."""
    folder, before = sound
    spoiled = tmp_path / "run"
    shutil.copytree(folder, spoiled)
    os.truncate(spoiled / name, 1 << 40)
    assert read_back(spoiled) == before.replace(str(folder), str(spoiled))


def test_c2_best_state_that_was_changed_is_named(sound, tmp_path, caplog):
    """Older versions went on, and left it as the best model of the run."""
    folder = tmp_path / "run"
    shutil.copytree(sound[0], folder)
    best = folder / "best.safetensors"
    data = bytearray(best.read_bytes())
    data[-1] ^= 1
    best.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"best\.safetensors is damaged.*, or remove it to go on without"):
        read_back(folder)
    best.unlink()
    read_back(folder)
    assert "best.safetensors is missing: the best state so far, of round 1, is lost" in caplog.text


def test_c2_best_state_stays_under_its_checksum_after_a_resume(sound, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(sound[0], folder)
    store = store_of(folder, config_from(SETTINGS))
    store.load()
    save(store, 4)
    (folder / "best.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"best\.safetensors is damaged"):
        read_back(folder)


def test_c1_other_data_than_the_run_was_begun_with_are_named(tmp_path):
    """Older versions went on with them: data.dir is free to change, as data may be moved."""
    for name, seed in (("there", "1"), ("elsewhere", "2"), ("moved", "1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "seed").write_text(seed)

    def run(name, rounds):
        data = {"data.dataset": "tests.adversary.tiny:drawn", "data.dir": str(tmp_path / name)}
        inline.run(config_from({**tiny.SETTINGS, **data, "rounds.total": rounds, "out": str(tmp_path / "run")}))

    run("there", 1)
    with pytest.raises(
        UsageError, match=r"^data\.dir, or FEDLEARN_DATA, leads to other data.*\(fingerprint 2, not 1\)"
    ):
        run("elsewhere", 2)
    run("moved", 2)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["rounds"] == 2


def small_run(folder, rounds):
    inline.run(config_from({**tiny.SETTINGS, "rounds.total": rounds, "out": str(folder)}))


EARLIER = {
    "another digit": lambda data: data.replace(b"1", b"2", 1),
    "a line less": lambda data: data.partition(b"\n")[2],
    "emptied": lambda data: b"",
    "cut short": lambda data: data[: len(data) // 2],
}


@pytest.mark.parametrize("change", EARLIER.values(), ids=EARLIER)
@pytest.mark.parametrize("name", ["events.jsonl", "nodes.csv"])
def test_c2_row_of_an_earlier_round_that_was_changed_is_named_once(tmp_path, caplog, name, change):
    """Older versions went on and kept it."""
    small_run(tmp_path / "run", 1)
    small_run(tmp_path / "run", 2)
    assert "is not what was written" not in caplog.text
    path = tmp_path / "run" / name
    path.write_bytes(change(path.read_bytes()))
    small_run(tmp_path / "run", 3)
    (line,) = [text for text in caplog.messages if "is not what was written" in text]
    assert line.startswith(f"{path} is not what was written up to round 2: it was changed by hand, or lost in part")
    assert "\n" not in line
    small_run(tmp_path / "run", 4)
    assert caplog.messages.count(line) == 1
    assert len([text for text in caplog.messages if "is not what was written" in text]) == 1


@pytest.mark.parametrize("name", ["events.jsonl", "nodes.csv"])
def test_c2_appended_file_that_is_gone_is_named(tmp_path, caplog, name):
    small_run(tmp_path / "run", 1)
    (tmp_path / "run" / name).unlink()
    small_run(tmp_path / "run", 2)
    assert f"{name} is not what was written up to round 1" in caplog.text


def test_c2_table_of_rounds_that_was_changed_is_written_anew(tmp_path):
    small_run(tmp_path / "run", 2)
    path = tmp_path / "run" / "metrics.csv"
    before = path.read_bytes()
    path.write_bytes(before.replace(b"1", b"2"))
    small_run(tmp_path / "run", 3)
    assert path.read_bytes().startswith(before)


@pytest.mark.parametrize("name", ["events.jsonl", "nodes.csv"])
def test_c2_appended_file_without_an_end_is_named_and_not_read(tmp_path, name):
    small_run(tmp_path / "run", 1)
    os.truncate(tmp_path / "run" / name, 1 << 40)
    with pytest.raises(UsageError, match=rf"{name}: it has 1099511627776 bytes, far more .*: move it away"):
        small_run(tmp_path / "run", 2)


def test_c4_table_of_nodes_is_not_appended_to_through_a_link(tmp_path):
    """A link to what is not there yet: older versions made it, out of the run folder."""
    folder = tmp_path / "run"
    folder.mkdir()
    table = NodeTable(folder, [], committed=0)
    (folder / "nodes.csv").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunFailed, match=r"nodes\.csv: it is a link"):
        table.append([{"round": 1, "partition": 1}])
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("name", ["checkpoint/history.jsonl", "metrics.csv"])
@pytest.mark.parametrize("is_there", [True, False])
def test_c4_nothing_is_appended_through_a_link_that_was_made_meanwhile(sound, tmp_path, name, is_there):
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    shutil.copytree(sound[0], folder)
    store = store_of(folder, config_from(SETTINGS))
    store.load()
    before = (folder / name).read_bytes()
    (folder / name).unlink()
    if is_there:
        elsewhere.write_bytes(before)
    (folder / name).symlink_to(elsewhere)
    with suppress(RunFailed):
        save(store, 4)
    assert (elsewhere.read_bytes() if is_there else not elsewhere.exists()) == (before if is_there else True)


def test_c4_what_a_link_beside_a_file_leads_to_is_not_written_over(tmp_path):
    """A file is written aside first; older versions wrote through whatever link had that name."""
    (tmp_path / "precious").write_text("kept")
    (tmp_path / ".x.tmp").symlink_to(tmp_path / "precious")
    files.write_atomically(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"new" and not (tmp_path / "x").is_symlink()
    assert (tmp_path / "precious").read_text() == "kept"


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_c4_log_that_is_no_file_is_named_and_never_waited_for(tmp_path, kind):
    path = tmp_path / "events.jsonl"
    {"pipe": os.mkfifo, "device": lambda p: p.symlink_to("/dev/zero"), "folder": Path.mkdir}[kind](path)
    with pytest.raises(UsageError, match=r"events\.jsonl is no regular file: move it away"):
        EventLog(path)


def test_c2_run_of_the_format_before_says_what_to_do(sound, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(sound[0], folder)
    (folder / CHECKPOINT).write_text('{"format": 1, "files": {}, "history": []}')
    with pytest.raises(CheckpointError, match=r"format 1, which had no checksum.*continue with the version"):
        read_back(folder)


def checked():
    return cache.checked() if hasattr(cache, "checked") else nullcontext()


def test_c3_spoiled_cache_is_never_used(tmp_path, monkeypatch):
    """Older versions take every byte that is changed within an array."""
    monkeypatch.setenv("FEDLEARN_CACHE", str(tmp_path))
    content = cache.cached("x", "key", lambda: ARRAYS).content
    (entry,) = tmp_path.iterdir()
    for seed in range(SPOILED):
        rng = random.Random(seed)
        spoil(rng.choice([entry / "images.npy", entry / "labels.npy", entry / "entry.json"]), rng)
        with checked():
            again = cache.cached("x", "key", lambda: ARRAYS)
        assert again.content == content
        assert {k: v.tobytes() for k, v in again.arrays.items()} == {k: v.tobytes() for k, v in ARRAYS.items()}, seed
        assert list(tmp_path.iterdir()) == [entry]
        shutil.rmtree(entry)
        cache.cached("x", "key", lambda: ARRAYS)


def test_c3_a_run_makes_a_damaged_entry_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLEARN_CACHE", str(tmp_path / "cache"))

    def sha(name):
        inline.run(config_from({**CHEAP, "out": str(tmp_path / name)}))
        return json.loads((tmp_path / name / "summary.json").read_text())["model_sha256"]

    before = sha("before")
    for path in (tmp_path / "cache").glob("*/*.npy"):
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    assert sha("after") == before


def test_c3_a_cache_that_cannot_be_mended_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLEARN_CACHE", str(tmp_path))
    cache.cached("x", "key", lambda: ARRAYS)
    (entry,) = tmp_path.iterdir()
    (entry / "images.npy").write_bytes((entry / "images.npy").read_bytes()[:-1] + b"\0")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(staging.tempfile, "mkdtemp", full)
    with checked(), pytest.raises(UsageError, match=r"cannot write to the cache folder.*FEDLEARN_CACHE"):
        cache.cached("x", "key", lambda: ARRAYS)


@pytest.mark.parametrize("no_locks", [errno.ENOLCK], indirect=True)
@pytest.mark.parametrize("no_folder_syncs", [errno.EINVAL], indirect=True)
def test_h6_run_on_a_disk_without_locks_and_folder_syncs_has_the_bytes_of_any(
    no_locks, no_folder_syncs, tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv("FEDLEARN_CACHE", str(tmp_path / "cache"))

    def sha(name):
        inline.run(config_from({**CHEAP, "out": str(tmp_path / name)}))
        return json.loads((tmp_path / name / "summary.json").read_text())["model_sha256"]

    without = sha("without")
    assert caplog.text.count("knows no locks") == caplog.text.count("syncs no folders") == 1
    monkeypatch.undo()
    assert sha("with") == without


@pytest.mark.parametrize(
    "text", ["round,partition\n" + "7" * 5000 + ",1\n", "round\n\0\n" + "x" * 200_000 + "\n", "\n\n"]
)
def test_c4_table_of_nodes_that_was_spoiled_is_begun_again(tmp_path, text):
    (tmp_path / "nodes.csv").write_text(text)
    NodeTable(tmp_path, ["accuracy"], committed=3)
    assert (tmp_path / "nodes.csv").read_text() == "round,partition,examples,accuracy\n"


def test_c4_table_of_nodes_without_an_end_is_named(tmp_path):
    (tmp_path / "nodes.csv").touch()
    os.truncate(tmp_path / "nodes.csv", 1 << 40)
    with pytest.raises(RunFailed, match=r"nodes\.csv: it is larger than"):
        NodeTable(tmp_path, [], committed=3)


def test_c4_table_of_nodes_that_is_a_link_is_named(tmp_path):
    (tmp_path / "nodes.csv").symlink_to("/dev/zero")
    with pytest.raises(RunFailed, match=r"nodes\.csv: it is a link"):
        NodeTable(tmp_path, [], committed=3)


@pytest.mark.parametrize("place", ["/proc/x", "/proc", "file", "file/below", "file/far/below"])
def test_c4_place_that_cannot_be_written_is_refused_as_wrong_usage(tmp_path, place):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--out") as error, RunFolder(tmp_path / place).locked():
        pass
    assert str(tmp_path / place) in str(error.value) and "\n" not in str(error.value)


def test_c4_full_disk_is_one_line_and_what_was_stored_stays_sound(sound, tmp_path, monkeypatch):
    """The disk is full at each write of a commit in turn, and then has room again."""
    sync, calls = os.fsync, 0
    for nth in range(1, 99):
        folder = tmp_path / str(nth)
        shutil.copytree(sound[0], folder)
        store = store_of(folder, config_from(SETTINGS))
        store.load()
        calls = 0

        def full(descriptor):
            nonlocal calls
            calls += 1
            if calls == nth:  # noqa: B023 (called before the next turn)
                raise OSError(28, "No space left on device")
            sync(descriptor)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            try:
                save(store, 4)
            except FedlearnError as error:
                assert isinstance(error, RunFailed)
                assert "No space left on device" in str(error) and str(folder) in str(error)
                assert "--resume" in str(error) and "\n" not in str(error)
            else:
                assert nth > 10  # all writes have been the one that fails
                return
        again = store_of(folder, config_from(SETTINGS))
        again.load()
        number = len(again.history.rounds)
        assert number in (3, 4)
        assert again.state["steps"] == number and unpacked(again.node_states) == {7: b"nodes %d" % number}
        save(again, number + 1)


def test_c4_command_says_in_one_line_what_the_system_refuses():
    code = (
        "import fedlearn.cli as cli\n"
        "def app(**_): raise PermissionError(13, 'Permission denied', '/some/where')\n"
        "cli.app = app\ncli.main(['simulate'])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "error: /some/where: Permission denied\n")


def test_c5_runs_begun_in_the_same_second_get_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = [Path(run_settings({}, [], None).out) for _ in range(20)]
    assert len({*folders}) == 20
    assert all(folder.parent == tmp_path / "runs" for folder in folders)


def test_c6_run_without_its_checkpoint_is_not_begun_again_unasked(sound, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(sound[0], folder)
    (folder / CHECKPOINT).unlink()
    with pytest.raises(CheckpointError, match=r"checkpoint\.json is missing, though .*put it back.*spent"):
        store_of(folder, config_from(SETTINGS)).begin(state_of(0))


@pytest.mark.parametrize("moment", ["reported", "abandoned"])
def test_c7_a_private_run_that_is_killed_has_paid_for_every_answer_that_was_written_down(tmp_path, monkeypatch, moment):
    """Its first attempt is abandoned; noise is secure, so that a second answer to one question is another one."""
    run, other, write = tmp_path / "run", tmp_path / "other", EventLog.write
    config = config_from({**tiny.SETTINGS, **tiny.PRIVATE, "out": str(run)})

    def dies(log, event, **fields):
        write(log, event, **fields)
        if event == moment:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(EventLog, "write", dies)
        inline.run(config)
    shutil.copytree(run, other)
    inline.run(config)
    assert crashes.unpaid(run) == ""
    (other / CHECKPOINT).unlink()
    with pytest.raises(CheckpointError, match=r"checkpoint\.json is missing, though .*put it back.*spent"):
        RunStore(other).begin(state_of(0))


@pytest.mark.parametrize(("moment", "number"), [("reported", 1), ("abandoned", 2), ("committed", 2), ("reported", 15)])
def test_c8_a_private_run_that_is_killed_and_owes_a_residual_comes_to_the_same_bytes(
    tmp_path, monkeypatch, moment, number
):
    """Memories of nodes are stored before a round is over, also the residual of an attempt that is run again."""
    flat = {**tiny.SETTINGS, **tiny.PRIVATE, **tiny.OWING, "privacy.noise": "seeded"}
    whole, run, write = tmp_path / "whole", tmp_path / "run", EventLog.write
    inline.run(config_from({**flat, "out": str(whole)}))
    left = iter(range(number - 1))

    def dies(log, event, **fields):
        write(log, event, **fields)
        if event == moment and next(left, None) is None:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(EventLog, "write", dies)
        inline.run(config_from({**flat, "out": str(run)}))
    inline.run(config_from({**flat, "out": str(run)}))
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_an_attempt_that_is_made_again_sends_the_same_bytes_if_it_is_private(tmp_path):
    """Its codec's residual, too, is the one before the round: no second answer is published."""
    flat = {**tiny.SETTINGS, **tiny.PRIVATE, **tiny.OWING, "out": str(tmp_path)}
    inline.run(config_from(flat))
    norms: dict[tuple[int, int], list[float]] = {}
    for event in EventTail(tmp_path / EVENTS).read():
        if event["event"] == "reported":
            norms.setdefault((event["round"], event["partition"]), []).append(event["norm"])
    again = [found for found in norms.values() if len(found) > 1]
    assert again and all(len({*found}) == 1 for found in again)


def test_c6_run_of_which_nothing_was_stored_says_that_it_begins_from_nothing(tmp_path, caplog):
    config = config_from({**CHEAP, "out": str(tmp_path)})
    RunFolder(tmp_path).write_settings(config)
    inline.run(config)
    assert "begins from nothing" in caplog.text
    assert json.loads((tmp_path / "summary.json").read_text())["status"] == "completed"


def test_c6_a_commit_after_many_rounds_writes_what_the_first_did(tmp_path):
    store = store_of(tmp_path, config_from(SETTINGS))
    store.begin(state_of(0))
    written = []
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((files, "_put_into_place"), (checkpoint, "write_from")):
            real = getattr(module, name)
            patch.setattr(
                module, name, lambda *given, real=real, **more: (written.append(len(given[-1])), real(*given, **more))
            )
        patch.setattr(os, "fsync", lambda descriptor: None)
        sizes = {}
        for number in range(1, 301):
            written.clear()
            save(store, number)
            sizes[number] = sum(written)
    assert sizes[300] < sizes[2] + 100  # numbers become longer
