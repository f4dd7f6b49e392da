"""What a run folder holds, read tolerantly: a file that is missing or broken costs a line, not the report."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from fedlearn.config.load import flat_from_toml
from fedlearn.runs.history import COLUMNS
from fedlearn.runs.log import Event, EventTail, RunView
from fedlearn.runs.names import CLASSES, DATA, ENVIRONMENT, EVENTS, NODES, SETTINGS, SUMMARY, TABLE
from fedlearn.runs.reading import check_path, cleaned, open_regular, read_small
from fedlearn.words.errors import UsageError, printable, said
from fedlearn.words.metrics import COUNTS_IN, Metrics

NOTES = "notes.txt"  # of the user's own
MARKS = (SETTINGS, EVENTS, TABLE, SUMMARY)  # one of them makes a folder a run folder
RAW_FILES = (
    *MARKS,
    NODES,
    CLASSES,
    NOTES,
    ENVIRONMENT,
    DATA,
    "checkpoint.json",
    "model.safetensors",
    "best.safetensors",
)
WENT_WRONG = ("failed", "refused", "late", "abandoned", "too-few-ready", "too-far", "evaluation-refused")

LARGEST = 1e100  # beyond it, the distance of two numbers need not be one
SMALLEST = 1 / LARGEST  # below it, a quotient need not be one
MOST_COUNTED = 2**53  # of rounds, nodes, attempts
MOST_COLUMNS = 200  # of metrics.csv
MOST_NODE_BYTES = 1 << 24  # of nodes.csv, a row of which takes about a hundred
LONGEST_COLUMN = 100  # letters of a column's name
LONGEST_ROW = 1 << 16  # bytes of metrics.csv without a line's end
COUNTS = ("rounds", "committed", "round", "attempt", "cohort")  # what the view of a run counts with

Row = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run as its folder shows it.

    Parameters
    ----------
    settings
        Flat: dotted name -> value.
    rounds
        Rows of metrics.csv: column -> value, None where nothing was measured.
    log
        What its events say.
    problems
        One line for each thing that could not be read.
    notes
        What its user has written into notes.txt.
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
    def files(self) -> dict[str, int]:
        """Its raw files with their sizes; nothing that a link leads to."""
        sizes = {}
        for name in RAW_FILES:
            with suppress(OSError), open_regular(self.folder / name) as file:
                sizes[name] = os.fstat(file.fileno()).st_size
        return sizes

    @property
    def status(self) -> str:
        """How it ended; "unfinished" where it goes on, or was killed."""
        if self.log.seen:
            return self.log.ended or "unfinished"
        return str(self.summary.get("status", "unfinished"))

    @property
    def reason(self) -> str:
        """Why it failed, or nothing."""
        return str(self.summary.get("reason") or "") if self.status != "unfinished" else ""

    @property
    def metrics(self) -> Metrics:
        """What the columns mean that depend on the model, and hold something."""
        if not self._metrics:
            columns = dict.fromkeys(name for row in self.rounds for name in row if name not in COLUMNS)
            named = [name for name in columns if self.latest(name) is not None]
            self._metrics.append(self.log.view.metrics_of(named))
        return self._metrics[0]

    def column(self, name: str) -> list[float | None]:
        """Return a column of metrics.csv, one value a round, None where nothing was measured; it is made once."""
        if name not in self._columns:
            self._columns[name] = [row.get(name) for row in self.rounds]
        return self._columns[name]

    def total(self, name: str) -> float:
        """Return the sum of a column over all rounds that have a value."""
        return sum(value for value in self.column(name) if value is not None)

    def latest(self, name: str) -> float | None:
        """Return the last value that was measured, None where none was."""
        return next((value for value in reversed(self.column(name)) if value is not None), None)


@dataclass(slots=True)
class LogRead:
    """What a run's events say, as far as they have been read."""

    path: Path
    view: RunView = field(default_factory=RunView)
    wrong: Counter[tuple[str, str]] = field(default_factory=Counter)  # (what, reason) -> how often
    ended: str = ""
    seen: bool = False
    tail: EventTail = field(init=False)

    def __post_init__(self) -> None:
        """Begin at the first event."""
        self.tail = EventTail(self.path)

    def read_on(self) -> None:
        """Take in what was appended."""
        for event in self.tail.read():
            with suppress(KeyError, TypeError, ValueError, AttributeError, OverflowError):  # an event of another make
                self._take(event)

    def _take(self, event: Event) -> None:
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


def is_run(folder: Path) -> bool:
    """Return whether a folder holds a run, however little of it."""
    try:
        return any((folder / name).is_file() for name in MARKS) and not (folder / "sweep.toml").exists()
    except OSError:  # it is closed to us
        return False


def run_folders(paths: Iterable[Path]) -> dict[str, Path]:
    """Return the run folders in some folders, by name: that of a run, or its place in a sweep or folder of runs.

    Raises
    ------
    UsageError
        If a path is not there, or holds no run.
    """
    found: dict[str, Path] = {}
    for path in paths:
        check_path(path)
        folder = path.resolve()
        if not folder.is_dir():
            raise UsageError(f"{path}: there is no such folder")
        inside = runs_below(folder)
        if not inside:
            raise UsageError(f"{path}: it holds no run; name a run folder, a sweep, or a folder of run folders")
        for name, run in inside.items():
            if run not in found.values():
                found[_free(name, found)] = run
    return found


def runs_below(folder: Path) -> dict[str, Path]:
    """Return the run folders in a folder, itself or at any depth, by the name each has there."""
    if is_run(folder):
        return {folder.name: folder}
    return {_name_below(run, folder): run for run in sorted(_walk(folder))}


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the run folders below a folder; a run holds no other, and links are not followed."""
    for place, inside, _ in os.walk(folder):
        if is_run(Path(place)):
            inside.clear()
            yield Path(place)


def _name_below(run: Path, folder: Path) -> str:
    """Return a run's name inside a folder; a sweep keeps its runs in runs/, which says nothing."""
    parts = run.relative_to(folder).parts
    return "/".join(parts[1:] if len(parts) > 1 and parts[0] == "runs" else parts)


def _free(name: str, taken: Mapping[str, Path]) -> str:
    names = (name, *(f"{name} ({count})" for count in range(2, len(taken) + 3)))
    return next(each for each in names if each not in taken)


def read_run(name: str, folder: Path, log: LogRead | None = None) -> StoredRun:
    """Return what a run folder holds.

    Parameters
    ----------
    log
        Of an earlier look at the same folder: only what is new is read. Without it, all is.
    """
    problems: list[str] = []
    log = log or LogRead(folder / EVENTS)
    with _said_of(EVENTS, problems):
        log.read_on()
    return StoredRun(
        name=printable(name),
        folder=folder,
        settings=_settings(folder / SETTINGS, problems),
        environment=_table(folder / ENVIRONMENT, problems),
        summary=_table(folder / SUMMARY, problems) if os.path.lexists(folder / SUMMARY) else {},
        rounds=tuple(_rows(folder / TABLE, problems)),
        log=log,
        notes=_notes(folder / NOTES, problems),
        problems=tuple(printable(f"{name}: {problem}") for problem in problems),
    )


@contextmanager
def _said_of(name: str, problems: list[str]) -> Iterator[None]:
    """Make a line of what keeps a file from being read."""
    try:
        yield
    except OSError as error:
        problems.append(f"{name}: {error.strerror or error}")


def _settings(path: Path, problems: list[str]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    with _said_of(path.name, problems):
        data = read_small(path)
        try:
            flat = cleaned(flat_from_toml(data))
        except ValueError as error:
            problems.append(f"{path.name}: {error}")
    return flat


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


def _rows(path: Path, problems: list[str]) -> list[Row]:
    """Return the rounds up to the first row that cannot be read."""
    rows: list[Row] = []
    try:
        with open_regular(path) as file:
            reader = csv.DictReader(_lines_of(file), strict=True)
            _check_columns(reader.fieldnames or ())
            for row in reader:
                numbers = {name: text for name, text in row.items() if not str(name).endswith(COUNTS_IN)}
                rows.append({printable(str(name)): _value(text) for name, text in numbers.items()})
    except FileNotFoundError:
        problems.append(f"{path.name} is missing: no round was committed")
    except OSError as error:
        problems.append(f"{path.name}: {error.strerror or error}")
    except (ValueError, csv.Error) as error:
        problems.append(f"{path.name} cannot be read beyond row {len(rows)}: {said(error)}")
    return rows


def node_rows(run: StoredRun) -> tuple[Sequence[Row], str]:
    """Return what nodes.csv holds, and one line on what of it cannot be read; nothing where there is no file."""
    try:
        found = (run.folder / NODES).lstat()
    except OSError:
        return (), ""
    return _node_rows(run.folder / NODES, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=8)
def _node_rows(path: Path, size: int, _changed: int) -> tuple[Sequence[Row], str]:
    """Return the rows of one version of a file: a live page looks at it far more often than it changes."""
    if size > MOST_NODE_BYTES:
        return (), f"{path.name} is larger than the {MOST_NODE_BYTES} bytes that a page draws"
    problems: list[str] = []
    return tuple(_rows(path, problems)), "".join(problems)


def _lines_of(file: BinaryIO) -> Iterator[str]:
    while line := file.readline(LONGEST_ROW):
        if len(line) == LONGEST_ROW:
            raise ValueError(f"a row has more than {LONGEST_ROW} bytes")
        yield line.decode("utf-8")


def _check_columns(names: Sequence[str]) -> None:
    if len(names) > MOST_COLUMNS:
        raise ValueError(f"it has {len(names)} columns, and {MOST_COLUMNS} are read")
    if long := [name for name in names if len(name) > LONGEST_COLUMN]:
        raise ValueError(f"a column's name has {len(long[0])} letters")


def _value(text: Any) -> float | None:
    """Return a cell as a number, None where it is empty.

    >>> _value("0.25"), _value("")
    (0.25, None)
    """
    if text == "":
        return None
    if not isinstance(text, str):
        raise ValueError("it has another number of cells than the header")
    return finite(float(text))


def finite(value: object) -> float | None:
    """Return a number as a float; None of everything else: NaN, infinity, and what no axis could hold.

    What is next to nothing is zero.

    >>> finite(2), finite("2"), finite(float("nan")), finite(True)
    (2.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not abs(value) < LARGEST:  # nor is NaN
        return None
    return float(value) if abs(value) >= SMALLEST else 0.0
