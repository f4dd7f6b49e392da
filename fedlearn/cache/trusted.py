"""Checks of files beyond their content: owner, place, locks, syncs.

A file that is run, unpickled or computed on without another check must be one that no other user can have written: the
file and the folders above it, up to the cache's own, belong to us or root, and no other user may write to them.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

log = logging.getLogger(__name__)

WRITTEN_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.EBADF}
"""The error numbers of disks without locks; EBADF is NFS, for folders."""
NO_SYNCS = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF}
"""The error numbers of disks that cannot sync folders."""


class NotOurs(PermissionError):
    """A file or folder that another user can have written."""


def open_ours(root: Path, *names: str) -> BinaryIO:
    """Open a file to read it, if only we or root can have written it; the check is made on open descriptors.

    Parameters
    ----------
    root
        A folder; it may be reached by a link.
    *names
        The folders below it, then the file; none of them may be a link.

    Raises
    ------
    NotOurs
        With the name of the file, or the folder above it, that another user can write to.
    """
    path = root.joinpath(*names)
    descriptor = _opened(root, *names)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotOurs(errno.EPERM, "it is no file", str(path))
    return open(path, "rb", opener=lambda *_: descriptor)


def check_ours(root: Path, *names: str) -> None:
    """Raise NotOurs where another user can write to one of these folders; the arguments are those of `open_ours`."""
    os.close(_opened(root, *names))


def _opened(root: Path, *names: str) -> int:
    path, flags = root, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    opened = os.open(root, flags | os.O_DIRECTORY)
    try:
        _check(opened, path)
        for name in names:
            above, path = opened, path / name
            opened = _below(above, path, flags)
            os.close(above)
            _check(opened, path)
    except BaseException:
        os.close(opened)
        raise
    return opened


def _below(above: int, path: Path, flags: int) -> int:
    try:
        return os.open(path.name, flags | os.O_NOFOLLOW, dir_fd=above)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotOurs(errno.EPERM, "it is a link", str(path)) from None
        raise OSError(error.errno, error.strerror, str(path)) from None


def _check(opened: int, path: Path) -> None:
    found = os.fstat(opened)
    if found.st_uid not in (0, os.geteuid()):
        raise NotOurs(errno.EPERM, f"it belongs to another user ({found.st_uid})", str(path))
    if found.st_mode & WRITTEN_BY_OTHERS:
        raise NotOurs(errno.EPERM, "others may write to it", str(path))


# --- the cache --------------------------------------------------------------------------------------------------------


def cache_folders() -> list[Path]:
    """Return the possible cache folders: ``FEDLEARN_CACHE`` or the user's cache folder; then ``own`` in the user's.

    Folders to which another user may write are left out, as is that of a user who has none: nameless and without HOME.
    """
    from platformdirs import user_cache_dir

    folders = [named_cache()]
    with suppress(RuntimeError):
        folders.append(Path(user_cache_dir("fedlearn")) / "own")
    return [folder for folder in folders if not why_not_ours(folder)]


def named_cache() -> Path:
    """Return ``FEDLEARN_CACHE``, or the user's cache folder, without a check of its owner."""
    from platformdirs import user_cache_dir

    named = os.environ.get("FEDLEARN_CACHE")
    return Path(named).expanduser().absolute() if named else Path(user_cache_dir("fedlearn"))


def cache_folder() -> Path | None:
    """Make and return the first of `cache_folders` that can be written to; None where there is none.

    Raises
    ------
    OSError
        If a folder cannot be made for another reason than missing permission.
    """
    for folder in cache_folders():
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            continue
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    return None


def why_not_ours(folder: Path) -> str:
    """Return why a folder is not trusted; an empty text where it is ours, or does not exist."""
    try:
        check_ours(folder)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return said_of(error)
    return ""


def said_of(error: OSError) -> str:
    """Return a file's error as one line that names the file."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)


@cache
def say_once(line: str) -> None:
    """Log a line, once in this process."""
    log.warning("%s", line)


# --- disks ------------------------------------------------------------------------------------------------------------


def lock(file: int, kind: int) -> bool:
    """Take a lock (`fcntl.flock`); return False where the disk has no locks.

    Raises
    ------
    BlockingIOError
        If another process has the lock, and `kind` does not wait.
    """
    try:
        fcntl.flock(file, kind)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return False
    return True


def sync_folder(folder: Path) -> bool:
    """Sync a folder, so that it has its files after any crash; return False where the disk cannot."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in NO_SYNCS:
            raise
        return False
    finally:
        os.close(opened)
    return True
