"""What the programs of a deployment have in common: they log, listen, and end with the process that started them."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def start_logging() -> None:
    """Log one line for each thing that happens."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("flwr").propagate = False  # it prints its lines itself
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every poll


def die_with(parent: int | None) -> None:
    """Have this process ended by SIGTERM when `parent` dies, even by SIGKILL; None is nobody."""
    if parent is None:
        return
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has died before that
        sys.exit(f"the process {parent} that was to be our parent is gone")


def how_it_ended(status: int) -> str:
    """Return an exit status in words.

    >>> how_it_ended(9), how_it_ended(256)
    ('killed by SIGKILL', 'exit code 1')
    """
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit code {os.waitstatus_to_exitcode(status)}"


def free_port() -> int:
    """Return a port of this host that nobody listens on, for the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Pauses:
    """Pauses between questions that mostly have no answer: short after something has happened, then longer and longer.

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
        """Begin again with the shortest."""
        self._next = self._shortest


def read_secret(path: Path | None) -> bytes:
    """Return the bytes of a secret's file; empty without one."""
    return path.read_bytes() if path is not None else b""
