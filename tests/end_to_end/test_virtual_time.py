"""Runs on virtual time: the same model and the same log, however fast the machine is and however often it is killed."""

from __future__ import annotations

import json
import signal

import pytest

from tests.end_to_end.conftest import end_of, resumed, some_slow, wait_until

PHONES = {
    "clients": 20, "rounds.total": 4, "rounds.cohort": 6, "rounds.quorum": 0.5, "rounds.max_attempts": 5,
    "rounds.reporting_deadline": 20.0, "rounds.backoff": 5.0, "devices.name": "phones",
    "devices.options.available": 0.6, "devices.options.dropout": 0.1,
}  # fmt: skip
PATIENCE_WITH_RAY = 300.0  # seconds, on a loaded machine
REAL_TIME = ("time", "selection_seconds", "training_seconds", "evaluation_seconds")


def told(run, first=1):
    """The log from a round on, without wall times; of a round that was begun twice, the second part."""
    events = [event for event in run.events if event.get("round", 0) >= first]
    begun = [place for place, event in enumerate(events) if event["event"] == "round-started" and event["attempt"] == 1]
    last = {events[place]["round"]: place for place in begun}
    kept = [event for place, event in enumerate(events) if place >= last[event["round"]]]
    return [{name: value for name, value in event.items() if name not in REAL_TIME} for event in kept]


@pytest.mark.parametrize(
    "executed",
    some_slow(
        {"one worker": ("embedded", 1), "two workers": ("embedded", 2), "three workers": ("embedded", 3)},
        ["two workers"],
        long=["one worker", "three workers"],
    ),
)
def test_model_and_log_do_not_depend_on_who_runs_the_nodes(execute, undisturbed, executed):
    engine, workers = executed
    run = execute({**PHONES, "engine.workers": workers}, engine=engine)
    assert run.sha == undisturbed(PHONES).sha
    assert told(run) == told(undisturbed(PHONES))


@pytest.mark.network
def test_model_and_log_are_the_same_on_ray(command, undisturbed, place):
    pytest.importorskip("ray")
    started = command({**PHONES, "engine.name": "ray"}, env={"TMPDIR": str(place)})
    assert started.process.wait(PATIENCE_WITH_RAY) == 0
    assert started.run.sha == undisturbed(PHONES).sha
    assert told(started.run) == told(undisturbed(PHONES))


@pytest.mark.long
def test_a_run_that_is_gone_on_with_goes_on_at_its_hour(execute, undisturbed):
    run = execute({**PHONES, "rounds.total": 2})
    assert end_of("simulate", "--quiet", "--resume", run.folder, "--rounds", 4) == 0
    assert run.sha == undisturbed(PHONES).sha
    assert told(run, first=3) == told(undisturbed(PHONES), first=3)
    assert run.summary["virtual_seconds"] == undisturbed(PHONES).summary["virtual_seconds"]


@pytest.mark.long
def test_a_run_that_is_killed_goes_on_at_its_hour(command, undisturbed):
    started = command(PHONES)
    log = started.run.folder / "events.jsonl"
    wait_until(lambda: log.exists() and '"event": "committed"' in log.read_text(), "a round")
    started.signal(signal.SIGKILL)
    run = resumed(started.run)
    assert run.sha == undisturbed(PHONES).sha
    assert told(run) == told(undisturbed(PHONES))


PARTIAL = {
    **PHONES, "rounds.total": 2, "rounds.reporting_deadline": 15.0, "rounds.quorum": 0.1, "training.local_epochs": 2,
    "training.batch_size": 10, "devices.options.seconds": 0.05,
}  # fmt: skip


def test_who_has_no_time_for_all_steps_is_heard_with_those_that_it_has_taken(execute):
    late, heard = (execute({**PARTIAL, "training.partial": partial}) for partial in (False, True))
    assert heard.summary["virtual_seconds"] <= late.summary["virtual_seconds"]
    counted = [[event["reported"] for event in run.events if event["event"] == "committed"] for run in (late, heard)]
    assert sum(counted[1]) > sum(counted[0])
    shares = [event["work_done"] for event in heard.events if event["event"] == "committed"]
    assert all(0 < share < 1 for share in shares)
    assert execute({**PARTIAL, "training.partial": True, "engine.workers": 2}).sha == heard.sha


@pytest.mark.slow
def test_measuring_on_nodes_alters_nothing(execute, undisturbed):
    run = execute({**PHONES, "evaluation.where": "nodes", "evaluation.nodes": 5, "evaluation.every": 2})
    assert run.sha == undisturbed(PHONES).sha
    assert run.summary["virtual_seconds"] == undisturbed(PHONES).summary["virtual_seconds"]


def test_the_result_says_how_long_it_took_whom(undisturbed):
    run = undisturbed(PHONES)
    committed = run.events_of("committed")
    hours = [event["virtual_seconds"] for event in committed]
    assert hours == sorted(hours)
    assert run.summary["virtual_seconds"] == hours[-1]
    assert sum(event["late"] for event in committed) == len(run.events_of("late")) > 0
    for event in committed:
        assert event["reported"] == sum(event[f"reports_{kind}"] for kind in ("fast", "middle", "slow"))
        assert event["virtual_training_seconds"] < 20.001
        if event["late"]:
            assert event["virtual_training_seconds"] == pytest.approx(20.0)
    assert {event["device"] for event in run.events_of("reported")} <= {"fast", "middle", "slow"}
    devices = run.summary["devices"]
    assert sum(kind["nodes"] for kind in devices.values()) == 20
    assert devices["fast"]["seconds_per_example"] < devices["slow"]["seconds_per_example"]
    assert all(kind["dropout"] == 0.1 for kind in devices.values())


def test_nobody_is_trained_in_vain(execute):
    run = execute({
        **PHONES, "devices.options.dropout": 0.0, "rounds.reporting_deadline": 4.0, "rounds.quorum": 0.1,
        "rounds.total": 1,
    })  # fmt: skip
    late = run.events_of("late")
    assert len(late) > 0
    assert {event["virtual"] for event in late} == {run.events_of("configured")[0]["virtual"] + 4.0}


def test_who_asks_more_than_are_wanted_waits_for_the_first(execute, undisturbed):
    run = execute({**PHONES, "rounds.over_selection": 1.5, "rounds.total": 2})
    for event in run.events_of("committed"):
        assert (event["cohort"], event["reported"]) == (9, 6)
        assert event["late"] + event["failed"] == 3
        assert event["virtual_training_seconds"] < 20.0
    late = run.events_of("late")
    assert {event["reason"] for event in late} == {"enough had reported before"}
    last = {event["round"]: event["virtual"] for event in run.events_of("reported")}
    assert all(event["virtual"] == last[event["round"]] for event in late)


@pytest.mark.long
def test_what_a_selector_has_learned_outlives_a_stop(execute):
    learning = {**PHONES, "rounds.selector": "oort", "rounds.over_selection": 1.3}
    whole = execute(learning)
    run = execute({**learning, "rounds.total": 2})
    assert end_of("simulate", "--quiet", "--resume", run.folder, "--rounds", 4) == 0
    assert run.sha == whole.sha
    assert told(run, first=3) == told(whole, first=3)


def test_nobody_at_home_all_day_ends_the_run_with_the_reason(execute, tmp_path):
    fleet = tmp_path / "asleep.csv"
    fleet.write_text("seconds_per_example,available,share\n0.01,1e-9,1\n")
    settings = {
        **PHONES, "devices.name": str(fleet), "rounds.max_attempts": 30, "rounds.selection_window": 3600.0,
    }  # fmt: skip
    flags = [f"--set={key}={value}" for key, value in settings.items() if not key.startswith("devices.options")]
    out = tmp_path / "run"
    assert end_of("simulate", "--quiet", "--dataset", "digits", "--engine", "inline", "--out", out, *flags) == 1
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "failed"
    assert "0 of 20 devices can be reached at this hour" in summary["reason"]
    assert summary["virtual_seconds"] > 86400


@pytest.mark.parametrize(
    ("sets", "named"),
    [
        (["rounds.reporting_deadline=0.001"], "rounds.reporting_deadline = 0.001: "),
        (["devices.options.dropout=7"], "devices.options.dropout = 7: "),
        (["devices.name=nowhere.csv"], "devices.name = 'nowhere.csv': No such file"),
        (["devices.name=builtins:print"], "devices.name = 'builtins:print': "),
        (["devices.name=", "rounds.over_selection=1.3"], "rounds.over_selection = 1.3: virtual clients without"),
        (["devices.name=", "rounds.selector=oort"], "rounds.selector = 'oort': virtual clients without devices"),
        (
            ["rounds.selector=ort"],
            "rounds.selector = 'ort': choose one of uniform, ranked, poisson, power-of-choice, oort, tiers",
        ),
        (["rounds.selector=tiers", "rounds.selector_options.tiers=0"], "rounds.selector_options.tiers = 0: "),
    ],
)
def test_what_no_device_can_do_is_one_line_and_exit_code_two(capsys, tmp_path, sets, named):
    flags = ["--devices", "alike", "--dataset", "digits", "--clients", "10", "--engine", "inline"]
    given = [f"--set={each}" for each in sets]
    assert end_of("simulate", "--quiet", *flags, *given, "--out", tmp_path / "run") == 2
    error = capsys.readouterr().err
    assert named in error
    assert len(error.strip().splitlines()) == 1


MILLION = {
    "clients": 1_000_000, "data.dataset": "synthetic", "data.options.kind": "rows", "model.name": "linear",
    "rounds.cohort": 20, "rounds.total": 2, "rounds.selector": "oort", "rounds.quorum": 0.5, "devices.name": "phones",
}  # fmt: skip


def test_of_a_million_nodes_those_that_are_asked_are_heard_and_stored(execute):
    run = execute(MILLION)
    asked = {event["partition"] for event in run.events if event["event"] in ("ready", "not-ready")}
    assert len(asked) <= 2 * 5 * 20 and max(asked) > 100_000
    assert run.summary["rounds"] == 2 and run.summary["clients"] == 1_000_000
    stored = [path.stat().st_size for path in (run.folder / "checkpoint").iterdir()]
    assert max(stored) < 100_000  # of a selector, too, that learns of nodes
