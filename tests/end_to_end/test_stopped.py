"""A run that a limit, a listener or another thread stops has all it committed, and goes on to the same bytes."""

from __future__ import annotations

import json
import threading
import warnings

import pytest

import fedlearn
from fedlearn.core.errors import RunFailed, UsageError
from fedlearn.runs.stop_requests import ask_to_stop

from .conftest import end_of

CHEAP = {"clients": 3, "data": "digits", "model": "linear", "cohort": 0, "engine": "inline", "progress": False}


class AfterTwo:
    """Stops its run once round 2 is committed."""

    def take(self, event):
        return event["event"] == "committed" and event["round"] == 2

    def close(self):
        pass


@pytest.mark.long
def test_a_listener_stops_the_run_by_returning_true_and_a_resume_has_the_same_bytes(tmp_path):
    whole = fedlearn.run(**CHEAP, rounds=25, out=tmp_path / "whole")
    stopped = fedlearn.run(**CHEAP, rounds=25, out=tmp_path / "stopped", log=AfterTwo())
    assert (stopped.summary["status"], stopped.summary["reason"]) == ("interrupted", "by the listener AfterTwo")
    assert 2 <= stopped.summary["rounds"] < 25
    assert fedlearn.run(resume=stopped, progress=False).sha256 == whole.sha256


def test_another_thread_stops_the_run_and_nothing_runs_afterwards(tmp_path):
    class InAThread:
        def take(self, event):
            if event["event"] == "committed" and event["round"] == 1:
                threading.Thread(target=fedlearn.load(tmp_path / "run").stop).start()

        def close(self):
            pass

    run = fedlearn.run(**CHEAP, rounds=500, out=tmp_path / "run", log=InAThread())
    assert run.summary["reason"] == "by run.stop()"
    with pytest.raises(UsageError, match="no process is running"):
        ask_to_stop(run.folder, "too late")


def test_a_time_limit_stops_the_run_and_a_resume_changes_it(tmp_path):
    run = fedlearn.run(**CHEAP, rounds=500, out=tmp_path / "run", time_limit="2s")
    assert run.summary["status"] == "interrupted" and "stop.time_limit = 2 s" in run.summary["reason"]
    more = run.summary["rounds"] + 1
    resumed = fedlearn.run(resume=run, rounds=more, time_limit="", progress=False)
    assert (resumed.summary["status"], resumed.summary["rounds"]) == ("completed", more)


def test_a_completed_run_whose_further_rounds_fail_is_still_completed(tmp_path, monkeypatch):
    def failing(*_):
        raise RunFailed("no")

    run = fedlearn.run(**CHEAP, rounds=1, out=tmp_path / "run")
    before = {name: (run.folder / name).read_bytes() for name in ("summary.json", "settings.toml")}
    monkeypatch.setattr("server.schedules.synchronous.collect", failing)
    with pytest.raises(RunFailed):
        fedlearn.run(resume=run, rounds=2, progress=False)
    assert {name: (run.folder / name).read_bytes() for name in before} == before


def test_warnings_of_deprecation_are_no_errors_within_a_run(tmp_path):
    class Old:
        def __init__(self, folder, config):
            warnings.warn("old", DeprecationWarning, stacklevel=1)

        def take(self, event):
            pass

        def close(self):
            pass

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("error")
        fedlearn.run(**CHEAP, rounds=1, out=tmp_path / "run", log=Old)
    assert [str(each.message) for each in shown if each.category is DeprecationWarning][:1] == ["old"]


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--no-such-flag"]])
def test_json_is_printed_of_a_failure_too(arguments, capsys):
    code = end_of("simulate", "--json", *arguments)
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert (code, told["status"], told["exit_code"]) == (2, "failed", 2)
    assert told["reason"] and told["reason"] in printed.err
