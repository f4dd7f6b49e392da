"""The log of a run: one JSON object a line, one line for each thing that happened."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

FLUSH = 0.1  # seconds between flushes of events about single nodes; others are flushed at once


class EventLog:
    """Appends events to a file.

    Every event has ``time`` (seconds since 1970) and ``event``; most have ``round`` and ``attempt``, those about one
    node have ``node``, ``partition`` and, where something was sent, ``bytes``; those about something that went wrong
    have ``reason``.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        if _ends_within_a_line(path):  # a kill has cut the last event short
            self._file.write("\n")
        self._flushed = 0.0

    def write(self, event: str, **fields: object) -> None:
        """Append one event."""
        now = time.time()
        self._file.write(json.dumps({"time": round(now, 3), "event": event, **fields}) + "\n")
        if "node" not in fields or now - self._flushed > FLUSH:
            self.flush()

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        self._file.flush()
        self._flushed = time.time()

    def __enter__(self) -> Self:
        """Return the log."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._file.close()


def _ends_within_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size == 0:
            return False
        file.seek(size - 1)
        return file.read(1) != b"\n"
