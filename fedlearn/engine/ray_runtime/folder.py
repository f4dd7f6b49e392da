"""A folder for what Ray writes while it runs; gone afterwards, also where a run was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "fedlearn-ray-"
LOCK = "lock"
SETTLED = 60.0  # seconds that its maker may take to lock it
LONGEST = 25  # characters; Ray makes sockets some folders below, whose paths may have 107


@contextmanager
def own_folder() -> Iterator[Path]:
    """Make a folder for this process; remove it, and those of processes that are gone."""
    place = Path(tempfile.gettempdir())
    if len(str(place)) > LONGEST:
        place = Path("/tmp")
    remove_abandoned(place)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(place: Path) -> None:
    """Remove the folders of processes that were killed: nobody holds their locks any more."""
    for folder in place.glob(f"{PREFIX}*"):
        try:
            if time.time() - folder.stat().st_mtime > SETTLED and not _is_locked(folder / LOCK):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # somebody else's, or just gone


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
