"""Looking at the run folder of a stranger: regular files of a bounded size, or one line at once."""

from __future__ import annotations

import json
import os

import pytest

import fedlearn
from fedlearn.core.client_facts import CLASS, Dealt
from fedlearn.core.errors import UsageError
from fedlearn.runs.label_counts import write_dealt

LOOKS = {
    "summary": "summary.json", "sha256": "summary.json", "spec": "data.json", "history": "metrics.csv",
    "nodes": "nodes.csv", "state": "model.safetensors", "best_state": "best.safetensors", "settings": "settings.toml",
    "who_has": "dealt.json",
}  # fmt: skip


def huge(path):
    with path.open("wb") as file:
        file.truncate(40 << 30)


SPOILED = {
    "fifo": os.mkfifo,
    "zeros": lambda path: path.symlink_to("/dev/zero"),
    "link": lambda path: path.symlink_to("settings.toml"),
    "huge": huge,
    "folder": lambda path: path.mkdir(),
    "nothing": lambda path: None,
    "garbage": lambda path: path.write_bytes(b"\\xff\\x00{"),
    "list": lambda path: path.write_text("[" * 100_000),
}


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("spoiled", SPOILED)
@pytest.mark.parametrize("look", LOOKS)
def test_a_look_at_a_spoiled_file_is_one_line_at_once(tmp_path, look, spoiled):
    (tmp_path / "settings.toml").write_text("clients = 3\n")
    run = fedlearn.load(tmp_path)
    path = tmp_path / LOOKS[look]
    path.unlink(missing_ok=True)
    SPOILED[spoiled](path)
    if (look, spoiled) in {("history", "garbage"), ("nodes", "garbage"), ("history", "list"), ("nodes", "list")}:
        return  # a table without rows
    with pytest.raises(UsageError) as error:
        getattr(run, look)
    assert path.name in str(error.value) and "\n" not in str(error.value)


def test_who_has_which_data_is_a_frame_of_classes_by_nodes(tmp_path):
    (tmp_path / "settings.toml").write_text("clients = 2\n")
    write_dealt(tmp_path, Dealt(2, CLASS, ((3, 0), (1, 5), (0, 1))))
    spec = {"name": "t", "shape": [2], "dtype": "float32", "classes": 3, "class_names": ["cat", "dog"]}
    (tmp_path / "data.json").write_text(json.dumps(spec))
    frame = fedlearn.load(tmp_path).who_has
    assert frame.to_dict() == {0: {"cat": 3, "dog": 1, 2: 0}, 1: {"cat": 0, "dog": 5, 2: 1}}
    assert (frame.index.name, frame.columns.name) == ("class", "node")


def test_model_of_a_round_that_has_not_stayed_is_one_line(tmp_path):
    (tmp_path / "settings.toml").write_text("clients = 3\n")
    (tmp_path / "models").mkdir()
    for name in ("round-000004.safetensors", "round-000002.safetensors", "round-x.safetensors", "mine.txt"):
        (tmp_path / "models" / name).write_bytes(b"")
    run = fedlearn.load(tmp_path)
    assert run.kept_rounds == [2, 4]
    with pytest.raises(UsageError, match=r"round 3: .*those of 2, 4 have: rounds.keep_every = K"):
        run.state_of(3)
    with pytest.raises(UsageError, match=r"round-000002.safetensors: it is not what was written"):
        run.model(round_number=2)
