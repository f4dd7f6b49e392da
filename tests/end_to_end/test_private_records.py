"""Whole runs that protect records: one model on every engine, after a resume, and what their results say."""

from __future__ import annotations

import signal

import pytest

from fedlearn.core.errors import RunFailed, SettingError
from tests.end_to_end.conftest import CHEAP, resumed

RECORDS = {
    **CHEAP, "clients": 3, "rounds.total": 4, "rounds.cohort": 0, "model.name": "linear", "privacy.protects": "records",
    "privacy.epsilon": 4.0, "privacy.delta": 1e-6, "training.batch_size": 200,
}  # fmt: skip


@pytest.mark.long
def test_every_engine_makes_the_same_model_and_every_epsilon_says_what_it_means(execute, undisturbed):
    reference = undisturbed(RECORDS)
    for workers in (1, 2):
        assert execute({**RECORDS, "engine.workers": workers}).sha == reference.sha
    summary = reference.summary
    assert (summary["epsilon"], summary["delta"], summary["nodes_spent"]) == (4.0, 1e-6, 3)
    assert summary["sampling"].startswith("Poisson sampling of records, rate 0.4")
    assert summary["noise_notice"] == "seeded noise: reproducible, protects nobody"
    reported = [event for event in reference.events if event["event"] == "reported"]
    assert all(
        event["num_examples"] == 1 and "train_loss" not in event for event in reported if "num_examples" in event
    )
    (note,) = [each["note"] for each in summary["metrics"]["reported"] if each["name"] == "epsilon"]
    assert "delta 1e-06; Poisson sampling of records" in note and "add or remove one record" in note


@pytest.mark.long
def test_a_run_that_was_killed_goes_on_to_the_same_bytes(command, undisturbed):
    started = command(RECORDS)
    started.wait_for_round(1)
    started.signal(signal.SIGKILL)
    assert started.run.committed < 4
    assert resumed(started.run).sha == undisturbed(RECORDS).sha


@pytest.mark.long
def test_ray_makes_the_same_model(command, undisturbed):
    started = command({**RECORDS, "engine.name": "ray"})
    _, error = started.process.communicate(timeout=300)
    assert started.process.returncode == 0, error
    assert started.run.sha == undisturbed(RECORDS).sha


@pytest.mark.long
def test_more_rounds_than_the_noise_was_made_for_are_not_run(execute):
    short = {**RECORDS, "privacy.participations": 1, "rounds.selection_window": 0.2, "rounds.max_attempts": 1}
    with pytest.raises(RunFailed):
        execute(short, engine="inline")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"privacy.delta": 0.0}, "privacy.delta = 0.0: Gaussian noise needs one"),
        ({"training.learner": "sgd"}, "training.learner = 'sgd': records are protected by learner 'dp-sgd' alone"),
        ({"evaluation.nodes": 2}, "evaluation.nodes"),
        ({"evaluation.where": "nodes"}, "evaluation.where"),
        ({"model.name": "dp-forest", "data.dataset": "diabetes"}, "model.name = 'dp-forest': dp-sgd trains torch"),
        ({"secure.sums": "unmasked"}, "with secure sums"),
        ({"rounds.selector": "power-of-choice"}, "private report none: use 'uniform'"),
    ],
)
def test_what_would_tell_of_records_is_refused_before_round_1(execute, changes, words):
    with pytest.raises(SettingError, match=words):
        execute({**RECORDS, **changes}, engine="inline")
