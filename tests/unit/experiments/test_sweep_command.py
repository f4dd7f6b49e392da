"""The command of sweeps: ``--draw`` takes runs of other machines, and no run of another plan."""

import json

import pytest

from experiments.sweeps.command import experiment
from fedlearn.config import config_from
from fedlearn.runs.folder import RunFolder

PLAN = """
title = "Rates"
seeds = [1]
[base]
data.dataset = "digits"
model.name = "linear"
[choices.rates]
"slow" = { training.lr = 0.01 }
"fast" = { training.lr = 0.1 }
"""
FAST = {"data.dataset": "digits", "model.name": "linear", "training.lr": 0.1, "seed": 1}


@pytest.fixture
def drawn(tmp_path):
    """Return a function that draws a folder with one run of these settings, and returns the drawn runs' names."""

    def draw(settings):
        (tmp_path / "plan.toml").write_text(PLAN)
        place = tmp_path / "out" / "runs" / "rates=fast,seed=1"
        place.mkdir(parents=True)
        RunFolder(place).write_settings(config_from(settings))
        ended = {"status": "completed", "reason": "", "rounds": 0, "seconds": 1.0, "seed": 1, "model_sha256": "ab" * 32}
        (place / "summary.json").write_text(json.dumps(ended))
        found = []
        arguments = ["--plan", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "out"), "--draw"]
        experiment("rates", "", lambda results, _: found.extend(each.run.name for each in results), arguments)
        return found

    return draw


def test_a_run_of_a_device_that_is_not_here_is_drawn(drawn):
    assert drawn({**FAST, "engine.device": "cuda", "engine.name": "inline"}) == ["rates=fast,seed=1"]


def test_a_run_of_another_plan_is_refused_by_its_setting(drawn, capsys):
    with pytest.raises(SystemExit) as stopped:
        drawn({**FAST, "training.lr": 0.2})
    assert stopped.value.code == 2
    assert "has training.lr = 0.2, the plan 0.1" in capsys.readouterr().err
