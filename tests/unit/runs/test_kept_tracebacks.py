"""Whole tracebacks are kept where a run is, and nowhere else."""

from __future__ import annotations

import pytest

from fedlearn.runs.kept_tracebacks import keep


@pytest.fixture
def error():
    try:
        raise ValueError("no \ud800 such thing")  # half a character, which UTF-8 cannot hold
    except ValueError as caught:
        return caught


@pytest.fixture
def run(tmp_path):
    (tmp_path / "events.jsonl").touch()
    return tmp_path


def test_tracebacks_are_kept_where_a_run_is_one_after_another(error, run):
    assert keep(error, run) == f"; traceback in {run / 'tracebacks.txt'}"
    keep(error, run)
    assert (run / "tracebacks.txt").read_text().count("ValueError: no \\ud800 such thing") == 2


@pytest.mark.parametrize("folder", [".", ""])
def test_where_no_run_is_nothing_is_kept(error, tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    assert keep(error, folder) == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["others", "missing"])
def test_nothing_is_written_through_a_link(error, run, tmp_path_factory, target):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "others").write_text("theirs")
    (run / "tracebacks.txt").symlink_to(elsewhere / target)
    assert keep(error, run) == ""
    assert [file.name for file in elsewhere.iterdir()] == ["others"]
    assert (elsewhere / "others").read_text() == "theirs"
