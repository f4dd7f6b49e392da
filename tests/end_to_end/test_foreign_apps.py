"""Any Flower App on our engine: its own `server.py` and `client.py`, unchanged; same seed, same bytes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

APP = Path(__file__).parent / "plugins" / "foreign_app"


def ran(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fedlearn", "run", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


def said(output: str) -> tuple[str, str]:
    """The printed result of the app, and the SHA-256 of its nodes' messages."""
    (result,) = re.findall(r"^result (.*)$", output, re.M)
    (sha,) = re.findall(r"SHA-256 .*: ([0-9a-f]{64})$", output, re.M)
    return result, sha


@pytest.mark.long
def test_same_seed_gives_the_same_bytes_with_any_number_of_workers(tmp_path):
    runs = [ran(APP, "--clients", 6, "--seed", 5, "--workers", workers, cwd=tmp_path) for workers in (1, 2)]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr + runs[1].stderr
    assert said(runs[0].stdout) == said(runs[1].stdout)
    assert "27 messages" in runs[0].stdout  # 3 of 6 nodes train, 6 evaluate, in 3 rounds
    assert "rounds and strategy are the app's own" in runs[0].stdout
    assert not list(tmp_path.iterdir())  # no run folder


@pytest.mark.long
def test_other_seeds_and_settings_give_other_bytes_and_a_failing_node_fails_alone(tmp_path):
    calm = ran(APP, "--clients", 6, "--seed", 5, "-c", "rounds=1 noise.scale=0.0", cwd=tmp_path)
    other = ran(APP, "--clients", 6, "--seed", 6, "-c", "rounds=1", "-c", "noise.scale=0.0", cwd=tmp_path)
    assert calm.returncode == other.returncode == 0, calm.stderr + other.stderr
    assert said(calm.stdout)[1] != said(other.stdout)[1]
    failing = ran(APP, "--clients", 2, "-c", "rounds=1 failing=1", cwd=tmp_path)
    assert failing.returncode == 0, failing.stderr
    assert "first failure: client 3: ValueError in client.py:17: no disk" in failing.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nowhere"], "nowhere: it is not the folder of a Flower App"),
        ([APP, "-c", "no-such=1"], "Key 'no-such' is not present"),
        ([APP, "-c", "rounds=x"], "invalid format"),
    ],
)
def test_what_cannot_be_run_is_one_line_and_exit_code_2(tmp_path, arguments, expected):
    run = ran(*arguments, cwd=tmp_path)
    assert run.returncode == 2
    (line,) = run.stderr.splitlines()
    assert line.startswith("error: ")
    assert expected in line


def test_an_app_that_cannot_be_imported_says_so(tmp_path):
    shutil.copytree(APP, tmp_path / "app")
    (tmp_path / "app" / "server.py").write_text("import no_such_package\n")
    run = ran("app", cwd=tmp_path)
    assert run.returncode == 2
    assert run.stderr.splitlines()[-1].endswith("ModuleNotFoundError: No module named 'no_such_package'")
