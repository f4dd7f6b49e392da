"""Listeners log what was committed, and a listener that fails never stops a run."""

from __future__ import annotations

import logging
import sys
import types
from typing import ClassVar

import pytest

from fedlearn.config import RunConfig, config_from
from fedlearn.report.listeners import listened
from fedlearn.words.errors import SettingError, UsageError
from tests.unit.report.conftest import committed, rows_of, write_events

ENDED = {"time": 9.0, "event": "ended", "status": "completed", "reason": ""}


def log_of(folder, name, events, config=None):
    """Let a listener follow a log that grows, and return its folder."""
    with listened([name], folder / "events.jsonl", config or RunConfig()):
        write_events(folder, events)
    return folder


def test_tensorboard_has_every_number_of_every_round(tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra 'tensorboard'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log_of(tmp_path, "tensorboard", [*map(committed, rows_of([0.25, None, 0.5])), ENDED])
    read = EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    assert [(point.step, point.value) for point in read.Scalars("accuracy")] == [(1, 0.25), (3, 0.5)]
    assert [point.value for point in read.Scalars("bytes/up")] == [500, 500, 500]
    assert {"nodes/reported", "seconds/training", "loss"} <= set(read.Tags()["scalars"])


class Client:
    """The used part of MLflow's client; it remembers calls."""

    calls: ClassVar[list[tuple[object, ...]]] = []

    def get_experiment_by_name(self, name):
        return None

    def create_experiment(self, name):
        return "7"

    def create_run(self, experiment, run_name):
        assert (experiment, run_name) == ("7", "run")
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id="the-id"))

    def log_metric(self, run_id, name, value, timestamp, step):
        self.calls.append((run_id, name, value, timestamp, step))

    def __getattr__(self, name):
        return lambda *args, **given: self.calls.append((name, *args, *given.values()))


@pytest.fixture
def mlflow(monkeypatch):
    module, errors = types.ModuleType("mlflow"), types.ModuleType("mlflow.exceptions")
    module.MlflowClient, errors.MlflowException = Client, type("MlflowException", (Exception,), {})
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setitem(sys.modules, "mlflow.exceptions", errors)
    monkeypatch.delenv("MLFLOW_DISABLE_TELEMETRY", raising=False)
    monkeypatch.setattr(Client, "calls", [])
    return module


def test_mlflow_gets_settings_metrics_and_the_end(mlflow, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    log_of(folder, "mlflow", [*map(committed, rows_of([0.25])), ENDED], config_from({"clients": 7}))
    assert ("log_param", "the-id", "clients", 7) in Client.calls
    assert ("the-id", "accuracy", 0.25, 1000, 1) in Client.calls
    assert Client.calls[-1] == ("set_terminated", "the-id", "FINISHED")


def test_a_resumed_run_goes_on_in_its_mlflow_run(mlflow, tmp_path):
    (tmp_path / "mlflow_run_id.txt").write_text("earlier")
    log_of(tmp_path, "mlflow", [])
    assert Client.calls == [("update_run", "earlier", "RUNNING"), ("set_terminated", "earlier", "FAILED")]


def test_a_server_that_says_no_is_a_line(mlflow, tmp_path, monkeypatch):
    def refuse(self, name):
        raise sys.modules["mlflow.exceptions"].MlflowException("no\nsuch server")

    monkeypatch.setattr(Client, "get_experiment_by_name", refuse)
    with pytest.raises(UsageError, match=r"^--log mlflow: no such server$"):
        log_of(tmp_path, "mlflow", [])


@pytest.mark.parametrize(("name", "package"), [("tensorboard", "tensorboard"), ("mlflow", "mlflow")])
def test_a_package_that_is_missing_is_named_before_the_run(name, package, tmp_path, monkeypatch):
    for module in [module for module in sys.modules if module.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with (
        pytest.raises(UsageError, match=rf"^--log {name}: not installed: pip install 'fedlearn\[{name}\]'$"),
        listened([name], tmp_path / "events.jsonl", RunConfig()),
    ):
        pytest.fail("the run was begun")


def test_a_name_that_is_none_lists_the_choices(tmp_path):
    with (
        pytest.raises(SettingError, match="tensorboard, mlflow"),
        listened(["wandb"], tmp_path / "events.jsonl", RunConfig()),
    ):
        pytest.fail("the run was begun")


class Failing:
    def __init__(self, folder, config):
        self.taken = 0

    def take(self, event):
        self.taken += 1
        assert self.taken == 1
        raise OSError("disk full")

    def close(self):
        pytest.fail("it was given up")


def test_a_listener_that_fails_is_given_up_with_one_line(tmp_path, caplog, monkeypatch):
    monkeypatch.setitem(sys.modules, "failing", types.SimpleNamespace(Listener=Failing))
    with caplog.at_level(logging.WARNING):
        log_of(tmp_path, "failing:Listener", [ENDED, ENDED])
    assert [record.getMessage() for record in caplog.records] == [
        "--log failing:Listener: given up, the run goes on: OSError: disk full"
    ]
