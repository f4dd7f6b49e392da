"""What the programs of a deployment have in common: they log, and end with the process that has started them."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def start_logging() -> None:
    """Log one line for each thing that happens."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr)
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


def read_secret(path: Path | None) -> bytes:
    """Return the bytes of a secret's file; empty without one."""
    return path.read_bytes() if path is not None else b""
