"""Every file, column, key and event of a run folder has its line in the reference."""

from __future__ import annotations

import csv
import json
import re

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "reference" / "run_folder.md").read_text(encoding="utf-8")
DOCUMENTED = set(re.findall(r"`([^`\s]+)`", PAGE))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from fedlearn.engine import ENGINES
    from fedlearn.models.presets import settings_from

    out = tmp_path_factory.mktemp("documented") / "run"
    flat = {"data.dataset": "diabetes", "model.name": "dp-forest", "clients": 3, "rounds.total": 1}
    ENGINES.load("inline")(settings_from({**flat, "engine.name": "inline", "out": str(out)}))
    return out


def test_files(folder):
    assert {entry.name + "/" * entry.is_dir() for entry in folder.iterdir()} <= DOCUMENTED


def test_columns(folder):
    with (folder / "metrics.csv").open(encoding="utf-8") as file:
        metrics = json.loads((folder / "summary.json").read_text())["metrics"]
        own = {metric["name"] for metric in (*metrics["reported"], *metrics["evaluated"])}
        assert set(csv.DictReader(file).fieldnames) - own <= DOCUMENTED


def test_summary(folder):
    summary = json.loads((folder / "summary.json").read_text())
    own = {metric["name"] for metric in (*summary["metrics"]["reported"], *summary["metrics"]["evaluated"])}
    assert {key for key in summary if key.removeprefix("best_") not in own} <= DOCUMENTED


def test_events(folder):
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert {event["event"] for event in events} <= DOCUMENTED
    keys = {key for event in events if event["event"] != "committed" for key in event}
    assert keys - {"time", "event", "round", "attempt", "node", "partition"} <= DOCUMENTED
