"""Folders beside the entries of a cache, in which something is made before it is moved into place."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedlearn.cache.trusted import lock

ASIDES = (".new-", ".old-", ".download-")  # how the names of these folders begin
A_DAY = 86400  # seconds; without locks, the maker of a folder that is older is taken to be gone


@contextmanager
def aside(kind: str, folder: Path | None, name: str) -> Iterator[Path]:
    """Make a folder beside entries that is removed at the end of the block; remove folders of killed processes.

    The folder is locked meanwhile; a kill ends the lock.

    Parameters
    ----------
    kind
        One of `ASIDES`.
    folder
        The folder in which to make it; None is the system's folder for temporary files.
    name
        Part of the name, for people.
    """
    if folder is not None:
        _clear(folder)
    made, opened = None, -1
    while made is None:  # again only if another process took it for one that was left behind, before it was locked
        made, opened = _locked(Path(tempfile.mkdtemp(prefix=f"{kind}{name}-", dir=folder)))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(opened)


def _locked(made: Path) -> tuple[Path | None, int]:
    """Lock a folder; return the folder, or None if it is gone, and the descriptor that holds the lock."""
    try:
        opened = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None, -1
    lock(opened, fcntl.LOCK_EX)
    if made.exists():
        return made, opened
    os.close(opened)
    return None, -1


def _clear(folder: Path) -> None:
    """Remove the folders whose makers are gone: their locks are free; without locks, folders older than a day."""
    for left in [path for kind in ASIDES for path in folder.glob(f"{kind}*")]:
        with suppress(OSError):
            opened = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                is_alone = lock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if is_alone or time.time() - os.fstat(opened).st_mtime > A_DAY:
                    shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(opened)
