"""A sweep on Ray: the tables of a sweep in lanes, after a run that dies, and after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.waiting import wait_until

pytest.importorskip("ray", reason="Ray is not installed: pip install 'fedlearn[ray]'")
pytestmark = pytest.mark.network

PLAN = """
title = "two rates"
seeds = [1, 2]
[base]
clients = 4
rounds = { total = 3, cohort = 2 }
data.dataset = "digits"
model.name = "linear"
[choices.model]
linear = {}
dying = { model.name = "dying:model" }
[grid]
training.lr = [0.05, 0.1]
"""
DYING = """
import os
from pathlib import Path
from torch import nn

def model(spec):
    tries = Path(os.environ["FEDLEARN_TEST_TRIES"])
    with tries.open("a") as file:
        file.write("x")
    if tries.stat().st_size <= int(os.environ["FEDLEARN_TEST_DEATHS"]):
        os._exit(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))
"""
TABLES = ("runs.csv", "rounds.csv", "points.csv")


@pytest.fixture
def sweep(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "dying.py").write_text(DYING)

    def begun(out, *arguments, deaths=0):
        faults = {"FEDLEARN_TEST_TRIES": str(tmp_path / f"{out}.tries"), "FEDLEARN_TEST_DEATHS": str(deaths)}
        command = [sys.executable, "-m", "fedlearn", "sweep", "plan.toml", "--out", out, *arguments]
        return subprocess.Popen(
            command, cwd=tmp_path, env=os.environ | faults | {"PYTHONPATH": str(tmp_path)}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    return begun


def tables(folder):
    return {name: (folder / name).read_bytes() for name in TABLES}


def test_tables_are_those_of_lanes_after_a_death_and_after_a_kill(sweep, tmp_path):
    lanes = sweep("lanes", "--only", "model=linear")
    said, _ = lanes.communicate(timeout=300)
    assert lanes.returncode == 0, said

    begun = sweep("ray", "--only", "model=linear", "--set", "engine.name=ray")
    wait_until(lambda: list((tmp_path / "ray").glob("runs/*/summary.json")) or begun.poll() is not None, "a run", 300)
    begun.send_signal(signal.SIGKILL)
    begun.communicate(timeout=60)
    there = len(list((tmp_path / "ray").glob("runs/*/summary.json")))
    again = sweep("ray", "--only", "model=linear", "--set", "engine.name=ray")
    said, _ = again.communicate(timeout=300)
    assert again.returncode == 0, said
    assert f"{there} of 4 runs were there already" in said
    assert tables(tmp_path / "ray") == tables(tmp_path / "lanes")


def test_a_run_whose_process_dies_is_made_again_and_ends_the_sweep_if_it_dies_again(sweep, tmp_path):
    once = sweep("once", "--only", "model=dying", "--only", "training.lr=0.1", "--set", "engine.name=ray", deaths=1)
    said, _ = once.communicate(timeout=300)
    assert once.returncode == 0, said
    always = sweep("always", "--only", "model=dying", "--set", "engine.name=ray", deaths=1000)
    said, _ = always.communicate(timeout=300)
    assert always.returncode == 1
    assert "model=dying" in said
    assert "it has died on the Ray cluster" in said
