"""Helpers of a deployment's programs: logging, pauses between questions, secrets."""

from __future__ import annotations

import logging
import sys
from pathlib import Path


def start_logging() -> None:
    """Set up logging, one line for each event."""
    form = "%(asctime)s %(name)s %(levelname)s %(message)s"
    logging.basicConfig(level=logging.INFO, format=form, stream=sys.stderr, force=True)  # in place of the command's
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
