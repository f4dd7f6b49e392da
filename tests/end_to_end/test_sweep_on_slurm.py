"""A sweep as an array job: one run a task, in any order, killed and started again, joined by the last task."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys

import pytest

from tests.end_to_end.conftest import CHEAP, ROOT, end_of, wait_until

TABLES = ("runs.csv", "rounds.csv", "points.csv", "best.toml", "differences.csv")
SETS = {**CHEAP, "model.name": "linear", "clients": 4, "engine.name": "inline", "engine.workers": 0}
AXES = ("--vary", "training.lr=0.2,0.05", "--seeds", "1,2")
STAND_IN = """\
#!{python}
import re, subprocess, sys
from pathlib import Path
script = Path(sys.argv[1]).read_text()
logs = re.search("--output=(.*)", script)[1]
places = []
for part in re.search("--array=(.*)", script)[1].split(","):
    first, _, last = part.partition("-")
    places += range(int(first), int(last or first) + 1)
tasks = [
    subprocess.Popen(
        ["sh", sys.argv[1]], env={{"SLURM_ARRAY_TASK_ID": str(place), **__import__("os").environ}},
        stdout=open(logs.replace("%a", str(place)), "w"), stderr=subprocess.STDOUT,
    )
    for place in reversed(places)
]
sys.exit(max(task.wait() for task in tasks))
"""


def asked(folder, **more):
    sets = [word for name, value in {**SETS, **more}.items() for word in ("--set", f"{name}={value}")]
    return ("sweep", *sets, *AXES, "--out", folder)


def test_array_job_has_a_task_for_each_run_and_runs_nothing(tmp_path):
    folder = tmp_path / "array"
    assert end_of(*asked(folder), "--slurm") == 0
    assert "#SBATCH --array=0-3\n" in (folder / "array.sbatch").read_text()
    assert not (folder / "runs").exists()
    assert end_of("sweep", folder / "sweep.toml", "--out", folder, "--task", 4) == 2


@pytest.mark.long
def test_task_makes_its_run_and_the_array_holds_what_is_missing(tmp_path):
    folder = tmp_path / "array"
    assert end_of(*asked(folder), "--slurm") == 0
    for _ in range(2):
        assert end_of("sweep", folder / "sweep.toml", "--out", folder, "--task", 2) == 0
    assert [run.name for run in (folder / "runs").iterdir()] == ["training.lr=0.2,seed=2"]
    assert not (folder / "runs.csv").exists()
    assert end_of(*asked(folder), "--slurm") == 0
    assert "#SBATCH --array=0-1,3\n" in (folder / "array.sbatch").read_text()


@pytest.mark.long
def test_killed_tasks_go_on_at_the_same_sbatch_with_the_bytes_of_the_sweep(tmp_path):
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(STAND_IN.format(python=sys.executable))
    sbatch.chmod(sbatch.stat().st_mode | stat.S_IXUSR)
    more = {"rounds.total": 40}
    assert end_of(*asked(tmp_path / "whole", **more)) == 0
    folder = tmp_path / "array"
    assert end_of(*asked(folder, **more), "--slurm") == 0
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    job = subprocess.Popen([sbatch, folder / "array.sbatch"], env=env, start_new_session=True)
    wait_until(lambda: any((folder / "runs").glob("*/checkpoint.json")), "a stored round")
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    assert subprocess.run([sbatch, folder / "array.sbatch"], env=env).returncode == 0
    for name in TABLES:
        assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert (folder / "report" / "index.html").exists()
