"""Listeners log what was committed, and a listener that fails never stops a run."""

from __future__ import annotations

import logging
import re
import sys
import types
from pathlib import Path
from typing import ClassVar

import pytest

from fedlearn.config import RunConfig, config_from
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.report.listeners import listened
from fedlearn.runs.folder import RunFolder
from tests.unit.report.conftest import committed, rows_of, write_events

ENDED = {"time": 9.0, "event": "ended", "status": "completed", "reason": ""}


def log_of(folder, name, events, config=None):
    """Let a listener follow a log that grows, and return its folder."""
    with listened([name], RunFolder(folder), config or RunConfig()):
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


PACKAGES = {"tensorboard": "'fedlearn[tensorboard]'", "mlflow": "'fedlearn[mlflow]'", "wandb": "'fedlearn[wandb]'"}


@pytest.mark.parametrize(("name", "to_install"), PACKAGES.items())
def test_a_package_that_is_missing_is_named_before_the_run(name, to_install, tmp_path, monkeypatch):
    package = name
    for module in [module for module in sys.modules if module.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with (
        pytest.raises(UsageError, match=f"^--log {name}: not installed: pip install {re.escape(to_install)}$"),
        listened([name], RunFolder(tmp_path), RunConfig()),
    ):
        pytest.fail("the run was begun")


def test_a_name_that_is_none_lists_the_choices(tmp_path):
    with (
        pytest.raises(SettingError, match="tensorboard, mlflow, wandb"),
        listened(["clearml"], RunFolder(tmp_path), RunConfig()),
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
        "--log failing:Listener: given up, the run continues: OSError: disk full"
    ]


# --- Weights & Biases -------------------------------------------------------------------------------------------------


@pytest.fixture
def wandb(monkeypatch):
    """A module of the calls of W&B that are used; it remembers them."""
    module = types.ModuleType("wandb")
    module.calls = []

    def remember(name):
        return lambda *args, **given: module.calls.append((name, *args, given))

    def init(**given):
        assert Path(given["dir"]).is_dir()
        remember("init")(**given)
        summary = types.SimpleNamespace(update=remember("summary"))
        return types.SimpleNamespace(log=remember("log"), finish=remember("finish"), summary=summary)

    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    return module


def test_wandb_gets_settings_metrics_and_the_end(wandb, tmp_path):
    events = [*map(committed, rows_of([0.25])), {"time": 2.0, "event": "stopped", "round": 1, "reason": "it is good"}]
    log_of(tmp_path / "run", "wandb", [*events, ENDED], config_from({"clients": 7}))
    init, logged, stopped, finish = wandb.calls
    assert (init[1]["project"], init[1]["name"], init[1]["config"]["clients"]) == ("fedlearn", "run", 7)
    assert (logged[1]["accuracy"], logged[2]) == (0.25, {"step": 1})
    assert stopped == ("summary", {"stopped_early": "in round 1 because it is good"}, {})
    assert finish == ("finish", {"exit_code": 0})


def test_resumed_run_goes_on_in_its_wandb_run(wandb, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    for _ in range(2):
        log_of(tmp_path, "wandb", [])
    inits = [call[1] for call in wandb.calls if call[0] == "init"]
    assert inits[0]["id"] == inits[1]["id"] == (tmp_path / "wandb_run_id.txt").read_text()
    assert {each["resume"] for each in inits} == {"allow"} and inits[0]["project"] == "mine"
    assert wandb.calls[-1] == ("finish", {"exit_code": 1})  # it never ended


def test_wandb_that_cannot_begin_is_one_line(wandb, tmp_path):
    def refuse(**given):
        raise RuntimeError("api_key not configured\n(no-tty)")

    wandb.init = refuse
    with pytest.raises(UsageError, match=r"^--log wandb: it cannot be used here: .*api_key not configured") as error:
        log_of(tmp_path, "wandb", [])
    assert "\n" not in str(error.value)


# --- listeners of one's own -------------------------------------------------------------------------------------------


class Writer:
    """Opens a file in the run folder as soon as it is made."""

    def __init__(self, folder, config):
        self.file = (folder / "mine.txt").open("a", encoding="utf-8")

    def take(self, event):
        print(event["event"], file=self.file)

    def close(self):
        self.file.close()


class Keeping:
    """An object that is given; it cannot be hashed."""

    __hash__ = None

    def __init__(self):
        self.taken = []

    def take(self, event):
        self.taken.append(event["event"])

    def close(self):
        self.taken.append("closed")


def test_class_and_object_are_listeners_and_the_folder_is_there_before_them(tmp_path):
    folder, kept = tmp_path / "new" / "run", Keeping()
    with listened([Writer, kept, kept, lambda where, config: Writer(where, config)], RunFolder(folder), RunConfig()):
        write_events(folder, [ENDED])
    assert (folder / "mine.txt").read_text() == "ended\nended\n"
    assert kept.taken == ["ended", "closed"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (7, "no listener"),
        (object(), "no listener"),
        (lambda folder, config: None, "has no take"),
        (type("Half", (), {"take": print}), "Half"),
        (types.SimpleNamespace(take=print), "has no close"),
    ],
)
def test_what_is_no_listener_is_one_line(tmp_path, given, why):
    with pytest.raises(UsageError, match=why), listened([given], RunFolder(tmp_path), RunConfig()):
        pytest.fail("the run was begun")


def test_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(UsageError, match="name a folder that can be written to by --out"),
        listened([Writer], RunFolder(tmp_path / "file" / "run"), RunConfig()),
    ):
        pytest.fail("the run was begun")
