"""How a run was begun."""

from __future__ import annotations

import subprocess

import pytest

from fedlearn.runs.environment import environment
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.origin import command_line, commit_of

GIT = ("git", "-c", "user.name=nobody", "-c", "user.email=nobody@localhost", "-c", "commit.gpgsign=false")


@pytest.mark.parametrize(
    "words",
    [
        ["/bin/python", "/bin/flwr-simulation", "--token", "secret"],
        ["/bin/flwr-serverapp", "--token", "secret"],
        ["/bin/python", "-m", "flwr.cli", "--token", "secret"],
    ],
)
def test_command_line_of_flowers_own_processes_is_not_kept(words):
    assert command_line(words) == ""


def test_environment_says_how_the_run_was_begun():
    assert {"command", "commit", "fedlearn_commit"} <= environment().keys()


def test_commit_says_whether_files_were_changed(tmp_path, monkeypatch):
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    commit_of.cache_clear()
    assert commit_of(tmp_path) is None
    subprocess.run([*GIT, "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "a.txt").write_text("a")
    subprocess.run([*GIT, "add", "a.txt"], cwd=tmp_path, check=True)
    subprocess.run([*GIT, "commit", "-q", "-m", "a"], cwd=tmp_path, check=True)
    commit_of.cache_clear()
    clean = commit_of(tmp_path)
    (tmp_path / "a.txt").write_text("b")
    commit_of.cache_clear()
    assert clean is not None and len(clean) == 40 and commit_of(tmp_path) == f"{clean}-dirty"
    commit_of.cache_clear()


def test_resume_compares_nothing_of_it(tmp_path, monkeypatch):
    from fedlearn.config import RunConfig

    folder = RunFolder(tmp_path)
    folder.write_settings(RunConfig())
    before = (tmp_path / "environment.json").read_bytes()
    monkeypatch.setattr("sys.orig_argv", ["python", "other.py"])
    folder.check_settings(RunConfig())
    folder.write_settings(RunConfig())
    assert (tmp_path / "environment.json").read_bytes() == before
