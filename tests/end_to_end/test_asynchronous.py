"""Asynchronous runs on virtual time: the same model and log on any workers, and however often a run is stopped."""

from __future__ import annotations

import signal

import pytest

from tests.end_to_end.conftest import end_of, resumed, wait_until

PHONES = {
    "clients": 20, "rounds.total": 8, "rounds.schedule": "buffered", "rounds.reporting_deadline": 20.0,
    "rounds.schedule_options.in_flight": 8, "rounds.schedule_options.buffer_size": 3, "rounds.backoff": 5.0,
    "devices.name": "phones", "devices.options.available": 0.7, "devices.options.dropout": 0.1,
    "compression.codec": "residual,top-k:0.1", "compression.send": "update",
}  # fmt: skip
MIXED = {
    "rounds.schedule": "immediate", "rounds.schedule_options": "", "rounds.schedule_options.in_flight": 6,
    "compression.codec": "drop:0.3", "compression.send": "weights", "rounds.total": 10,
}  # fmt: skip
REAL_TIME = ("time", "selection_seconds", "training_seconds", "evaluation_seconds")


def mixed():
    kept = {name: value for name, value in PHONES.items() if not name.startswith("rounds.schedule_options")}
    return {**kept, **MIXED}


VARIANTS = {"buffered": PHONES, "immediate": mixed()}
SELDOM = {"rounds.store_every": 3}


def told(run):
    """The log of each round without wall times; of a round that was begun twice, the second time."""
    kept, begun = [], {}
    for event in run.events:
        if event["event"] in ("started", "ended") or event.get("reason") == "the run is over":
            continue
        if event["event"] == "round-started" and event["attempt"] == 1:
            del kept[begun.setdefault(event["round"], len(kept)) :]
        kept.append({name: value for name, value in event.items() if name not in REAL_TIME})
    return kept


def table(run):
    rows = [line.split(",") for line in (run.folder / "metrics.csv").read_text().splitlines()]
    hidden = {place for place, name in enumerate(rows[0]) if name in REAL_TIME}
    return [[value for place, value in enumerate(row) if place not in hidden] for row in rows]


@pytest.mark.parametrize(
    ("variant", "workers"),
    [
        ("buffered", 2),
        ("immediate", 2),
        pytest.param("buffered", 1, marks=pytest.mark.long),
        pytest.param("immediate", 3, marks=pytest.mark.long),
    ],
)
def test_model_and_log_do_not_depend_on_who_runs_the_nodes(execute, undisturbed, variant, workers):
    settings = VARIANTS[variant]
    run = execute({**settings, "engine.workers": workers})
    assert run.sha == undisturbed(settings).sha
    assert told(run) == told(undisturbed(settings))
    assert table(run) == table(undisturbed(settings))


@pytest.mark.parametrize(
    ("variant", "stops"),
    [
        pytest.param("buffered", [3], id="buffered-once"),
        pytest.param("immediate", [*range(1, 8)], marks=pytest.mark.long, id="immediate-after each round"),
        pytest.param("buffered", [*range(1, 8)], marks=pytest.mark.long, id="buffered-after each round"),
    ],
)
def test_a_run_that_is_gone_on_with_has_in_flight_who_was(execute, undisturbed, variant, stops):
    settings = VARIANTS[variant]
    run = execute({**settings, "rounds.total": stops[0]})
    for total in (*stops[1:], settings["rounds.total"]):
        assert end_of("simulate", "--quiet", "--resume", run.folder, "--rounds", total) == 0
    assert run.sha == undisturbed(settings).sha
    assert told(run) == told(undisturbed(settings))
    assert table(run) == table(undisturbed(settings))


def test_how_often_a_run_is_stored_alters_nothing(execute, undisturbed):
    run = execute({**PHONES, **SELDOM})
    assert run.sha == undisturbed(PHONES).sha
    assert told(run) == told(undisturbed(PHONES))
    assert table(run) == table(undisturbed(PHONES))


@pytest.mark.long
@pytest.mark.parametrize(("variant", "changed"), [("immediate", {}), ("buffered", SELDOM)], ids=[*reversed(VARIANTS)])
def test_a_run_that_is_killed_comes_to_the_same_bytes(command, undisturbed, variant, changed):
    settings = VARIANTS[variant]
    started = command({**settings, **changed})
    log = started.run.folder / "events.jsonl"
    wait_until(lambda: log.exists() and log.read_text().count('"event": "committed"') >= 5, "five rounds")
    started.signal(signal.SIGKILL)
    run = resumed(started.run)
    assert run.sha == undisturbed(settings).sha
    assert told(run) == told(undisturbed(settings))


def test_stale_reports_are_there_and_are_told(undisturbed):
    run = undisturbed(PHONES)
    committed = {event["round"]: event for event in run.events_of("committed")}
    found, number = {}, 1
    for event in run.events:
        if event["event"] == "reported":
            found.setdefault(number, []).append(event["staleness"])
            assert event["staleness"] == number - event["round"]
        number += event["event"] == "committed"
    assert max(max(each) for each in found.values()) > 1
    for number, staleness in found.items():
        assert len(staleness) == 3
        assert committed[number]["staleness_largest"] == max(staleness)
        assert committed[number]["staleness_mean"] == pytest.approx(sum(staleness) / 3)
    hours = [event["virtual_seconds"] for event in committed.values()]
    assert hours == sorted(hours)
    assert {event["reason"] for event in run.events_of("late")} <= {
        "the run is over",
        "no report by the reporting deadline",
    }


def test_who_works_on_too_old_a_state_is_told_to_stop(execute):
    limit = {"rounds.schedule_options.largest_staleness": 1, "rounds.total": 6, "compression.codec": "identity"}
    run = execute({**PHONES, **limit})
    assert max(event["staleness"] for event in run.events_of("reported")) == 1
    stale = [event for event in run.events_of("late") if event["reason"].startswith("stale: ")]
    assert stale
    assert all(event["round"] >= 1 for event in stale)


@pytest.mark.parametrize(
    ("sets", "named"),
    [
        (["devices.name="], "rounds.schedule = 'buffered': virtual clients without devices take no time"),
        (["rounds.schedule_options.in_flight=11"], "rounds.schedule_options.in_flight = 11: there are 10 clients"),
        (["rounds.schedule_options.buffer_size=11"], "rounds.schedule_options.buffer_size = 11: there are 10 clients"),
        (["rounds.schedule_options.buffer=3"], "there is no such option; did you mean buffer_size?"),
        (["rounds.schedule_options.power=-1"], "rounds.schedule_options.power = -1: "),
        (["rounds.schedule_options.staleness=old"], "rounds.schedule_options.staleness = 'old': "),
        (["rounds.selector=oort"], "rounds.selector = 'oort': schedule 'buffered' draws clients one by one"),
        (["rounds.over_selection=2"], "rounds.over_selection = 2.0: schedule 'buffered' waits for nobody"),
        (["strategy.name=flwr.serverapp.strategy:FedAvg"], "does not say that it takes changes of earlier states"),
        (["model.name=dp-forest"], "rounds.schedule = 'buffered': it adds up changes; model 'dp-forest' has none"),
        (["rounds.schedule=immediate", "rounds.schedule_options.mixing=0"], "rounds.schedule_options.mixing = 0: "),
    ],
)
def test_what_cannot_be_run_so_is_one_line_and_exit_code_two(capsys, tmp_path, sets, named):
    data = "auto" if "model.name=dp-forest" in sets else "digits"
    flags = ["--devices", "alike", "--dataset", data, "--clients", "10", "--engine", "inline"]
    given = [f"--set={each}" for each in ("rounds.schedule=buffered", *sets)]
    assert end_of("simulate", "--quiet", *flags, *given, "--out", tmp_path / "run") == 2
    error = capsys.readouterr().err
    assert named in error
    assert len(error.strip().splitlines()) == 1
