"""Nodes that are trained together: what one does costs no other, and no worker, kill or clock is in the bytes."""

from __future__ import annotations

import logging
import signal

import pytest

from client.learners.sgd import SGD
from client.learners.stack import Stack
from fedlearn.core.errors import SettingError
from tests.marked import some_long

STACKED = {
    "model.name": "faulty:stacked_model", "clients": 8, "rounds.cohort": 0, "rounds.quorum": 0.5, "training.stack": 4,
    "training.batch_size": 20,
}  # fmt: skip
PHONES = {"devices.name": "phones", "rounds.reporting_deadline": 3600.0}
SLOW = pytest.mark.slow
ON_DEVICES = {**STACKED, **PHONES, "rounds.cohort": 5, "clients": 40}


@pytest.fixture
def faults(monkeypatch):
    return lambda words: monkeypatch.setenv("FAULTS", words)


def failed(run):
    return {(e["round"], e["partition"]): e["reason"] for e in run.events_of("failed")}


def test_a_node_that_raises_in_a_stack_fails_alone(execute, faults):
    faults("raise:2:1")
    run = execute({**STACKED, "rounds.total": 1}, engine="inline")
    assert failed(run) == {(1, 2): "RuntimeError in faulty.py:28: the disk is full"}
    assert [e["reported"] for e in run.events_of("committed")] == [7]


@pytest.mark.long
def test_a_node_that_kills_its_worker_in_a_stack_fails_alone(execute, faults):
    faults("raise:2:1 raise:7:2")
    raised = execute(STACKED, engine="inline")
    faults("kill:2:1 kill:7:2")
    killed = execute(STACKED)
    assert failed(raised).keys() == failed(killed).keys() == {(1, 2), (2, 7)}
    assert set(failed(killed).values()) == {"its worker process died (exit code -9)"}
    assert killed.sha == raised.sha  # those beside it were trained alone in both


@pytest.mark.long
def test_killed_while_a_stack_is_trained_it_resumes_to_the_same_bytes(in_the_middle, execute, undisturbed):
    killed = in_the_middle(STACKED, "hang:3:2")
    killed.signal(signal.SIGKILL)
    run = execute({**STACKED, "engine.workers": 3}, out=killed.run.folder)
    assert run.sha == undisturbed(STACKED).sha


@pytest.mark.long
def test_on_virtual_time_the_stack_is_in_the_bytes_and_workers_are_not(execute, undisturbed):
    reference = undisturbed(ON_DEVICES)
    assert {execute({**ON_DEVICES, "engine.workers": workers}).sha for workers in (1, 3)} == {reference.sha}


SMALL = {"model.name": "cnn", "rounds.cohort": 7, "training.batch_size": 20}


@pytest.fixture
def together(monkeypatch):
    """Note how many nodes are trained together each time, in this process."""
    found, fit = [], Stack.fit

    def noted(self, state, tasks):
        found.append(len(tasks))
        return fit(self, state, tasks)

    monkeypatch.setattr(Stack, "fit", noted)
    return found


def test_small_clients_are_trained_together_by_default_with_the_bytes_of_one_by_one(execute, together):
    run = execute(SMALL, engine="inline")
    assert together == [7, 7]
    assert run.sha == execute({**SMALL, "training.stack": 1}, engine="inline").sha
    assert together == [7, 7]
    assert {execute({**SMALL, "engine.workers": workers}).sha for workers in (1, 2, 3)} == {run.sha}


FURTHER = {
    "drop": {"compression.codec": "drop:0.3"},
    "residual": {"compression.codec": "residual,top-k:0.1", "compression.send": "update"},
    "masked": {"secure.sums": "masked"},
    "part of a pass": {"training.passes": 0.6},
    "batches of one": {"training.batch_size": 1, "training.lr": 0.01},
    "some decay": {
        "training.optimizer": "adamw", "training.lr": 0.001, "training.weight_decay": 0.1,
        "training.decayed": "!*.bias",
    },
    "clipped": {"training.clip_norm": 0.5},
    "sent in part": {"training.send": "last"},
    "slices": {"strategy.name": "heterofl"},
}  # fmt: skip


@pytest.mark.parametrize("name", some_long(FURTHER, "masked", "batches of one", "sent in part", "slices", "clipped"))
def test_small_clients_have_their_bytes_whatever_else_is_asked(name, execute, together):
    settings = {**SMALL, **FURTHER[name], "rounds.total": 1}
    run = execute(settings, engine="inline")
    assert together
    assert run.sha == execute({**settings, "training.stack": 1}, engine="inline").sha


@pytest.mark.parametrize("stacks", [(0, 1), (1, 0)])
def test_a_run_goes_on_one_by_one_or_together_as_it_likes(execute, stacks, undisturbed):
    first, then = ({**SMALL, "training.stack": stack} for stack in stacks)
    begun = execute({**first, "rounds.total": 1}, engine="inline")
    assert execute(then, engine="inline", out=begun.folder).sha == undisturbed(SMALL).sha


def test_a_client_that_fails_among_small_ones_fails_alone(execute, monkeypatch, together):
    batches = SGD.batches

    def fails(self, task, progress):
        if task.partition_id % 3 == 0:
            raise RuntimeError("the disk is full")
        return batches(self, task, progress)

    monkeypatch.setattr(SGD, "batches", fails)
    run = execute({**SMALL, "rounds.quorum": 0.1}, engine="inline")
    assert together
    assert {partition % 3 for _, partition in failed(run)} == {0}
    assert run.sha == execute({**SMALL, "rounds.quorum": 0.1, "training.stack": 1}, engine="inline").sha


def test_what_cannot_be_stacked_is_said_once_and_trained_one_by_one(execute, caplog):
    with caplog.at_level(logging.WARNING):
        execute({**STACKED, "model.name": "faulty:model"}, engine="inline")
    said = [record.getMessage() for record in caplog.records if "training.stack" in record.getMessage()]
    why = "FaultySGD changes how a client is trained, and does not say can_stack = True"
    assert said == [f"training.stack = 4: clients are trained one by one: {why}"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"client.mods": ["flwr.clientapp.mod:message_size_mod"]},
            "client.mods may change what a client is given to learn",
        ),
        ({"training.precision": "bfloat16-mixed"}, "training.precision is not float32"),
        pytest.param({"model.name": "dp-forest", "data.dataset": "diabetes"}, "its clients have ledgers", marks=SLOW),
    ],
)
def test_nodes_that_must_not_be_trained_together_are_not(execute, caplog, changes, why):
    with caplog.at_level(logging.WARNING):
        execute({**STACKED, "model.name": "linear", "rounds.total": 1, **changes}, engine="inline")
    assert any(f"clients are trained one by one: {why}" in message for message in caplog.messages)


def test_rounds_without_cohorts_are_refused(execute):
    asynchronous = {"rounds.schedule": "buffered", **PHONES}
    with pytest.raises(SettingError, match=r"training.stack = 4: rounds.schedule = 'buffered' writes to one client"):
        execute({**STACKED, **asynchronous}, engine="inline")
