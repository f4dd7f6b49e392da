"""Nodes that raise, hang, or end their worker fail alone; the run goes on."""

from __future__ import annotations

import os
import time

import pytest

from fedlearn.core.errors import RunFailed, UsageError
from tests.end_to_end.conftest import end_of

FAULTY = {"model.name": "faulty:model", "clients": 8, "rounds.cohort": 0, "rounds.quorum": 0.5}


@pytest.fixture
def faults(monkeypatch):
    return lambda words: monkeypatch.setenv("FAULTS", words)


def failed(run):
    return {(e["round"], e["partition"]): e["reason"] for e in run.events_of("failed")}


@pytest.mark.long
@pytest.mark.parametrize(("kind", "code"), [("exit", "7"), ("kill", "-9")])
def test_a_node_that_kills_its_worker_fails_alone(execute, faults, kind, code):
    faults("raise:2:1 raise:3:1 raise:7:2")
    raised = execute(FAULTY, engine="inline")
    faults(f"{kind}:2:1 {kind}:3:1 {kind}:7:2")
    run = execute(FAULTY)
    reason = f"its worker process died (exit code {code})"
    assert failed(run) == {(1, 2): reason, (1, 3): reason, (2, 7): reason}
    assert [e["reported"] for e in run.events_of("committed")] == [6, 7]
    assert run.sha == raised.sha


def test_a_node_that_raises_fails_with_its_reason(execute, faults):
    faults("raise:4:1 quit:5:2")
    runs = [execute(FAULTY), execute(FAULTY, engine="inline")]
    for run in runs:
        assert failed(run) == {
            (1, 4): "RuntimeError in faulty.py:28: the disk is full",
            (2, 5): "SystemExit in faulty.py:38: no more",
        }
    assert runs[0].sha == runs[1].sha


@pytest.mark.long
def test_a_round_whose_nodes_all_kill_their_workers_is_abandoned(execute, faults):
    faults(" ".join(f"exit:{partition}:1" for partition in range(1, 8)))  # as node 0 the learner is tried before
    begin = time.monotonic()
    with pytest.raises(RunFailed, match="quorum is 4; first reason: its worker process died"):
        execute(FAULTY)
    assert time.monotonic() - begin < 60


@pytest.mark.parametrize(("kind", "said"), [("exit", "exit code 7"), ("quit", "no more")])
def test_a_learner_that_ends_its_process_before_round_1_is_one_line(execute, faults, kind, said):
    faults(f"{kind}:0:1")
    if kind == "quit":  # it is one node's failure
        assert failed(execute(FAULTY)) == {(1, 0): f"SystemExit in faulty.py:38: {said}"}
        return
    with pytest.raises(RunFailed, match=f"^a trial of the learner, before round 1: .*{said}"):
        execute(FAULTY)


@pytest.mark.long
@pytest.mark.parametrize(
    "partitions",
    [
        pytest.param((1, 3, 4), id="more than there are workers", marks=pytest.mark.slow),
        pytest.param((1,), id="one", marks=pytest.mark.long),
    ],
)
def test_a_node_that_hangs_costs_itself_only(execute, faults, partitions):
    faults(" ".join(f"raise:{partition}:1" for partition in partitions))
    raised = execute(FAULTY, engine="inline")
    faults(" ".join(f"hang:{partition}:1" for partition in partitions))
    run = execute({**FAULTY, "rounds.reporting_deadline": 10.0})  # the others need that long beside other tests
    assert sorted((e["round"], e["partition"]) for e in run.events_of("late")) == [(1, each) for each in partitions]
    assert [e["late"] for e in run.events_of("committed")] == [len(partitions), 0]
    assert run.sha == raised.sha


def test_a_node_that_takes_away_its_workers_memory_fails_alone(execute, faults):
    faults("raise:2:1")
    raised = execute(FAULTY, engine="inline")
    faults("starve:2:1")
    run = execute(FAULTY)
    assert failed(run) == {(1, 2): "its worker process died (exit code 1)"}
    assert run.sha == raised.sha


def test_workers_that_die_over_no_node_fail_the_run_with_one_line(execute, monkeypatch):
    monkeypatch.setenv("MAIN_PID", str(os.getpid()))
    begin = time.monotonic()
    with pytest.raises(RunFailed, match=r"5 worker processes in a row died \(exit code 9\)"):
        execute({"model.name": "dies_when_imported:model"})
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("engine", ["embedded", "inline"])
def test_a_model_that_cannot_be_loaded_is_one_line_of_usage(execute, engine):
    for name, said in {
        "cnm": "choose one of linear, mlp, cnn, cnn-large, resnet18",
        "nowhere:model": "there is no module nowhere here or installed",
    }.items():
        with pytest.raises(UsageError) as error:
            execute({"model.name": name}, engine=engine)
        assert error.value.exit_code == 2
        assert said in str(error.value)
        assert "\n" not in str(error.value)


def test_the_command_says_in_one_line_that_a_model_cannot_be_loaded(capfd, tmp_path):
    arguments = ["--dataset", "digits", "--clients", "4", "--out", tmp_path / "run", "--model", "nowhere:model"]
    assert end_of("simulate", "--quiet", *arguments) == 2
    said = capfd.readouterr().err.strip()
    assert "--model nowhere:model: there is no module nowhere" in said
    assert "\n" not in said
