"""A run whose draw of nodes is secret: its summary, page and listeners tell nothing of who took part."""

import json

import fedlearn
from fedlearn.report.stored import read_run

TELLING = ("cohort", "reported", "bytes", "uploads", "bits_", "compression")


class Heard:
    def __init__(self):
        self.events = []

    def take(self, event):
        self.events.append(event)

    def close(self):
        pass


def run_of(tmp_path, noise):
    heard = Heard()
    settings = {"rounds.selector": "poisson", "privacy.noise": noise}
    run = fedlearn.run(
        6, data="digits", model="linear", private="nodes", epsilon=4.0, delta=1e-5, rounds=3, cohort=3, engine="inline",
        seed=3, progress=False, out=str(tmp_path / noise), settings=settings, log=[heard],
    )  # fmt: skip
    return run, heard.events


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
    assert "Who took part in which round is secret" in page and "uploaded</dt>" not in page
    tables = [path.read_text() for path in (run.folder / "report").rglob("*.csv")]
    assert tables and not [table for table in tables if "bytes_up" in table.partition("\n")[0] and "cohort" in table]


def test_a_draw_that_a_seed_gives_hides_nothing(tmp_path):
    run, events = run_of(tmp_path, "seeded")
    assert run.summary["bytes_up"] > 0 and {"selected", "reported"} <= {event["event"] for event in events}
    assert json.loads((run.folder / "summary.json").read_text())["compression_ratio"]
