"""Checks of the server before the first round."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from fedlearn.config import config_from, to_flower
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.core.metric import EPSILON, MAE, Metric
from fedlearn.core.metrics import Metrics
from fedlearn.models.loaded import traits
from fedlearn.models.presets import settings_from
from fedlearn.plugins.registry import load_reference
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.history import History
from server.app import _summarized
from server.planning.run_plan import has_private_learner, with_columns
from server.results.completed import Completed
from server.results.printing_log import PrintingLog

PRIVATE = "tests.end_to_end.plugins.noisy_counts:NoisyCounts"
UNKNOWN = "known_to_the_nodes_alone:Learner"


def exchange(learner, *, is_virtual):
    settings = to_flower(settings_from({"model.name": "linear", "data.dataset": "digits", "training.learner": learner}))
    return SimpleNamespace(is_virtual=is_virtual, ask=lambda what, kind: load_reference(what)(settings, {}))


@pytest.mark.parametrize("is_virtual", [True, False])
@pytest.mark.parametrize(("learner", "is_private"), [(PRIVATE, True), ("sgd", False)])
def test_the_server_asks_the_learner_whether_it_is_private_on_a_network_too(learner, is_private, is_virtual):
    assert has_private_learner(exchange(learner, is_virtual=is_virtual)) is is_private


def test_a_learner_that_the_nodes_of_a_network_alone_know_is_no_error():
    assert not has_private_learner(exchange(UNKNOWN, is_virtual=False))
    with pytest.raises(SettingError, match=r"training\.learner"):
        has_private_learner(exchange(UNKNOWN, is_virtual=True))


def test_the_line_of_a_round_on_a_network_says_what_epsilon_counts_in(tmp_path, capsys):
    metrics = Metrics((replace(EPSILON, note="spent; add or remove one record; unit: record; local noise"),), (MAE,))
    with PrintingLog(tmp_path / "events.jsonl", None) as events:
        events.write("started", metrics=metrics.to_plain())
        events.write("committed", round=1, reported=2, cohort=2, epsilon=1.0, mae=2.0, training_seconds=1.0)
    said = "epsilon=1.0000 (spent; add or remove one record; unit: record; local noise) mae=2.0000\n"
    assert capsys.readouterr().out == f"round=1 reported=2/2 {said}"


@pytest.mark.parametrize(("dataset", "is_public"), [("diabetes", True), ("own.toml", False)])
def test_test_rows_are_public_of_data_sets_that_come_with_fedlearn_alone(tmp_path, monkeypatch, dataset, is_public):
    rows = [f"{row % 9},{row % 7}" for row in range(30)]
    (tmp_path / "own.csv").write_text("\n".join(["a,y", *rows]))
    declared = 'data = "own.csv"\ntarget = "y"\ntarget_bounds = [0, 9]\nbounds = { a = [0, 9] }\n'
    (tmp_path / "own.toml").write_text(declared)
    monkeypatch.chdir(tmp_path)
    settings = to_flower(config_from({"model.name": "dp-forest", "data.dataset": dataset}))
    assert traits(settings, {}).test_is_public is is_public


@pytest.mark.parametrize("name", ["ready", "bytes_up", "round", "time"])
def test_metric_with_the_name_of_a_column_of_every_round_is_refused(name):
    with pytest.raises(UsageError, match=f"metric '{name}': every round has a column of this name"):
        with_columns(Metrics((), (Metric(name), MAE)), ())


@pytest.mark.parametrize(
    ("is_virtual", "code", "ended"),
    [(False, 0, ("interrupted", "")), (False, 3, ("failed", "3")), (True, 0, ("failed", "0"))],
)
def test_a_server_app_that_is_stopped_on_a_network_has_not_failed(is_virtual, code, ended, monkeypatch, tmp_path):
    """Flower ends it by SystemExit when it gets SIGTERM, as at a restart of the server; the job submits it again."""
    monkeypatch.setattr("server.app.write_summary", lambda *_, **__: None)
    said = {}
    run = SimpleNamespace(
        exchange=SimpleNamespace(is_virtual=is_virtual),
        events=SimpleNamespace(write=lambda event, **more: said.update(more)),
        store=SimpleNamespace(history=History()),
    )
    with pytest.raises(SystemExit), _summarized(run, RunFolder(tmp_path), Completed(RunFolder(tmp_path))):
        raise SystemExit(code)
    assert (said["status"], said["reason"]) == ended


def test_too_few_ready_nodes_are_printed_on_a_network_with_the_reason(tmp_path, capsys):
    with PrintingLog(tmp_path / "events.jsonl", None) as events:
        events.write("too-few-ready", round=1, attempt=2, ready=0, needed=3, reason="0 nodes were ready; 1 answer late")
        events.write("answered-late", round=1, attempt=1, node=7, partition=0, seconds=3.1, reason="late")
    assert capsys.readouterr().out == "round=1 attempt=2 too-few-ready: 0 nodes were ready; 1 answer late\n"
