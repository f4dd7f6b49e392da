"""Sweeps: in one engine as each run alone, and after a kill as without one."""

from __future__ import annotations

import csv
import importlib
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from experiments.sweeps.command import CONFIGS, NO_PLANS
from fedlearn.cli import main
from fedlearn.config import config_from
from fedlearn.core.errors import RunFailed, UsageError
from fedlearn.engine.embedded.engine import WarmEngine
from fedlearn.sweeps.sweep_plan import Plan
from fedlearn.sweeps.sweep_runs import run_sweep

from .conftest import CHEAP, ROOT, Run, wait_until

TABLES = ("runs.csv", "rounds.csv", "points.csv")
WITHOUT_FIGURES = ("liars", "limits")
SENT = {"all": {}, "half": {"compression.codec": "drop", "compression.keep_ratio": 0.5}}
PLAN = Plan("T", (1, 2), CHEAP, {"clients": {"6": {"clients": 6}, "12": {"clients": 12}}, "sent": SENT})


def tables(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in TABLES}


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    run_sweep(PLAN, folder)
    return folder


@pytest.fixture
def start(tmp_path):
    """Start the sweep in a process of its own."""
    (tmp_path / "plan.toml").write_text(PLAN.to_toml())
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "fedlearn",
            "sweep",
            tmp_path / "plan.toml",
            "--out",
            tmp_path / "killed",
            "--validation-share",  # the command has validation rows, a plan from Python has none
            "0",
        ]
        process = subprocess.Popen([*command, *arguments], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.long
def test_runs_in_one_engine_have_the_bytes_that_each_has_alone(reference, undisturbed):
    runs = list(PLAN.runs())
    for run in (runs[1], runs[-2]):
        settings = {"clients": run.config.clients, "seed": run.seed, **SENT[run.labels["sent"]]}
        assert Run(reference / "runs" / run.name).sha == undisturbed(settings).sha


@pytest.mark.long
def test_workers_stay_from_run_to_run_and_go_with_one_that_fails(tmp_path):
    def run(engine: WarmEngine, name: str, **settings: object) -> set[int]:
        engine(config_from({**CHEAP, **settings, "rounds.total": 1, "out": str(tmp_path / name)}))
        return {child.pid for child in psutil.Process().children(recursive=True)}

    with WarmEngine() as engine:
        first = run(engine, "first")
        assert run(engine, "second", clients=5) == first
        with pytest.raises(RunFailed):
            run(engine, "third", **{"training.lr": 1e30})
        fourth = run(engine, "fourth")
    assert Run(tmp_path / "fourth").sha == Run(tmp_path / "first").sha
    assert len(fourth & first) < len(first)


@pytest.mark.long
def test_killed_at_random_moments_it_ends_with_the_same_tables(reference, start, tmp_path):
    rng = random.Random(3)
    killed = tmp_path / "killed"
    for ended in (0, 2, 5):
        process = start()
        wait_until(lambda ended=ended: len(list(killed.glob("runs/*/summary.json"))) > ended, f"{ended + 1} runs")
        time.sleep(rng.uniform(0, 0.3))  # the moment is what is tested
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(list(killed.glob("runs/*/summary.json"))) < len(list(PLAN.runs()))
    process = start()
    assert process.wait(120) == 0, process.communicate()
    assert tables(killed) == tables(reference)


@pytest.mark.slow
def test_finished_sweep_runs_nothing_again_and_grows(reference, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in reference.glob("runs/*/checkpoint.json")}
    results = run_sweep(PLAN, reference)
    assert {path: path.stat().st_mtime_ns for path in reference.glob("runs/*/checkpoint.json")} == before
    assert len(results) == 8
    with pytest.raises(UsageError, match=r"training.lr = 0.7: the run in .* began with 0.05"):
        run_sweep(PLAN.with_other(base={"training.lr": 0.7}), reference)
    with pytest.raises(UsageError, match=r"has 2 rounds, more than rounds.total = 1"):
        run_sweep(PLAN.with_other(base={"rounds.total": 1}), reference)


@pytest.mark.long
def test_some_points_may_have_more_seeds_and_all_are_in_the_tables(reference, tmp_path):
    shutil.copytree(reference, tmp_path / "sweep")
    more = PLAN.with_other(base={}, seeds=[1, 2, 3])
    results = run_sweep(more, tmp_path / "sweep", wanted=more.chosen(["clients=6", "sent=half"]))
    assert len(results) == 9
    rows = list(csv.DictReader((tmp_path / "sweep" / "points.csv").read_text().splitlines()))
    assert [(row["clients"], row["sent"], row["seeds"]) for row in rows] == [
        ("6", "all", "2"), ("6", "half", "3"), ("12", "all", "2"), ("12", "half", "2"),
    ]  # fmt: skip


def test_run_that_fails_does_not_end_the_others(tmp_path, capfd):
    plan = Plan("T", (1,), CHEAP, {"lr": {"wild": {"training.lr": 1e30}, "calm": {}}})
    (tmp_path / "plan.toml").write_text(plan.to_toml())
    with pytest.raises(SystemExit) as end:
        main(["sweep", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "out")])
    assert end.value.code == 1
    said = capfd.readouterr().err
    assert "1 of 2 runs failed: lr=wild,seed=1: " in said
    assert "not-finite" in said
    rows = list(csv.DictReader((tmp_path / "out" / "runs.csv").read_text().splitlines()))
    assert [(row["lr"], row["status"]) for row in rows] == [("wild", "failed"), ("calm", "completed")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.toml"], "missing.toml: No such file"),
        ([str(CONFIGS / "compression_ratio.toml"), "--set", "x=1"], "x = 1: there is no such setting"),
    ],
)
def test_what_cannot_be_asked_for_ends_with_2_and_one_line(arguments, message, capsys, tmp_path):
    with pytest.raises(SystemExit) as end:
        main(["sweep", *arguments, "--out", str(tmp_path / "out")])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not list(tmp_path.glob("out/runs/*"))


@pytest.mark.slow
def test_interrupted_it_says_how_to_go_on(start, tmp_path):
    process = start()
    wait_until(lambda: (tmp_path / "killed" / "runs.csv").exists(), "the first run")
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert process.stderr.read() == "interrupted; the same command resumes from here\n"


EXPERIMENTS = sorted(path.stem for path in CONFIGS.glob("*.toml") if path.stem not in NO_PLANS)


GRID = "byzantine"  # a table, and a figure, for each skew and share of attackers: some 70 runs
LONG = {*WITHOUT_FIGURES, GRID, "granularity", "number_of_clients", "asynchronous", "private_nodes", "residuals"} | {
    "dropping", "few_clients", "slices", "frontier", "both_ways", "skew", "secure_sums", "stragglers"
}  # fmt: skip
"""Half a minute and more each; the last five take seconds, as those that stay, and draw by functions of theirs."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in EXPERIMENTS],
)
def test_experiment_at_its_smallest_writes_its_figures_and_tables(name, tmp_path):
    module = importlib.import_module(f"experiments.sweeps.{name}")
    rounds = 2 if name == "limits" else 1  # it compares a round with the one before
    module.main(["--quick", "--seeds", "1", "--set", f"rounds.total={rounds}", "--out", str(tmp_path)])
    assert len(list((tmp_path / "runs").iterdir())) > 1
    figures = () if name in WITHOUT_FIGURES else ("*.png", "*.svg")
    for pattern in (*figures, "*.md" if name == GRID else "table.md", *TABLES):
        assert list(tmp_path.glob(pattern)), pattern
