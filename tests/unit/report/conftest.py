"""Run folders as a run leaves them, written by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fedlearn.config import config_from
from fedlearn.core.client_facts import LABEL, Dealt
from fedlearn.report.stored import StoredRun, read_run
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.history import COLUMNS
from fedlearn.runs.label_counts import write_dealt

SMALL = {"clients": 4, "rounds.total": 3, "rounds.cohort": 2, "data.dataset": "digits"}
STARTED = {
    "time": 0.0, "event": "started", "committed": 0, "rounds": 3, "clients": 4, "cohort": 2, "dataset": "digits",
    "notice": "", "model": "cnn", "codec": "identity", "strategy": "fedavg", "seed": 1, "plain_bytes": 1000,
}  # fmt: skip
FIXED = {
    "attempts": 1, "ready": 3, "cohort": 2, "reported": 2, "failed": 0, "refused": 0, "late": 0, "bytes_down": 2000,
    "bytes_up": 500, "uploads": 2, "bytes_protocol": 10, "selection_seconds": 0.5, "training_seconds": 2.0,
    "evaluation_seconds": 0.5,
}  # fmt: skip
DEALT = Dealt(4, LABEL, ((5, 0, 1, 2), (0, 4, 4, 1)))


def rows_of(accuracies: Sequence[float | None], **changed: Any) -> list[dict[str, Any]]:
    """Return the rounds of a classifier."""
    return [
        {"round_number": number, **FIXED, "train_loss": 2.0, "loss": 1.5, "accuracy": accuracy, **changed}
        for number, accuracy in enumerate(accuracies, 1)
    ]


def write_rows(folder: Path, rows: list[dict[str, Any]]) -> None:
    columns = list(rows[0]) if rows else list(COLUMNS)
    lines = [columns, *([("" if row[name] is None else row[name]) for name in columns] for row in rows)]
    (folder / "metrics.csv").write_text("\n".join(",".join(map(str, line)) for line in lines) + "\n")


def write_nodes(folder: Path, cells: Sequence[tuple[int, int, float]]) -> None:
    """Write nodes.csv of (round, partition, accuracy)."""
    lines = [f"{number},{node},10,10,{accuracy}" for number, node, accuracy in cells]
    (folder / "nodes.csv").write_text("\n".join(["round,partition,examples,test_examples,accuracy", *lines]) + "\n")


def write_events(folder: Path, events: list[dict[str, Any]]) -> None:
    with (folder / "events.jsonl").open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


def committed(row: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in row.items() if name != "round_number"}
    return {
        "time": float(row["round_number"]),
        "event": "committed",
        "attempt": 1,
        "round": row["round_number"],
        **rest,
    }


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Write a run folder and return it."""

    def make_run(
        name: str = "run",
        rows: list[dict[str, Any]] | None = None,
        settings: dict[str, Any] | None = None,
        events: Sequence[dict[str, Any]] = (),
        started: dict[str, Any] | None = None,
        status: str = "completed",
        dealt: Dealt | None = DEALT,
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        rows = rows_of([0.2, 0.5, 0.4]) if rows is None else rows
        RunFolder(folder).write_settings(config_from({**SMALL, **(settings or {})}))
        if dealt is not None:
            write_dealt(folder, dealt)
        write_rows(folder, rows)
        write_events(folder, [{**STARTED, **(started or {})}, *events, *map(committed, rows)])
        if status:
            write_events(folder, [{"time": 9.0, "event": "ended", "status": status, "reason": ""}])
            (folder / "summary.json").write_text(
                json.dumps({"status": status, "reason": "", "model_sha256": "ab" * 32, "compression_ratio": 4.0})
            )
        return folder

    return make_run


@pytest.fixture
def stored(make_run: Callable[..., Path]) -> Callable[..., StoredRun]:
    """Write a run folder and read it."""

    def stored(name: str = "run", **given: Any) -> StoredRun:
        return read_run(name, make_run(name, **given))

    return stored
