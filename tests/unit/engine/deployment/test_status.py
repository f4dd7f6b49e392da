"""The status of a server is read from its files, whether it runs or not."""

from __future__ import annotations

import json
import os
import sqlite3
from datetime import UTC, datetime
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from fedlearn.cli import app
from fedlearn.core.errors import UsageError
from fedlearn.engine.deployment.deployment_keys import make_keys
from fedlearn.engine.deployment.server_processes import PROCESS
from fedlearn.engine.deployment.server_status import LATEST, status_of
from fedlearn.engine.deployment.status_page import page_of
from fedlearn.privacy import NeighboringRelation
from fedlearn.privacy.bookings import Booking
from fedlearn.privacy.ledger import Ledger
from fedlearn.runs.agreements import Agreements
from fedlearn.runs.file_names import EVENTS
from fedlearn.runs.ledgers import LedgerFile
from fedlearn.runs.log import EventLog
from fedlearn.runs.machine_usage import beginning_of, memory_bytes

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
ROUND = {"round": 1, "attempt": 1}
SECRET = '[rounds]\nselector = "poisson"\n[privacy]\nnoise = "secure"\n'


@pytest.fixture
def place(tmp_path):
    make_keys(tmp_path / "keys", clients=1)
    (tmp_path / "state").mkdir()
    nodes = [
        ("partition-0", b"a", "online", NOW.timestamp() + 30, "2026-11-29T11:00:00+00:00", None, None),
        ("partition-1", b"b", "online", NOW.timestamp() - 60, "2026-11-29T10:00:00+00:00", None, None),
        ("partition-2", b"c", "offline", 1.0, "2026-11-28T10:00:00+00:00", "2026-11-28T11:30:00+00:00", None),
        ("partition-3", b"d", "registered", None, None, None, None),
        ("[red]x", b"e", "registered", None, None, None, None),
        ("partition-9", b"f", "online", NOW.timestamp() + 9, None, None, "2026-11-29T11:00:00+00:00"),
    ]
    with sqlite3.connect(tmp_path / "state" / "superlink.db") as database:
        columns = "name, public_key, status, online_until, last_activated_at, last_deactivated_at, unregistered_at"
        database.execute(f"CREATE TABLE node ({columns})")
        database.executemany("INSERT INTO node VALUES (?, ?, ?, ?, ?, ?, ?)", nodes)
    database.close()
    return tmp_path


def log_in(place, name):
    folder = place / "runs" / name
    folder.mkdir(parents=True)
    (folder / "settings.toml").touch()
    return EventLog(folder / EVENTS)


def status(place):
    return status_of(keys=place / "keys", state=place / "state", runs=place / "runs", now=NOW)


def test_sites_are_online_until_their_time_and_known_by_their_keys(place):
    sites = {each["client"]: each for each in status(place)["sites"]}
    assert {number: each["is_online"] for number, each in sites.items()} == {
        0: True,
        1: False,
        2: False,
        3: False,
        -1: False,
    }
    assert sites[0]["last_seen"] == "2026-11-29T12:00:00" and sites[1]["last_seen"] == "2026-11-29T11:59:00"
    assert sites[2]["last_seen"] == "2026-11-28T11:30:00" and sites[3]["last_seen"] == ""
    assert len({each["fingerprint"] for each in sites.values()}) == 5


def test_runs_are_shown_with_who_reported_and_who_refused(place):
    with log_in(place, "one") as log:
        log.write("started", committed=0, rounds=3, metrics=None)
        log.write("round-started", **ROUND)
        log.write("not-ready", **ROUND, node=1, partition=1, reason="model-not-allowed")
        log.write("reported", **ROUND, node=1, partition=0, bytes=9)
        log.write("committed", **ROUND, accuracy=0.25)
        log.write("round-started", round=2, attempt=1)
        log.write("configured", round=2, attempt=1, cohort=1, bytes=9)
    found = status(place)
    (run,) = found["runs"]
    assert (run["state"], run["phase"], run["completed"], run["rounds"]) == ("in progress", "reporting", 1, 3)
    sites = {each["client"]: each for each in found["sites"]}
    assert sites[0]["updates"] == 1 and sites[1]["refusals"] == {"model-not-allowed": 1}
    assert "accuracy" not in json.dumps(found) and "0.25" not in json.dumps(found)


def test_a_log_is_read_on_and_says_what_reading_it_anew_says(place):
    read, given = {}, {"keys": place / "keys", "state": place / "state", "runs": place / "runs", "now": NOW}
    with log_in(place, "one") as log:
        log.write("started", committed=0, rounds=3, metrics=None)
        for number in (1, 2):
            log.write("reported", round=number, attempt=1, node=1, partition=0, bytes=9)
            log.write("committed", round=number, attempt=1)
            log.flush()
            assert status_of(**given, read=read) == status_of(**given)
        (only,) = read.values()
        assert only.updates[0] == 2
    (place / "runs" / "one").rename(place / "away")
    assert status_of(**given, read=read)["runs"] == [] == [*read]


def test_the_latest_runs_come_first_and_older_ones_not_at_all(place):
    for number in range(LATEST + 2):
        with log_in(place, f"run-{number:02}") as log:
            log.write("started", committed=0, rounds=1, metrics=None)
            log.write("ended", status="completed", reason="")
    assert len(status(place)["runs"]) == LATEST


@pytest.mark.parametrize("settings", [SECRET, "[rounds", None], ids=["secret", "broken", "none"])
def test_of_secret_draws_or_unknown_settings_nobody_is_shown(place, settings):
    with log_in(place, "one") as log:
        log.write("started", committed=0, rounds=3, metrics=None)
        log.write("round-started", **ROUND)
        log.write("not-ready", **ROUND, node=1, partition=1, reason="not-ready")
        log.write("reported", **ROUND, node=1, partition=0, bytes=9)
        log.write("abandoned", **ROUND, reason="1 of 2 clients reported")
        log.write("committed", **ROUND, cohort=5, bytes_up=9)
    file = place / "runs" / "one" / "settings.toml"
    file.write_text(settings) if settings else file.unlink()
    found = status(place)
    assert {each["updates"] for each in found["sites"]} == {0} and not [e for e in found["sites"] if e["refusals"]]
    assert found["runs"][0]["completed"] == 1 and found["runs"][0]["warning"] == ""


def test_a_log_that_is_none_of_ours_ends_nothing(place):
    with log_in(place, "odd") as log:
        log.write("started")
    (run,) = status(place)["runs"]
    assert run["state"] == "in progress" and run["rounds"] == 0


def test_a_server_that_has_never_run_has_an_empty_status(tmp_path):
    found = status(tmp_path)
    assert found["sites"] == found["runs"] == [] and found["certificate_until"] == ""


def test_a_file_that_is_no_database_is_one_line(place):
    (place / "state" / "superlink.db").write_text("no database, but a text that is long enough to be read as one" * 9)
    with pytest.raises(UsageError, match=r"superlink\.db: file is not a database: is it the folder --state"):
        status(place)


def test_the_page_has_all_of_it_and_hostile_names_are_text(place):
    with log_in(place, "<script>alert(1)") as log:
        log.write("started", committed=0, rounds=3, metrics=None)
        log.write("not-ready", **ROUND, node=1, partition=1, reason='"><img src=x onerror=alert(1)>\x1b[31m')
        log.write("too-few-ready", **ROUND, ready=0, needed=1, reason="<b>nobody</b>")
    page = page_of(status(place))
    assert page.count("<script") == 0 and "&lt;script&gt;" in page and "<img" not in page and "<b>" not in page
    assert "\x1b" not in page and "1 of 5" in page and "0 of 3" in page and "2026-11-29 11:59:00" in page
    parser = HTMLParser()
    parser.feed(page)
    empty = page_of(status_of(keys=place / "no", state=place / "no", runs=place / "no", now=NOW))
    assert "No client is registered." in empty and "There is no run." in empty and "unknown" in empty


def test_the_command_prints_tables_or_json(place, monkeypatch):
    monkeypatch.chdir(place)
    with log_in(place, "[bold]one\x1b[31m") as log:
        log.write("started", committed=0, rounds=3, metrics=None)
    shown = CliRunner().invoke(app, ["status"], env={"COLUMNS": "160"})
    assert shown.exit_code == 0 and "in progress" in shown.output and "0/3" in shown.output
    assert "\x1b" not in shown.output and "[bold]one" in shown.output
    found = json.loads(CliRunner().invoke(app, ["status", "--json"]).output)
    assert len(found["sites"]) == 5 and found["certificate_until"]


def test_version_and_clock_stand_where_the_server_has_noted_them(place):
    said = {sha256(b"a").hexdigest()[:16]: {"version": "0.2.0", "behind": 7.4}}
    (place / "state" / "clients.json").write_text(json.dumps(said))
    first, second, *_ = status(place)["sites"][1:]
    assert (first["version"], first["behind"]) == ("0.2.0", 7.4) and (second["version"], second["behind"]) == ("", None)
    assert "<td>7 s behind</td>" in page_of(status(place))
    for damaged in ("", "[]", "{"):
        (place / "state" / "clients.json").write_text(damaged)
        assert {each["version"] for each in status(place)["sites"]} == {""}


def test_a_clients_own_status_says_what_it_spent_what_is_left_and_what_waits(tmp_path):
    def shown(*words, code=0):
        ended = CliRunner().invoke(app, ["status", *map(str, words)])
        assert ended.exit_code == code, ended.output
        return f"{ended.output}{ended.exception if code else ''}"

    booking = Booking("q", "run-7", "dp-forest", 1, 1.0, NeighboringRelation.ADD_REMOVE, is_secure=True)
    Ledger(LedgerFile(tmp_path / "ledger", "patients")).once(booking, lambda: b"tree", budget=1.0)
    (tmp_path / "policy.toml").write_text("largest_epsilon = 3.0\nmost_questions = 10\n")
    mine = ("--ledger", tmp_path / "ledger", "--policy", tmp_path / "policy.toml")
    assert "patients: epsilon 1 spent in 1 answers" in shown(*mine) and "left: epsilon 2, 9 answers" in shown(*mine)
    assert "run run-7" in shown(*mine) and "left" not in shown("--ledger", tmp_path / "ledger")
    Agreements(tmp_path / "ask").announce("aaaa", "bbbb", "page")
    assert "run aaaa: waits for your answer" in shown("--ask", tmp_path / "ask")
    Agreements(tmp_path / "ask").answer("aaaa", "no", why="never")
    found = json.loads(shown(*mine, "--ask", tmp_path / "ask", "--json"))
    assert found["data"][0]["left_epsilon"] == 2 and found["waiting"] == [] and found["answers"][0]["answer"] == "no"
    assert "give --ledger" in shown("--policy", tmp_path / "policy.toml", code=1)
    assert "no such folder" in shown("--ledger", tmp_path / "nothing", code=1)
    log = tmp_path / "ask" / "answers.log"
    log.write_bytes(log.read_bytes().replace(b"never", b"later"))
    assert "restore a copy" in shown("--ask", tmp_path / "ask", code=1)


def test_memory_is_that_of_the_server_that_runs_and_of_no_other_process_of_its_number(place):
    assert status(place)["memory_bytes"] is None  # no server was started here
    about = {"process": os.getpid(), "began": beginning_of(os.getpid())}
    (place / "state" / PROCESS).write_text(json.dumps(about))
    assert memory_bytes() / 2 < status(place)["memory_bytes"] < 2 * memory_bytes()
    assert "Memory" in page_of(status(place)) and "unknown" not in page_of(status(place)).partition("Memory")[2][:40]
    for wrong in ({**about, "began": about["began"] - 1}, {"process": "x"}, [], {**about, "began": None}):
        (place / "state" / PROCESS).write_text(json.dumps(wrong))
        assert status(place)["memory_bytes"] is None
    assert "unknown" in page_of(status(place))


def test_memory_is_withheld_while_a_run_whose_draws_are_secret_is_in_progress(place):
    about = {"process": os.getpid(), "began": beginning_of(os.getpid())}
    (place / "state" / PROCESS).write_text(json.dumps(about))
    with log_in(place, "one") as log:
        (place / "runs" / "one" / "settings.toml").write_text(SECRET)
        log.write("started", committed=0, rounds=3, metrics=None)
        log.flush()
        assert status(place)["memory_bytes"] is None
        log.write("ended", status="completed", reason="")
        log.flush()
        assert status(place)["memory_bytes"]


def test_a_page_asks_anew_until_it_is_to_stay_as_it_is(place):
    """A page that is loaded again takes the focus of the keyboard away."""
    going, still = page_of(status(place)), page_of(status(place), is_still=True)
    assert 'http-equiv="refresh"' in going and '<a href="?still">' in going
    assert 'http-equiv="refresh"' not in still and '<a href="./">' in still
