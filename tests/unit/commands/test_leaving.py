"""What leaves a run is compared whole: whatever differs shows, but for times and who took part."""

from __future__ import annotations

import json
import logging

import pytest

from fedlearn.auditing.planting import NOT_THERE
from fedlearn.commands.leaving import Leaving

FILES = {
    "metrics.csv": "round_number,reported,training_seconds,epsilon\n1,6,0.5,2.0\n",
    "summary.json": json.dumps({"epsilon": 2.0, "bytes_up": 700, "best": {"round": 1, "seconds": 3}}),
    "events.jsonl": '{"event": "reported", "node": 4}\n{"time": 1, "event": "committed", "failed": 1, "size": 4.5}\n',
    "checkpoint.json": json.dumps({"sha256": "a", "rounds": 3, "appended": {"events.jsonl": 1}}),
    "settings.toml": "out = 'here'\nclients = 6\n",
    "checkpoint/round-000001.nodes": "memory",
    "model.safetensors": "bytes",
}


def left_of(tmp_path, changes=(), *, says=()):
    leaving = Leaving()
    for name, text in {**FILES, **dict(changes)}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    with leaving.recorded():
        for say in says:
            say(leaving)
    return leaving.of(tmp_path)


def changed(name, old, new):
    assert old in FILES[name]
    return {name: FILES[name].replace(old, new)}


@pytest.mark.parametrize(
    "change",
    [
        changed("metrics.csv", "2.0", "2.1"),
        changed("metrics.csv", "epsilon\n1,6,0.5,2.0", "epsilon,sum\n1,6,0.5,2.0,7"),
        changed("summary.json", '"round": 1', '"round": 2'),
        changed("events.jsonl", "4.5", "4.6"),
        changed("checkpoint.json", '"rounds": 3', '"rounds": 4'),
        changed("settings.toml", "6", "7"),
        changed("model.safetensors", "bytes", "bytez"),
        {"sums.npy": "7"},
        {"checkpoint/sums.csv": "7"},
    ],
)
def test_what_differs_in_any_file_shows(tmp_path, change):
    assert left_of(tmp_path / "one") != left_of(tmp_path / "two", change)


@pytest.mark.parametrize(
    "change",
    [
        changed("metrics.csv", "1,6,0.5", "1,5,0.7"),
        changed("summary.json", "700", "600"),
        changed("events.jsonl", '"time": 1, "event": "committed", "failed": 1', '"event": "committed", "failed": 2'),
        changed("events.jsonl", '"reported", "node": 4', '"failed", "node": 4'),
        changed("checkpoint.json", '"sha256": "a"', '"sha256": "b"'),
        changed("settings.toml", "here", "there"),
        changed("checkpoint/round-000001.nodes", "memory", "memories"),
        {"tracebacks.txt": "error"},
    ],
)
def test_times_and_who_took_part_do_not(tmp_path, change):
    assert left_of(tmp_path / "one") == left_of(tmp_path / "two", change)


@pytest.mark.parametrize(
    "say",
    [
        lambda leaving: print("total 7"),
        lambda leaving: logging.getLogger("server").info("total=%d", 7),
        lambda leaving: leaving.listener.take({"event": "committed", "total": 7}),
    ],
)
def test_lines_and_messages_show(tmp_path, say):
    assert left_of(tmp_path / "one") != left_of(tmp_path / "two", says=[say])


def test_a_line_about_the_node_that_is_not_there_does_not_and_the_log_is_as_before(tmp_path, capsys):
    before = logging.getLogger().handlers[:], logging.getLogger().level
    said = left_of(tmp_path / "two", says=[lambda leaving: logging.error("node=4: RuntimeError: %s", NOT_THERE)])
    assert said == left_of(tmp_path / "one")
    assert (logging.getLogger().handlers, logging.getLogger().level) == before
    assert capsys.readouterr() == ("", "")
