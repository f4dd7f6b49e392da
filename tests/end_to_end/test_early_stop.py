"""Runs that stop early: killed, resumed, asked for more rounds, and in a sweep."""

from __future__ import annotations

import signal

import pytest

import fedlearn
from tests.end_to_end.conftest import CHEAP, end_of, resumed

LINEAR = {"model.name": "linear", "rounds.total": 40, "training.batch_size": 20, "data.dataset": "digits"}
REACHED = {**LINEAR, "stop.target": 0.9}


@pytest.mark.long
def test_stopped_run_is_a_run_of_as_many_rounds_and_a_finished_one(execute, undisturbed, capsys):
    run = execute(REACHED)
    rounds, reason = run.summary["rounds"], run.summary["stopped_early"]
    assert 1 < rounds < 40
    assert run.sha == undisturbed({**LINEAR, "rounds.total": rounds}).sha
    assert reason.startswith(f"in round {rounds} because validation_accuracy 0.9")
    before = [event for event in run.events if event["event"] == "committed"]
    capsys.readouterr()
    assert end_of("simulate", "--resume", run.folder, "--rounds", 50) == 0
    said = capsys.readouterr()
    assert f"stopped early in round {rounds} because validation_accuracy" in said.out
    assert [event for event in run.events if event["event"] == "committed"] == before
    assert (run.summary["status"], run.summary["stopped_early"]) == ("completed", reason)
    assert end_of("simulate", "--quiet", "--resume", run.folder, "--rounds", rounds + 1, "--set", 'stop.target=""') == 0
    assert run.sha == undisturbed({**LINEAR, "rounds.total": rounds + 1}).sha
    assert "stopped_early" not in run.summary


@pytest.mark.long
@pytest.mark.parametrize("schedule", ["synchronous", "buffered"])
def test_killed_run_stops_after_the_same_round_with_the_same_bytes(command, undisturbed, schedule):
    options = {"rounds.schedule_options.buffer_size": 3} if schedule == "buffered" else {}
    patient = {
        **LINEAR, "stop.patience": 4, "stop.least_improvement": 0.02, "devices.name": "alike",
        "rounds.schedule": schedule, "rounds.keep_every": 2, **options,
    }  # fmt: skip
    whole = undisturbed(patient)
    started = command(patient)
    started.wait_for_round(2)
    started.signal(signal.SIGKILL, group=True)
    run = resumed(started.run)
    assert run.summary["stopped_early"] == whole.summary["stopped_early"]
    assert run.sha == whole.sha
    kept = [sorted(path.name for path in (each.folder / "models").iterdir()) for each in (run, whole)]
    assert kept[0] == kept[1] and len(kept[0]) == run.summary["rounds"] // 2
    for name in kept[0]:
        assert (run.folder / "models" / name).read_bytes() == (whole.folder / "models" / name).read_bytes()


@pytest.mark.long
def test_sweep_says_how_many_runs_were_there_and_runs_no_stopped_run_again(tmp_path, capsys):
    sets = [word for name, value in {**CHEAP, **REACHED}.items() for word in ("--set", f"{name}={value}")]
    asked = ("sweep", *sets, "--set", "engine.name=inline", "--out", tmp_path / "sweep", "--seeds")
    assert end_of(*asked, "1") == 2  # one run is no sweep
    assert end_of(*asked, "1,2") == 0
    capsys.readouterr()
    assert end_of(*asked, "1,2,3") == 0
    said = capsys.readouterr().out
    assert "2 of 3 runs were there already" in said
    assert "1/1 seed=3" in said


def test_models_of_rounds_are_read_back(execute):
    run = fedlearn.load(execute({"model.name": "linear", "rounds.total": 3, "rounds.keep_every": 1}).folder)
    assert run.kept_rounds == [1, 2, 3]
    assert all((run.state_of(3)[name] == array).all() for name, array in run.state.items())
    assert run.model(round_number=1).training is False
