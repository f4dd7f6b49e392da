"""How many lanes some runs get, and what a lane answers."""

from __future__ import annotations

import json
import os
import signal

import psutil
import pytest

from fedlearn.config import config_from
from fedlearn.core.errors import RunFailed, UsageError
from fedlearn.engine.session import engine_of
from fedlearn.sweeps import parallel
from fedlearn.sweeps.parallel import FEWEST, SMALL, lanes_for, side_by_side


def usual(**settings):
    return config_from({"data.dataset": "digits", "rounds.cohort": SMALL, **settings})


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(parallel, "default_size", lambda: 4)


def test_each_core_is_a_lane_if_each_lane_gets_some_runs(monkeypatch):
    assert [lanes_for([usual()] * count) for count in (0, 1, 4 * FEWEST - 1, 4 * FEWEST, 1000)] == [0, 0, 0, 4, 4]
    monkeypatch.setattr(parallel, "default_size", lambda: 1)
    assert lanes_for([usual()] * 1000) == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"engine.workers": 2}, {"engine.device": "cuda"}, {"engine.name": "inline"}, {"rounds.cohort": 4 * SMALL + 1},
        {"model.name": "lab.models:Net"}, {"compression.codec": '["drop:0.1", "lab:Codec"]'},
        {"client.mods": "lab:mod"}, {"training.learner": "object:Mine-0123456789abcdef"},
    ],
)  # fmt: skip
def test_runs_that_want_the_machine_or_run_code_of_others_are_made_by_their_engine(settings):
    assert lanes_for([usual()] * 50 + [usual(**settings)]) == 0


def test_options_of_codecs_are_no_code_of_others():
    assert lanes_for([usual(**{"compression.codec": '["drop:0.1", "eden"]'})] * 50) == 4


def digits(folder, **settings):
    return config_from({"clients": 3, "rounds.total": 1, "data.dataset": "digits", "model.name": "linear",
                        "training.local_epochs": 1, "out": str(folder), **settings})  # fmt: skip


def sha_of(folder):
    return json.loads((folder / "summary.json").read_text())["model_sha256"]


@pytest.mark.long
def test_a_run_has_its_bytes_and_a_wrong_or_a_failed_one_hurts_no_other(tmp_path):
    configs = [digits(tmp_path / "wrong", clients=10**6), digits(tmp_path / "right"),
               digits(tmp_path / "failed", **{"training.lr": 1e30, "model.name": "cnn"}),
               digits(tmp_path / "after", seed=2)]  # fmt: skip
    ended = dict(side_by_side(configs, 1))
    assert isinstance(ended[0], UsageError)
    assert "clients" in str(ended[0])
    assert isinstance(ended[2], RunFailed)
    assert ended[1] is ended[3] is None
    assert 'name = "embedded"' in (tmp_path / "right" / "settings.toml").read_text()
    for name, seed in (("right", 1), ("after", 2)):
        engine_of("inline")(digits(tmp_path / f"{name}-alone", seed=seed))
        assert sha_of(tmp_path / name) == sha_of(tmp_path / f"{name}-alone")


@pytest.mark.long
def test_a_lane_that_dies_fails_its_run_and_no_lane_outlives_its_caller(tmp_path):
    before = lanes_there()
    ended = side_by_side([digits(tmp_path / "a", **{"rounds.total": 1000}), digits(tmp_path / "b")], 2)
    assert next(ended) == (1, None)
    for lane in lanes_there() - before:
        os.kill(lane, signal.SIGKILL)
    ((place, error),) = ended
    assert place == 0
    assert "has died" in str(error)
    again = side_by_side([digits(tmp_path / "c", **{"rounds.total": 1000}), digits(tmp_path / "d")], 2)
    next(again)
    again.close()
    assert lanes_there() == before


def lanes_there():
    return {each.pid for each in psutil.Process().children(recursive=True)
            if each.status() != psutil.STATUS_ZOMBIE and "forkserver" not in each.parent().name()
            and each.ppid() != os.getpid()}  # fmt: skip
