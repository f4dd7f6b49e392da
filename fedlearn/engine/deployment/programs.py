"""Helpers of a deployment's programs: logging, pauses between questions, secrets."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
LEVEL = re.compile(rf"\b({'|'.join(LEVELS)})\b[ :]*")
LONGEST = 1 << 14  # bytes of a line


class JsonLines(logging.Formatter):
    """A JSON object for each event: its time in UTC, program, level and message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object."""
        message = record.getMessage() + (f"\n{self.formatException(record.exc_info)}" if record.exc_info else "")
        return json_line(record.name, record.levelname, message)


def json_line(program: str, level: str, message: str) -> str:
    """Return an event as a JSON object on one line."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, "program": program, "level": level, "message": message}, ensure_ascii=False)


def as_json(program: str, line: bytes) -> str:
    """Return a line of text, as another program logs it, as a JSON object; its level is the first one in the line.

    >>> as_json("superlink", b"INFO :      Started task 7").partition(", ")[2]
    '"program": "superlink", "level": "INFO", "message": "Started task 7"}'
    """
    text = COLOURS.sub("", line.decode(errors="replace")).strip()
    found = LEVEL.search(text[:100])
    message = text[found.end() :] if found and found.start() == 0 else text
    return json_line(program, found[1] if found else "INFO", message)


def copy_as_json(program: str, lines: IO[bytes]) -> None:
    """Write each line of a program to stderr as a JSON object, until the program closes its output."""
    with lines:
        while line := lines.readline(LONGEST):
            if line.strip():
                print(as_json(program, line), file=sys.stderr, flush=True)


def start_logging(*, json_lines: bool = False) -> None:
    """Set up logging, one line for each event."""
    form = "%(asctime)s %(name)s %(levelname)s %(message)s"
    logging.basicConfig(level=logging.INFO, format=form, stream=sys.stderr, force=True)  # in place of the command's
    if json_lines:
        logging.getLogger().handlers[0].setFormatter(JsonLines())
    logging.getLogger("flwr").propagate = False  # it prints its lines itself
    for name in ("httpx", "alembic"):  # one logs every poll, the other its plugins
        logging.getLogger(name).setLevel(logging.WARNING)


class Pauses:
    """Pauses between questions: short after an event, then longer and longer.

    >>> pauses = Pauses(0.1, 0.4)
    >>> [round(pauses.next(), 2) for _ in range(12)][::4]
    [0.1, 0.21, 0.4]
    """

    def __init__(self, shortest: float, longest: float) -> None:
        self._shortest, self._longest = shortest, longest
        self._next = shortest

    def next(self) -> float:
        """Return the next pause, in seconds."""
        pause = self._next
        self._next = min(pause * 1.2, self._longest)
        return pause

    def reset(self) -> None:
        """Begin again with the shortest pause."""
        self._next = self._shortest


def read_secret(path: Path | None) -> bytes:
    """Return the bytes of a secret's file; empty without one."""
    return path.read_bytes() if path is not None else b""
