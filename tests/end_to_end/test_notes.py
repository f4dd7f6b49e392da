"""Likely mistakes are warned of once, in the log and in the results, and change no byte; NaN is no answer."""

from __future__ import annotations

import io
import logging

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

import fedlearn
from client.learners.sgd import SGD
from fedlearn.commands.shared import result_table
from fedlearn.config import config_from
from fedlearn.core.errors import UsageError
from fedlearn.data import from_arrays
from fedlearn.runs.classes_json import read_classes
from fedlearn.runs.log import EventTail
from server.results.summary import learning_rate

RNG = np.random.default_rng(1)
X = RNG.normal(size=(100, 4)).astype(np.float32)
ROWS = from_arrays(X, np.zeros(100, int), classes=2, name="rows")  # of NaN argmax says 0, which is right here
SMALL = {"clients": 4, "rounds": 2, "batch_size": 10, "lr": 0.1, "engine": "inline", "progress": False, "data": ROWS}


class Plain(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 2), nn.Softmax(1))


class Lit(Plain):
    def configure_optimizers(self):
        raise AssertionError("it is not called: there is no training_step")


class NaNWhenEvaluated(nn.Linear):
    def __init__(self):
        super().__init__(4, 2)

    def forward(self, x):
        outputs = super().forward(x)
        return outputs if self.training else outputs / 0 * 0


def test_notes_are_said_once_and_change_no_byte(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        run = fedlearn.run(model=Lit, out=tmp_path / "lit", **SMALL)
        said = [record.getMessage() for record in caplog.records]
        caplog.clear()
        resumed = fedlearn.run(resume=run, rounds=3, progress=False)
    assert [note.split()[0] for note in run.summary["notices"]] == ["Lit", "its"]
    assert [said.count(note) for note in run.summary["notices"]] == [1, 1]
    assert not caplog.records and resumed.summary["notices"] == run.summary["notices"]
    started = next(event for event in EventTail(run.folder / "events.jsonl").read() if event["event"] == "started")
    assert all(note in started["notice"] for note in run.summary["notices"])
    plain = fedlearn.run(model=Plain, out=tmp_path / "plain", **SMALL)
    assert plain.summary["model_sha256"] == fedlearn.run(model=Lit, out=tmp_path / "l", **SMALL).summary["model_sha256"]


def test_result_says_how_the_rate_falls(tmp_path):
    run = fedlearn.run(model="linear", out=tmp_path / "run", **SMALL)
    assert "notices" not in run.summary
    assert run.summary["learning_rate"] == "0.1, falling (lr_schedule = inverse, lr_decay = 0.1)"
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(result_table(run.summary, run.folder))
    assert "0.1, falling (lr_schedule = inverse, lr_decay = 0.1)" in console.export_text()


def warm(training, round_number, rounds):
    """A schedule that rises."""
    return training.lr * round_number / rounds


def triangle(training, round_number, rounds):
    """A schedule that rises, then falls."""
    return training.lr * min(round_number, rounds - round_number + 1) / (rounds / 2)


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (f"{__name__}:warm", "0.0025, rising (lr_schedule = "),
        (f"{__name__}:triangle", "0.005, rising and falling (lr_schedule = "),
        ("cosine", "0.05, falling (lr_schedule = cosine)"),
        ("constant", "0.05"), ("of_nodes_alone:warm", "0.05, (lr_schedule = of_nodes_alone:warm)"),
    ],
)  # fmt: skip
def test_a_rate_is_said_to_change_as_its_schedule_does(schedule, said):
    assert learning_rate(config_from({"training.lr_schedule": schedule})).startswith(said)


class Heavy(SGD):
    """Steps by a velocity of its own, at a rate of its own."""

    def learning_rate(self, round_number):
        return 0.01

    def optimizer(self, parameters, task):
        step, velocity = super().optimizer(parameters, task), [torch.zeros_like(each) for each in parameters]

        def update(gradients):
            torch._foreach_mul_(velocity, 0.5)
            torch._foreach_add_(velocity, gradients)
            step([each.clone() for each in velocity])

        return update


def test_a_learner_with_its_own_optimizer_and_rate_is_told_which_settings_still_act(tmp_path):
    given = {**SMALL, "model": "linear", "settings": {"training.learner": f"{__name__}:Heavy"}}
    run = fedlearn.run(out=tmp_path / "run", **given)
    assert [note for note in run.summary["notices"] if "training.momentum = 0.9 acts on top of it" in note]
    assert "learning_rate" not in run.summary
    given["settings"]["training.momentum"] = 0.0
    assert "notices" not in fedlearn.run(out=tmp_path / "without", **given).summary


@pytest.mark.parametrize("settings", [{}, {"evaluation.where": "nodes"}, {"evaluation.nodes": 4}])
def test_nan_is_no_answer_and_never_the_best_round(tmp_path, settings):
    run = fedlearn.run(model=NaNWhenEvaluated, out=tmp_path / "run", settings=settings, **SMALL)
    assert run.summary["accuracy"] is run.summary["best_accuracy"] is run.summary["best_round"] is None
    assert run.evaluate() == {"loss": None, "accuracy": None}
    assert run.history["accuracy"].isna().all()
    assert read_classes(run.folder) is None
    assert run.report().exists()


def test_nodes_without_examples_are_known_before_round_1(tmp_path):
    given = {**SMALL, "data": "digits", "clients": 20, "partition": "dirichlet"}
    with pytest.raises(UsageError, match=r"data\.alpha = 0\.01: 5 of 20 clients have no examples, .* or cohort=15"):
        fedlearn.run(model="linear", out=tmp_path / "run", settings={"data.alpha": 0.01}, **given)
    assert not (tmp_path / "run" / "checkpoint.json").exists()
