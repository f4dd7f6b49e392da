"""Ask a run to stop from any thread or process of its machine: by a file in its folder, at which its server looks."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedlearn.cache.trusted import lock
from fedlearn.core.errors import UsageError, said
from fedlearn.core.stopping import is_over, stopped_when
from fedlearn.runs.file_names import LOCK, STOP
from fedlearn.runs.files import write_atomically
from fedlearn.runs.safe_reading import read_small


def ask_to_stop(folder: Path, by: str) -> None:
    """Ask the run in a folder to stop now, in the middle of a round: a resume runs that round anew.

    Raises
    ------
    UsageError
        If no process runs in the folder, or the request cannot be written.
    """
    if not is_running(folder):
        raise UsageError(f"{folder}: no process is running in this folder: there is nothing to stop")
    try:
        write_atomically(folder / STOP, by.encode())
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}: the request cannot be written") from None


def is_running(folder: Path) -> bool:
    """Return whether a process runs in a folder; on a disk that knows no locks always True."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return not lock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


@contextmanager
def stoppable(folder: Path, limit: float) -> Iterator[None]:
    """Raise `Stopped` in the block when the run in a folder is asked to stop, or comes near its limit in seconds."""

    def asked() -> str:
        if is_over(limit):
            return f"stop.time_limit = {limit:g} s is near"
        with suppress(OSError):
            return said(read_small(folder / STOP).decode(errors="replace")) or "it was asked to"
        return ""

    with stopped_when(asked):
        yield
