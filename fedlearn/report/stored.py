"""Read a run folder tolerantly: a file that is missing or broken costs a line, not the report."""

from __future__ import annotations

import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedlearn.config.load import flat_from_toml
from fedlearn.core.errors import printable, said
from fedlearn.core.metric import VALIDATION_ROWS
from fedlearn.core.metrics import Metrics
from fedlearn.core.spread import ON_NODES
from fedlearn.report.folders import MARKS
from fedlearn.report.number_rows import Row, finite, read_rows
from fedlearn.report.words import readable
from fedlearn.runs.file_names import (
    ANALYSIS,
    BEST,
    CHECKPOINT,
    CLASSES,
    DATA,
    DEALT,
    ENVIRONMENT,
    EVENTS,
    FROZEN,
    MODEL,
    NODES,
    SETTINGS,
    STATISTICS,
    SUMMARY,
    TABLE,
)
from fedlearn.runs.history import COLUMNS
from fedlearn.runs.log import Event, EventTail, RunView, has_ended, other_events
from fedlearn.runs.safe_reading import cleaned, read_small
from fedlearn.runs.secret_participation import OF_A_RUN, is_secret, without_participation

NOTES = "notes.txt"  # written by the user
RAW_FILES = (
    *MARKS, NODES, CLASSES, STATISTICS, ANALYSIS, NOTES, ENVIRONMENT, DATA, DEALT, CHECKPOINT, MODEL, BEST, FROZEN,
)  # fmt: skip
OPEN_FILES = tuple(name for name in RAW_FILES if name not in (EVENTS, TABLE, NODES, DEALT, CHECKPOINT))
WENT_WRONG = (
    "failed", "refused", "late", "abandoned", "too-few-ready", "answered-late", "too-far", "evaluation-refused",
)  # fmt: skip
LIVE = other_events("started", "ended", *WENT_WRONG)  # what a page of a run that has ended does not show

MOST_COUNTED = 2**53  # of rounds, nodes, attempts
COUNTS = ("rounds", "committed", "round", "attempt", "cohort")  # entries of events that must be counts


@dataclass(frozen=True, slots=True)
class StoredRun:
    """The content of one run folder.

    Parameters
    ----------
    settings
        Dotted name -> value.
    rounds
        Rows of metrics.csv: column -> value, None if the value was not measured.
    log
        The run's events.
    problems
        One line for each file that could not be read.
    notes
        The user's notes in notes.txt.
    """

    name: str
    folder: Path
    settings: Mapping[str, Any]
    environment: Mapping[str, Any]
    summary: Mapping[str, Any]
    rounds: tuple[Row, ...]
    log: LogRead
    problems: tuple[str, ...]
    notes: str = ""
    _columns: dict[str, list[float | None]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _metrics: list[Metrics] = field(default_factory=list, init=False, repr=False, compare=False)  # once they are known

    @property
    def label(self) -> str:
        """The name for people."""
        return readable(self.name)

    @property
    def files(self) -> dict[str, int]:
        """The raw files of the run: name -> bytes; links are left out."""
        sizes = {}
        for name in RAW_FILES if not self.log.hides else OPEN_FILES:
            with suppress(OSError):
                found = os.lstat(f"{self.folder}/{name}")
                if stat.S_ISREG(found.st_mode):
                    sizes[name] = found.st_size
        return sizes

    @property
    def status(self) -> str:
        """How the run ended; "unfinished" if it goes on, or was killed."""
        if self.log.seen:
            return self.log.ended or "unfinished"
        return str(self.summary.get("status", "unfinished"))

    @property
    def state_in_words(self) -> str:
        """The status, and whether the run has stopped early: completed before its last round."""
        return "stopped early" if self.is_early else self.status

    @property
    def is_early(self) -> bool:
        """Whether the run has completed before its last round."""
        return self.status == "completed" and bool(self.summary.get("stopped_early"))

    @property
    def reason(self) -> str:
        """Why the run failed; empty if it did not."""
        return str(self.summary.get("reason") or "") if self.status != "unfinished" else ""

    @property
    def metrics(self) -> Metrics:
        """The metrics of the columns that depend on the model and are not empty; and what nodes alone have measured."""
        if not self._metrics:
            columns = dict.fromkeys(name for row in self.rounds for name in row if name not in COLUMNS)
            named = [name for name in columns if self.latest(name) is not None]
            of_nodes = [name.removesuffix(ON_NODES) for name in named if name.endswith(ON_NODES)]
            self._metrics.append(self.log.view.metrics_of(list(dict.fromkeys([*of_nodes, *named]))))
        return self._metrics[0]

    def column(self, name: str) -> list[float | None]:
        """Return a column of metrics.csv, one value a round, None if it was not measured; the list is made once."""
        if name not in self._columns:
            self._columns[name] = [row.get(name) for row in self.rounds]
        return self._columns[name]

    def total(self, name: str) -> float:
        """Return the sum of a column over all rounds that have a value."""
        return sum(filter(None, self.column(name)), 0.0)

    def sent(self, name: str) -> float | None:
        """Return the sum of a column of bytes; None of a baseline, or where it is secret."""
        return None if "baseline" in self.summary or self.log.hides else self.total(name)

    def latest(self, name: str) -> float | None:
        """Return the last value of a column that was measured, or that of test rows measured once; None if none was."""
        found = next((value for value in reversed(self.column(name)) if value is not None), None)
        return found if found is not None or not self.validates else finite(self.summary.get(name))

    @property
    def validates(self) -> bool:
        """Whether rounds measure validation rows, and the test rows are measured once."""
        return self.summary.get("chosen_on") == VALIDATION_ROWS


@dataclass(slots=True)
class LogRead:
    """The events of a run, as far as they have been read."""

    path: Path
    hides: bool = False  # events that tell who took part
    view: RunView = field(default_factory=RunView)
    wrong: Counter[tuple[str, str]] = field(default_factory=Counter)  # (what, reason) -> how often
    ended: str = ""
    seen: bool = False
    tail: EventTail = field(init=False)

    def __post_init__(self) -> None:
        """Begin before the first event."""
        self.tail = EventTail(self.path)

    def read_on(self) -> None:
        """Take in the events that were appended since the last call.

        Of a run that has ended, the first call passes over what only a live page shows: phases, nodes that were ready,
        reports that count.
        """
        is_over = not self.seen and os.path.lexists(self.path) and has_ended(self.path)
        for event in self.tail.read(without=LIVE if is_over else None):
            with suppress(KeyError, TypeError, ValueError, AttributeError, OverflowError):  # an event of another form
                self._take(event)

    def _take(self, event: Event) -> None:
        if self.hides and event["event"] not in OF_A_RUN:
            return
        if any(not _is_count(event[name]) for name in COUNTS if name in event):
            return
        self.seen = True
        if event["event"] in WENT_WRONG:
            self.wrong[event["event"], said(event.get("reason") or "")] += 1
        elif event["event"] == "started":
            self.ended = ""
        elif event["event"] == "ended":
            self.ended = said(event["status"])
        self.view.take(event)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_COUNTED


def read_run(name: str, folder: Path, log: LogRead | None = None) -> StoredRun:
    """Return the content of a run folder.

    Parameters
    ----------
    log
        The events of an earlier call for the same folder, so that only new events are read; else all are read.
    """
    problems: list[str] = []
    settings = _settings(folder / SETTINGS, problems)
    log = log or LogRead(folder / EVENTS, hides=is_secret(settings))
    with _said_of(EVENTS, problems):
        log.read_on()
    return StoredRun(
        name=printable(name),
        folder=folder,
        settings=settings,
        environment=_table(folder / ENVIRONMENT, problems),
        summary=_table(folder / SUMMARY, problems) if os.path.lexists(folder / SUMMARY) else {},
        rounds=tuple(
            row if not log.hides else without_participation(row) for row in read_rows(folder / TABLE, problems)
        ),
        log=log,
        notes=_notes(folder / NOTES, problems),
        problems=tuple(printable(f"{name}: {problem}") for problem in problems),
    )


@contextmanager
def _said_of(name: str, problems: list[str]) -> Iterator[None]:
    """Turn an OSError in the block into a line on the file that cannot be read."""
    try:
        yield
    except OSError as error:
        problems.append(f"{name}: {error.strerror or error}")


def _settings(path: Path, problems: list[str]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    with _said_of(path.name, problems):
        data = read_small(path)
        try:
            flat = _flat(data)
        except ValueError as error:
            problems.append(f"{path.name}: {error}")
    return flat


_HEADER = re.compile(rb"^\[([a-z_]+)\]\n", re.MULTILINE)


def _flat(data: bytes) -> dict[str, Any]:
    """Return the settings in a file; a table that another run has had, too, is parsed once.

    So a file is read in parts where each is a table of its own: each header stands once, and no text has many lines.
    """
    parts = _HEADER.split(data)
    headers = parts[1::2]
    if len({*headers}) < len(headers) or b'"""' in data or b"'''" in data:
        return dict(cleaned(flat_from_toml(data)))
    try:
        tables = [_table_of(parts[0]), *map(_table_of, headers, parts[2::2])]
    except ValueError:  # a header inside of an array, or an error, which the whole file names by its line
        return dict(cleaned(flat_from_toml(data)))
    return {name: value for table in tables for name, value in table.items()}


@lru_cache(maxsize=4096)
def _table_of(*parts: bytes) -> dict[str, Any]:
    """Return the settings of one table, given by its header, if it has one, and its lines."""
    header = b"[" + parts[0] + b"]\n" if len(parts) > 1 else b""
    return dict(cleaned(flat_from_toml(header + parts[-1])))


def _table(path: Path, problems: list[str]) -> dict[str, Any]:
    with _said_of(path.name, problems):
        data = read_small(path)
        try:
            table = json.loads(data)
        except (ValueError, RecursionError):
            problems.append(f"{path.name} is no JSON: it was cut short, or something else wrote it")
            return {}
        if isinstance(table, dict):
            return dict(cleaned(table))
        problems.append(f"{path.name} holds no table")
    return {}


def _notes(path: Path, problems: list[str]) -> str:
    if not os.path.lexists(path):
        return ""
    with _said_of(path.name, problems):
        return str(cleaned(read_small(path).decode(errors="replace").strip()))
    return ""
