"""Many runs in one process: in threads, in pools, one after another; and studies that were moved."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fedlearn
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.engine.processes import ONE_THREAD
from tests.end_to_end.conftest import ROOT, end_of

LIMIT = 120  # seconds for a script, on two cores that others use, too
FEW_FILES = 64
BEGIN = """
import json, multiprocessing, os, random, sys, threading, warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
import fedlearn

def go(seed, **more):
    out = f"run-{os.getpid()}-{threading.get_ident()}-{seed}-{len(more)}"
    return fedlearn.run(clients=4, data="digits", model="linear", rounds=1, seed=seed, local_epochs=1, batch_size=32,
                        lr=0.01, progress=False, out=out, **more).sha256

def say(value):
    print(json.dumps(value), flush=True)

if __name__ == "__main__":
"""


def script(tmp_path, body, **options):
    """Run a user's script; return what it says, value by value, and what it complains of."""
    file = tmp_path / "study.py"
    file.write_text(BEGIN + "\n".join(f"    {line}" for line in body.strip().splitlines()) + "\n")
    clean = {name: value for name, value in os.environ.items() if name not in ONE_THREAD}
    done = subprocess.run(
        [sys.executable, file.name], cwd=tmp_path, env={**clean, "PYTHONPATH": str(ROOT)}, timeout=LIMIT,
        capture_output=True, text=True, stdin=subprocess.DEVNULL, **options,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.long
def test_runs_in_threads_have_the_bytes_that_each_has_alone(tmp_path):
    (main, together, alone), complaints = script(
        tmp_path,
        """
main = sys.modules["__main__"]
all_there = threading.Barrier(3)
def at_once(seed):
    all_there.wait()
    return go(seed)
with ThreadPoolExecutor(3) as pool:
    together = list(pool.map(at_once, (1, 2, 3)))
say(sys.modules["__main__"] is main)
say(together)
say([go(seed) for seed in (1, 2, 3)])
""",
    )
    assert main
    assert together == alone
    assert complaints.count("another fedlearn call of this process is under way") == 2


@pytest.mark.long
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_runs_in_pools_of_processes_have_the_bytes_that_each_has_alone(tmp_path, method):
    (alone, *pools, after), _ = script(
        tmp_path,
        f"""
context = multiprocessing.get_context({method!r})
say(go(1))
with context.Pool(2) as pool:
    say(pool.map(go, (1, 1), chunksize=1))
with ProcessPoolExecutor(2, context) as pool:
    say(list(pool.map(go, (1, 1))))
say(go(1, workers=1))
""",
    )
    assert pools == [[alone, alone], [alone, alone]]
    assert after == alone


@pytest.mark.long
def test_runs_one_after_another_need_no_more_files(tmp_path):
    few = (FEW_FILES, FEW_FILES)
    (files,), _ = script(
        tmp_path,
        """
import gc
gc.disable()  # nothing may wait for the collector
count = lambda: len(os.listdir("/proc/self/fd"))
for seed in range(1, 3):  # the first of all stores data in the cache, the next map them
    go(seed)
before = count()
for seed in range(3, 6):
    go(seed)
say(count() - before)
""",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, few),
    )
    assert files == 0


@pytest.mark.long
@pytest.mark.parametrize("engine", ["embedded", "inline"])
def test_a_run_leaves_its_callers_process_as_it_was(tmp_path, engine):
    (changed, drawn), _ = script(
        tmp_path,
        f"""
import numpy, torch
import fedlearn.api.running  # importing draws from Python's generator
torch.set_num_threads(2)
def looks():
    return {{
        "environment": dict(os.environ), "main": id(sys.modules["__main__"]), "threads": torch.get_num_threads(),
        "folder": os.getcwd(), "path": sys.path[:], "warnings": warnings.filters[:], "random": random.getstate(),
        "numpy": str(numpy.random.get_state()), "torch": torch.random.get_rng_state().tolist(),
        "daemon": multiprocessing.current_process().daemon,
    }}
before = looks()
run = fedlearn.load(fedlearn.run(clients=4, data="digits", model="linear", rounds=1, local_epochs=1, lr=0.01,
                                 progress=False, engine={engine!r}, out="run").folder)
run.model(), run.evaluate()
after = looks()
say([name for name in before if before[name] != after[name]])
say(multiprocessing.get_context("spawn").Pool(1).apply(len, ([1, 2],)))  # its own children import its main module
""",
    )
    assert changed == []
    assert drawn == 2


TABLE = "rooms,age,price\n" + "".join(f"{row % 7},{row * 13 % 90},{row * 37 % 101 / 10}\n" for row in range(60))
DEALT = "node\n" + "".join(f"{row % 4}\n" for row in range(48))
SMALL = {
    "clients": 4, "model": "linear", "lr": 1e-4, "local_epochs": 1, "progress": False, "engine": "inline",
    "data.options": {"target": "price"},
}  # fmt: skip


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Make a study of a table and a file that deals it out; a run of one round; and the SHA-256 of two rounds."""
    place = tmp_path / "laptop" / "study"
    place.mkdir(parents=True)
    monkeypatch.chdir(place)
    Path("houses.csv").write_text(TABLE)
    Path("who.csv").write_text(DEALT)
    given = {**SMALL, "data": "houses.csv", "partition": "who.csv"}
    whole = fedlearn.run(**given, rounds=2, out="whole")
    fedlearn.run(**given, rounds=1, out="run")
    return place, whole.sha256


def moved(study, tmp_path, monkeypatch):
    new = tmp_path / "cluster" / "another name"
    shutil.copytree(study, new)
    shutil.rmtree(study.parent)
    monkeypatch.chdir(tmp_path)
    return new


def test_a_study_that_was_moved_with_its_data_goes_on(study, tmp_path, monkeypatch):
    place, sha256 = study
    new = moved(place, tmp_path, monkeypatch)
    assert fedlearn.run(resume=new / "run", rounds=2, progress=False).sha256 == sha256
    run = fedlearn.load(new / "whole")
    assert run.evaluate() == {name: run.summary[name] for name in run.evaluate()}


def test_a_study_whose_data_lie_elsewhere_is_told_where(study, tmp_path, monkeypatch):
    place, sha256 = study
    new = moved(place, tmp_path, monkeypatch)
    elsewhere = tmp_path / "data"
    elsewhere.mkdir()
    for name in ("houses.csv", "who.csv"):
        shutil.move(new / name, elsewhere / f"my_{name}")
    with pytest.raises(UsageError, match=r"houses\.csv.*no such file"):
        fedlearn.run(resume=new / "run", rounds=2, progress=False)
    told = {"data": str(elsewhere / "my_houses.csv"), "partition": str(elsewhere / "my_who.csv")}
    assert fedlearn.run(resume=new / "run", rounds=2, progress=False, **told).sha256 == sha256


@pytest.mark.parametrize(
    ("name", "text"),
    [("houses.csv", TABLE.replace("7.4", "7.5", 1)), ("who.csv", DEALT.replace("3\n", "2\n", 1))],
)
def test_other_data_than_the_run_was_begun_with_are_refused(study, name, text):
    Path(name).write_text(text)
    with pytest.raises(UsageError, match="other data"):
        fedlearn.run(resume="run", rounds=2, progress=False)
    Path("other_" + name).write_text(text)
    keyword = "data" if name == "houses.csv" else "partition"
    with pytest.raises(SettingError, match="began with"):
        fedlearn.run(resume="run", rounds=2, progress=False, **{keyword: "other_" + name})


@pytest.mark.parametrize("told", ["[]", '{"folder": 7}', '{"folder": "/nowhere"}', "{", '{"folder": "\\u0000"}'])
def test_a_strangers_word_on_where_a_run_was_is_not_needed(study, told):
    Path("run/environment.json").write_text(told)
    settings = Path("run/settings.toml")
    settings.write_text(settings.read_text().replace("houses.csv", "gone.csv"))
    assert end_of("simulate", "--resume", "run", "--rounds", "2") == 2
