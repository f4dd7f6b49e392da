"""A sample of the crash points, and that a careless resume is found."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from tests.adversary import crashes

KILLS = 12
FORGETFUL = """
import tempfile
from dataclasses import replace
from pathlib import Path
from fedlearn.runs.checkpoint import RunStore
from tests.adversary import crashes

load = RunStore.load

def forgetful(store):
    load(store)
    store._stored = replace(store._stored, node_states=b"")

RunStore.load = forgetful
crashes.flower.enter_run()
name = "synchronous, with memories"
with tempfile.TemporaryDirectory() as place:
    killed = crashes.Killed(name, crashes.runs()[name], Path(place))
    print(killed.after(crashes.Kill(killed.operations // 2)))
"""


UNPAID = """
import tempfile
from pathlib import Path
from server.run import ServerRun
from tests.adversary import crashes

ServerRun.keep_paid = lambda run: None
crashes.flower.enter_run()
with tempfile.TemporaryDirectory() as place:
    killed = crashes.Killed(crashes.PRIVATE, crashes.runs()[crashes.PRIVATE], Path(place))
    eighth = killed.operations // 8
    found = {killed.after(crashes.Kill(at)) for at in range(2 * eighth, 8 * eighth, eighth)}
    print(crashes.unpaid(Path(place) / "whole"), found)
"""


def output_of(*command):
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)


@pytest.mark.long
def test_a_run_killed_at_a_file_operation_resumes_to_the_same_bytes():
    ended = output_of("-m", "tests.adversary.crashes", "--points", str(KILLS))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = [line.rsplit(maxsplit=4) for line in ended.stdout.splitlines()[1:]]
    assert {name for name, *_ in rows} == {*crashes.runs()}
    assert sum(int(same) for *_, same, _ in rows) == KILLS
    assert all(int(operations) > 200 for _, operations, *_ in rows)


@pytest.mark.long
@pytest.mark.slow
def test_a_resume_that_forgets_what_nodes_keep_is_found():
    assert "model.safetensors is other" in output_of("-c", FORGETFUL).stdout


@pytest.mark.long
@pytest.mark.slow
def test_a_private_run_that_does_not_store_what_was_paid_is_found():
    said = output_of("-c", UNPAID).stdout
    assert said.startswith(" {") and "seen were answers" in said


def test_every_operation_on_a_file_of_the_run_is_a_point(tmp_path):
    """In a child of its own: audit hooks stay."""

    def operations() -> int:
        points = crashes.Points(tmp_path, crashes.NEVER)
        points.watch()
        (tmp_path / "folder").mkdir()
        with io.open(tmp_path / "folder" / "a", "wb") as file:  # noqa: UP020
            file.write(b"ab")
        (tmp_path / "folder" / "a").rename(tmp_path / "b")
        (tmp_path / "b").read_bytes()
        (tmp_path / "b").unlink()
        (tmp_path.parent / "elsewhere").write_bytes(b"")
        return points.count

    expected = ["mkdir", "open", "write", "middle of it", "close", "rename", "unlink"]
    assert crashes.in_a_child(operations, tmp_path / "errors") == (0, len(expected))
