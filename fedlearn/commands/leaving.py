"""What leaves a run that protects nodes: its folder, its printed and logged lines, its messages to listeners.

The exact audit compares all of it between neighbors, file by file and column by column, but for the columns that are
named here. These are times, which no audit of ours covers, and who took part, which stays with the server by design.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from fedlearn.auditing.planting import NOT_THERE
from fedlearn.runs.file_names import CHECKPOINT, MANIFEST, NODE_STATES
from fedlearn.runs.log import Event

TIMES = frozenset({
    "time", "seconds", "cpu_seconds", "tokens_per_second", "memory_bytes", "memory_peak_bytes", "folder", "out",
})  # fmt: skip
TOOK_PART = frozenset({
    "attempts", "ready", "cohort", "reported", "failed", "refused", "late", "uploads", "rejected", "bytes", "bytes_up",
    "bytes_down", "bytes_total", "bytes_protocol", "bits_up", "compression_ratio",
})  # fmt: skip
HASHES = frozenset({"sha256", "history_bytes", "history_sha256", "appended", "sizes", "files", "nodes_whole"})
"""Entries of checkpoint.json and manifest.json on files that are compared themselves, and on the memories of nodes."""
SECRET = re.compile(rf"{NODE_STATES.pattern}|tracebacks\.txt")  # memories of nodes, and their errors
UNSAID = re.compile(rf"{NOT_THERE}|^node=\d+ partition=\d+ .* traceback in |^partition=\w+ nodes=\d+ empty=")
"""Lines about a node that is not there, and the one that a process logs when it deals the data for the first time."""
TIMED = "_seconds"  # ends the names of further times


class Listening:
    """Listener that keeps all messages."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def take(self, event: Event) -> None:
        """See Listener."""
        self.events.append(event)

    def close(self) -> None:
        """See Listener."""


class Leaving:
    """All that leaves one run; `lines` and `listener` receive it as long as `recorded` lasts."""

    def __init__(self) -> None:
        self.listener = Listening()
        self._lines = io.StringIO()

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Keep printed and logged lines of the block, which are shown nowhere."""
        handler, root = logging.StreamHandler(self._lines), logging.getLogger()
        handler.format = logging.LogRecord.getMessage  # type: ignore[assignment]  # no traceback
        level, handlers = root.level, root.handlers
        root.handlers = [handler]
        root.setLevel(logging.INFO)
        try:
            with redirect_stdout(self._lines), redirect_stderr(self._lines):
                yield
        finally:
            root.handlers = handlers
            root.setLevel(level)

    def of(self, folder: Path) -> dict[str, Any]:
        """Return name -> content of each file of a run folder, and of lines and messages, but for the named columns."""
        files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
        kept = {name: _content(name, path) for name, path in files.items() if not SECRET.fullmatch(name)}
        lines = [line for line in self._lines.getvalue().splitlines() if not UNSAID.search(line)]
        return {**kept, "printed": lines, "listeners": _events(self.listener.events)}


def _content(name: str, path: Path) -> object:
    """Return what a file holds: tables, JSON and lines of JSON without the named columns, others to the last bit."""
    raw = path.read_bytes()
    kind = path.suffix
    if kind == ".csv":
        return [_shown(row) for row in csv.DictReader(io.StringIO(raw.decode()))]
    if kind == ".jsonl":
        return _events([json.loads(line) for line in raw.splitlines()])
    if kind == ".json":
        found = _shown(json.loads(raw))
        return {k: v for k, v in found.items() if k not in HASHES} if name in (CHECKPOINT, MANIFEST) else found
    return [line for line in raw.splitlines() if not line.startswith(b"out = ")] if kind == ".toml" else raw


def _events(events: list[Event]) -> list[Any]:
    """Return the events that are about no single node."""
    return [_shown(event) for event in events if "node" not in event]


def _shown(value: Any) -> Any:
    """Return a value without the columns that are named here, at any depth."""
    if isinstance(value, dict):
        hidden = TIMES | TOOK_PART
        return {k: _shown(v) for k, v in value.items() if k not in hidden and not str(k).endswith(TIMED)}
    return [_shown(each) for each in value] if isinstance(value, list) else value
