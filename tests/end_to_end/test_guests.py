"""Algorithms that live outside this repository, in files of at most 70 lines, and change no file in it."""

from __future__ import annotations

import csv
import signal
from pathlib import Path

import pytest

from fedlearn.core.errors import SettingError
from tests.end_to_end.conftest import some_slow

PLUGINS = Path(__file__).parent / "plugins"
LONGEST = 70  # lines

QUADRATICS = {"model.name": "quadratics:model", "clients": 12, "rounds.cohort": 6, "rounds.total": 60}
SCAFFOLD = {**QUADRATICS, "strategy.name": "scaffold:Scaffold", "training.learner": "scaffold:ScaffoldDescent"}
NOISY = {
    **QUADRATICS, "strategy.name": "noisy_mean:NoisyMean", "compression.send": "update",
    "strategy.options": '{"norm": 6.0, "epsilon": 2.0}', "rounds.total": 30,
}  # fmt: skip
TWICE = {"rounds.schedule": "two_selections:TwoSelections", "rounds.total": 4, "compression.codec": "drop"}
GUESTS = {"scaffold": SCAFFOLD, "noisy-mean": NOISY, "two-selections": TWICE}


def rows_of(run):
    return list(csv.DictReader((run.folder / "metrics.csv").read_text().splitlines()))


@pytest.mark.parametrize("name", ["quadratics", "scaffold", "noisy_mean", "two_selections"])
def test_a_guest_is_a_small_file(name):
    assert len((PLUGINS / f"{name}.py").read_text().splitlines()) <= LONGEST


@pytest.mark.parametrize("settings", some_slow(GUESTS, (), long=["scaffold", "two-selections"]))
def test_a_guest_makes_the_same_bytes_on_every_engine(execute, settings):
    assert execute(settings).sha == execute(settings, engine="inline").sha


def test_the_summary_says_what_a_strategy_has_spent_and_what_that_counts_in(execute):
    summary = execute({**NOISY, "rounds.total": 3}, engine="inline").summary
    assert summary["epsilon_of_nodes"] == 6.0
    assert summary["epsilon_of_nodes_counts_in"] == (
        "spent in all rounds so far; add or remove one node; unit: node; trusted server"
    )
    assert "nodes_spent" not in summary  # that is of nodes that pay by themselves


@pytest.mark.long
@pytest.mark.parametrize("settings", GUESTS.values(), ids=GUESTS)
def test_a_guest_that_was_killed_resumes_to_the_same_bytes(command, execute, settings):
    killed = command({**settings, "engine.name": "inline"})
    killed.wait_for_round(2)
    killed.signal(signal.SIGKILL)
    assert 2 <= killed.run.committed < settings["rounds.total"]
    assert execute(settings, out=killed.run.folder).sha == execute(settings, engine="inline").sha


@pytest.mark.long
def test_scaffold_converges_to_the_optimum_that_fedavg_misses(execute):
    settings = {"rounds.total": 150, "evaluation.every": 150}
    fedavg = execute({**QUADRATICS, **settings, "rounds.cohort": 0}, engine="inline")
    scaffold = execute({**SCAFFOLD, **settings}, engine="inline")
    assert fedavg.summary["gap"] > 0.05
    assert scaffold.summary["gap"] < 1e-6
    # Each node has an optimum of its own, and one that was not asked for long has far to go: none is taken for a liar.
    assert not [run for run in (fedavg, scaffold) if run.events_of("refused") or run.events_of("too-far")]


def test_a_strategy_says_which_learner_its_nodes_must_have(execute):
    with pytest.raises(SettingError, match=r"training\.learner = '': .*needs clients that learn by 'scaffold:"):
        execute({**SCAFFOLD, "training.learner": ""}, engine="inline")


def test_what_a_strategy_measures_is_a_column_of_the_table(execute):
    rows = rows_of(execute({**NOISY, "rounds.total": 3}, engine="inline"))
    assert [float(row["epsilon_of_nodes"]) for row in rows] == [2.0, 4.0, 6.0]


def test_noise_is_drawn_anew_in_each_round_and_again_by_the_same_seed(execute):
    first, again = (execute({**NOISY, "rounds.total": 2}, engine="inline") for _ in range(2))
    other = execute({**NOISY, "rounds.total": 2, "seed": 2}, engine="inline")
    assert first.sha == again.sha != other.sha


def test_a_commit_of_two_selections_counts_both_cohorts(execute):
    run = execute(TWICE, engine="inline")
    assert [int(row["cohort"]) for row in rows_of(run)] == [10] * 4
    assert len(run.events_of("selected")) == 8
    assert len(run.events_of("committed")) == 4
