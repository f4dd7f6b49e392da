"""A run's output in a terminal, a pipe and a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from fedlearn.cli import main

from .conftest import CHEAP, ROOT, end_of

TINY = [f"--set={name}={value}" for name, value in CHEAP.items()]


@pytest.fixture
def fedlearn(tmp_path):
    def fedlearn(*arguments: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        env = os.environ | {"PYTHONPATH": str(ROOT)} | environment
        done = subprocess.run(
            [sys.executable, "-m", "fedlearn", *arguments], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return fedlearn


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Run an impossible command in this process; return the one line of its error. No file may be left behind."""
    monkeypatch.chdir(tmp_path)

    def refused(*arguments: str) -> str:
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        said = capsys.readouterr().err
        assert (end.value.code, said.count("\n")) == (2, 1), said
        assert not list(tmp_path.iterdir())
        return said

    return refused


FLOWERS = ["simulate", *TINY, "--strategy", "flwr.serverapp.strategy:FedTrimmedAvg"]


@pytest.mark.long
def test_quiet_is_quiet_with_flowers_strategies_too(fedlearn):
    done = fedlearn(*FLOWERS, "--quiet")
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.long
def test_flowers_lines_are_there_once_and_without_colour_where_they_are_asked_for(fedlearn):
    said = fedlearn(*FLOWERS, "--quiet", FLWR_LOG_LEVEL="INFO").stderr
    assert said.count("configure_train: Sampled") == 2  # one a round
    assert "\x1b" not in said


@pytest.mark.long
def test_a_run_is_not_ended_earlier_than_it_has_come(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert end_of("simulate", *TINY, "--out", "run", "--quiet") == 0
    assert end_of("simulate", "--resume", "run", "--rounds", "1") == 2
    said = capsys.readouterr().err
    assert said.endswith("run has 2 rounds: ask for more of them, or leave it out\n")
    assert said.count("\n") == 1
    assert end_of("simulate", "--resume", "run", "--rounds", "3", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rounds"] == 3


def test_what_is_clamped_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert end_of("simulate", *TINY, "--cohort", "50", "--set", "rounds.cohort=50", "--set", "rounds.total=1") == 0
    said = capsys.readouterr().err
    assert said == "note: rounds.cohort = 50 is more than there are: all 12 clients take part in each round\n"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["strategy.name=fedavg", "strategy.options.x=1"], "strategy.options.x = 1: there is no such option"),
        (["strategy.name=strategies.median:Median", "strategy.options.x=1"], "strategy.options.x = 1"),
        (["strategy.name=flwr.serverapp.strategy:FedMedian", "strategy.options.x=1"], "there is no such option"),
        (["training.options.betas=[0.9,0.9]"], "training.options.betas"),
        (["training.optimizer=adamw", "training.options.beta=1"], "did you mean betas?"),
        (["data.options.size=3"], "data.options.size = 3: there are no options here"),
        (["data.partition_options.alpha=3"], "data.partition_options"),
        (["data.partition=linear", "data.partition_options.alpha=3"], "data.partition_options.alpha"),
        (["model.options.width=3", "model.name=cnn"], "model.options.width"),
        (["compression.codec=identity:3"], "'identity' takes no argument"),
        (["compression.codec=rotate:3,quantize"], "stage 'rotate:3'"),
        (["compression.downlink=fp16:3"], "stage 'fp16:3'"),
        (["strategy.steps.clip.norm=1", "strategy.steps.clip.x=1"], "strategy.steps"),
        (['client.mods=[{"flwr.clientapp.mod:LocalDpMod" = {x = 1}}]'], "client.mods"),
    ],
)
def test_options_that_nothing_reads_are_one_line(refused, settings, message):
    assert message in refused("simulate", *TINY[:-1], "--engine", "inline", *(f"--set={each}" for each in settings))


PLUGIN = '''"""Code of a user."""
from client.learners.sgd import SGD
from strategies.fedavg import FedAvg


def deep(number):
    return deep(number - 1) if number else 1 / 0


class Wrong(SGD):
    def fit(self, state, task):
        return deep(20)


class Broken(FedAvg):
    def next_state(self, turn):
        return deep(20)
'''


@pytest.mark.long
def test_a_learner_that_raises_is_a_few_lines_that_name_the_place(fedlearn, tmp_path):
    (tmp_path / "mine.py").write_text(PLUGIN)
    done = fedlearn("simulate", *TINY, "--set=training.learner=mine:Wrong", "--out", "run", code=1)
    lines = done.stderr.splitlines()
    assert len(lines) <= 3  # one a worker, and the run's
    assert all("ZeroDivisionError in mine.py:7: division by zero" in line for line in lines)
    assert "run/tracebacks.txt" in lines[0]
    assert 'mine.py", line 12, in fit' in (tmp_path / "run" / "tracebacks.txt").read_text()


@pytest.mark.slow
def test_a_strategy_that_raises_is_one_line_that_names_the_place(fedlearn, tmp_path):
    (tmp_path / "mine.py").write_text(PLUGIN)
    done = fedlearn("simulate", *TINY, "--strategy", "mine:Broken", "--out", "run", code=1)
    assert done.stderr == "error: ZeroDivisionError in mine.py:7: division by zero; traceback in run/tracebacks.txt\n"
    assert "line 17, in next_state" in (tmp_path / "run" / "tracebacks.txt").read_text()


@pytest.mark.long
def test_a_sweep_of_flags_goes_on_and_reports(fedlearn, tmp_path):
    sweep = ["sweep", *TINY, "--compression", "drop", "--vary", "compression.keep_ratio=1,0.5", "--seeds", "1,2"]
    said = fedlearn(*sweep, COLUMNS="80").stdout
    (folder,) = (tmp_path / "runs").iterdir()
    assert len(list((folder / "runs").iterdir())) == 4
    assert (folder / "report" / "index.html").is_file()
    assert "compression.keep_ratio" in said and " ± " in said
    again = fedlearn(*sweep[:-1], "1,2,3").stdout
    assert "1/2" in again and "2/2" in again  # the third seed alone
    assert (folder / "points.csv").read_text().splitlines()[1].startswith("1,3,")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no setting varies"),
        (["--vary", "training.lr"], "write it as key=value,value"),
        (["--vary", "training.lr=0.1,0.2", "--lr", "0.1"], "training.lr: the sweep sets it itself on its axis"),
        (["--vary", "training.lr=0.1,x"], "training.lr = 'x'"),
        (["--vary", "learning_rate=0.1"], "did you mean training.lr?"),
        (["--seeds", "1,b"], "--seeds 1,b: write integers"),
        (["--seeds", "1,1"], "none twice"),
        (["--quick", "--seeds", "1,2"], "name the plan's file"),
        (["--seeds", "1,2", "--only", "a=b"], "there is no such point"),
        (["missing.toml"], "missing.toml: No such file"),
    ],
)
def test_a_sweep_that_cannot_be_is_one_line_and_leaves_nothing(refused, arguments, message):
    assert message in refused("sweep", *arguments)
