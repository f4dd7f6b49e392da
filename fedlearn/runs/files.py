"""Write files so that a crash at any moment loses no stored content.

A file is written aside, synced, and renamed into place; its folder is synced afterwards.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from fedlearn.cache import trusted
from fedlearn.core.errors import RunFailed
from fedlearn.runs.safe_reading import open_within


def sha256(data: bytes) -> str:
    """Return the SHA-256 of some bytes, in hexadecimal: what ``sha256sum FILE`` prints."""
    return hashlib.sha256(data).hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it holds either what it held before or all of `data`, whatever happens.

    Raises
    ------
    OSError
        Naming the file, if it cannot be written.
    """
    write_together(path.parent, {path.name: data})


def write_together(folder: Path, files: Mapping[str, bytes], *, secret: Collection[str] = ()) -> None:
    """Write some files, each as `write_atomically` does, with one sync for all that lie in one folder.

    Parameters
    ----------
    files
        Name within the folder -> content. The files are put into place in this order; a power failure may change it.
    secret
        Names of files that no other user may read.
    """
    paths = {name: folder / name for name in files}
    for name, path in paths.items():
        _put_into_place(path, files[name], mode=0o600 if name in secret else 0o666)
    for parent, path in {path.parent: path for path in paths.values()}.items():
        with _naming(path):
            sync_folder(parent)


def _put_into_place(path: Path, data: bytes, *, mode: int) -> None:
    """Write a file aside, sync it, and give it its name."""
    aside = path.with_name(f".{path.name}.tmp")
    with _naming(path, aside):
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.unlink(missing_ok=True)  # left by a kill; if it were a link, another file would be overwritten
        with open(aside, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)


@contextmanager
def _naming(path: Path, aside: Path | None = None) -> Iterator[None]:
    """Have errors name a file, and remove the file `aside`, which could not be put in place and may fill the disk."""
    try:
        yield
    except OSError as error:
        if aside is not None:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_from(path: Path, position: int, data: bytes) -> None:
    """Write `data` into a file from a position on, as its end; the bytes before that position stay untouched."""
    try:
        is_new = not path.exists()
        with open_within(path) as file:
            file.truncate(position)
            file.seek(position)
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
        if is_new:
            sync_folder(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that it knows its files after any crash; say in one line if its disk cannot."""
    if not trusted.sync_folder(folder):
        trusted.say_once(
            "the disk of the run folder syncs no folders: after a power failure, not a kill, what was stored last may "
            "be missing"
        )


@contextmanager
def storing(folder: Path, path: Path | None = None) -> Iterator[None]:
    """Turn an OSError in the block into one line: which file of the run in `folder` cannot be stored, and what to do.

    The line names the file of the error or, if the error has none, `path`.
    """
    try:
        yield
    except OSError as error:
        raise RunFailed(
            f"{error.filename or path or folder}: {error.strerror}: it cannot be stored; earlier rounds are safe: "
            f"free space, or allow writing to the folder, then resume by --resume {folder}"
        ) from error
