"""Test that summary, page, tables and listeners show no participation where the sampling of nodes is secret."""

import csv
import io
import json

import pytest

import fedlearn
from fedlearn.cli import main
from fedlearn.core.errors import RunFailed
from fedlearn.report.comparing import write_comparison
from fedlearn.report.stored import read_run
from fedlearn.runs.secret_participation import WITHHELD
from server.schedules.attempts import Attempts

TELLING = ("cohort", "reported", "bytes", "uploads", "bits_", "compression")


class Heard:
    def __init__(self):
        self.events = []

    def take(self, event):
        self.events.append(event)

    def close(self):
        pass


def run_of(tmp_path, noise, **more):
    heard = Heard()
    settings = {"rounds.selector": "poisson", "privacy.noise": noise, **more}
    run = fedlearn.run(
        6, data="digits", model="linear", private="nodes", epsilon=4.0, delta=1e-5, rounds=3, cohort=3, engine="inline",
        seed=3, progress=False, out=str(tmp_path / noise), settings=settings, log=[heard],
    )  # fmt: skip
    return run, heard.events


@pytest.mark.long
def test_nothing_that_is_shown_tells_who_took_part_where_the_draw_is_secret(tmp_path):
    run, events = run_of(tmp_path, "secure")
    assert not [name for name in run.summary if name.startswith(TELLING)]
    assert {event["event"] for event in events} <= {"started", "committed", "stopped", "ended"}
    rounds = [event for event in events if event["event"] == "committed"]
    assert len(rounds) == 3 and not [name for event in rounds for name in event if name.startswith(TELLING)]
    stored = read_run("secure", run.folder)
    assert not stored.column("cohort")[0] and stored.sent("bytes_up") is None and "events.jsonl" not in stored.files
    run.report()
    page = (run.folder / "report" / "index.html").read_text()
    assert "Which clients took part in which round is secret" in page and "uploaded</dt>" not in page
    tables = [path.read_text() for path in (run.folder / "report").rglob("*.csv")]
    assert tables and not [table for table in tables if "bytes_up" in table.partition("\n")[0] and "cohort" in table]


def test_a_run_that_has_failed_does_not_say_why_where_the_draw_is_secret(tmp_path, monkeypatch):
    def fails(*_):
        raise RunFailed("3 of 5 clients reported")

    monkeypatch.setattr(Attempts, "run", fails)
    with pytest.raises(RunFailed, match="3 of 5"):
        run_of(tmp_path, "secure")
    shown = json.loads((tmp_path / "secure" / "summary.json").read_text())
    assert (shown["status"], shown["reason"]) == ("failed", WITHHELD)
    assert "3 of 5" in (tmp_path / "secure" / "events.jsonl").read_text()


@pytest.mark.long
def test_a_sweep_of_secret_draws_has_a_table_without_bytes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main([
            "sweep", "--dataset", "digits", "--model", "linear", "--clients", "6", "--cohort", "3", "--rounds", "2",
            "--private", "nodes", "--delta", "1e-5", "--set", "rounds.selector=poisson", "--set",
            "privacy.noise=secure", "--vary", "privacy.epsilon=2,4", "--engine", "inline", "--out", "swept",
        ])  # fmt: skip
    assert not ended.value.code
    for table in [path.read_text() for path in tmp_path.glob("swept/*.csv")]:
        assert "cohort" not in table and ",reported," not in table
    row = next(csv.DictReader(io.StringIO((tmp_path / "swept" / "runs.csv").read_text())))
    assert (row["status"], row["bytes_up"]) == ("completed", "")


def test_beside_a_run_that_hides_nothing_there_is_no_number_for_the_one_that_does(tmp_path):
    folders = [run_of(tmp_path, noise)[0].folder for noise in ("secure", "seeded")]
    page = write_comparison(*folders, tmp_path / "compared").read_text()
    _, _, row = page.partition("<td>uploaded</td>")
    assert row.startswith('<td class="num">-</td>') and " B</td>" not in row[:30]


def test_a_draw_that_a_seed_gives_hides_nothing(tmp_path):
    run, events = run_of(tmp_path, "seeded")
    assert run.summary["bytes_up"] > 0 and {"selected", "reported"} <= {event["event"] for event in events}
    assert json.loads((run.folder / "summary.json").read_text())["compression_ratio"]
