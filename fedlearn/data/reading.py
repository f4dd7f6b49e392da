"""The one door to people's data: what a file is and how large it gets is looked at first, whatever fails is one line.

A file of data is somebody's download, export or link. Links are followed, as data sets are often kept by them
(git-annex, DVC, the Hugging Face cache); what they lead to must be a regular file. How much a file unpacks to is read
from what it declares of itself, before anything is decoded.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import BinaryIO, ParamSpec, TypeVar

from fedlearn.plugging.tracebacks import place_of, shortened
from fedlearn.words.errors import DataNotFound, FedlearnError, UsageError, printable

MOST_OF_A_WORD = 1 << 24  # bytes of a file that says something about data: a schema, who has what
UNPACKED = 1 << 30  # bytes that any file may unpack to
TIMES = 50  # what a file that takes more on the disk may unpack to, in times of that
LONGEST_REASON = 300  # letters of what a library says

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def one_line_of(place: object) -> Iterator[None]:
    """Make one line with the place of whatever is raised inside; what we raise on purpose stays as it is.

    Raises
    ------
    UsageError
        For any other exception: of a library, of the user's own data set, for want of memory.
    """
    try:
        yield
    except FedlearnError:
        raise
    except Exception as error:  # libraries raise anything on data that are not what they expect
        raise _refused(place, error) from error


def _refused(place: object, error: Exception) -> UsageError:
    own = ".py:" in place_of(error)  # of the user's own data set; libraries have places, too
    text = shortened(error) if own else f"{type(error).__name__}: {error}"
    reason = error.strerror if isinstance(error, OSError) and error.strerror else " ".join(printable(text).split())
    return UsageError(f"{place} cannot be read: {reason[:LONGEST_REASON]}")


def through_the_door(read: Callable[P, R]) -> Callable[P, R]:
    """Make a reader of data raise one line that names what it was given, whatever goes wrong in it."""

    @wraps(read)
    def reading(*args: P.args, **said: P.kwargs) -> R:
        given = args[0] if args else None
        with one_line_of(given if isinstance(given, str | Path) else f"{read.__name__}: {said.get('name', 'data')}"):
            return read(*args, **said)

    return reading


def size_of(path: Path) -> os.stat_result:
    """Return what is known of a regular file, links followed, without opening it.

    Raises
    ------
    DataNotFound, UsageError
        If it is not there; if it is a pipe, a device or a folder, or unpacks to far more than it takes on the disk.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        dead = f"it is a link to {path.readlink()}, which is not there" if path.is_symlink() else "no such file"
        raise DataNotFound(f"{path}: {dead}") from None
    _check_kind(path, found)
    check_unpacked(path, found.st_size)
    return found


def _check_kind(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe, a device or a socket"
        raise UsageError(f"{path}: it is {kind}: name a regular file")


def check_unpacked(path: Path, size: int) -> None:
    """Refuse a file that unpacks to more than any may, unless it takes a fair part of that on the disk.

    Raises
    ------
    UsageError
        With both sizes.
    """
    if size <= UNPACKED:
        return
    with opened(path) as file:
        stored = _stored(file.fileno())
    if size > TIMES * stored:
        raise UsageError(
            f"{path}: it would take {size / 1e9:.3g} GB of memory and takes {stored / 1e6:.3g} MB on the disk: a file "
            f"may unpack to {UNPACKED / 1e9:.2g} GB, or to {TIMES} times what it takes; split it, or give its arrays"
        )


def _stored(descriptor: int) -> int:
    """Return the bytes that an open file takes on the disk: holes take none, and some systems count no blocks."""
    found = os.fstat(descriptor)
    if not found.st_blocks and found.st_size:
        try:
            os.lseek(descriptor, 0, os.SEEK_DATA)
        except OSError:  # there is nothing but a hole
            return 0
        return found.st_size
    return min(found.st_size, found.st_blocks * 512)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file, links followed; nothing is waited for, whatever it has become meanwhile."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        _check_kind(path, os.fstat(file.fileno()))
        yield file


def text_of(path: Path, *, most: int = MOST_OF_A_WORD) -> str:
    """Return the text of a file that says something about data, of so many bytes at most.

    Raises
    ------
    DataNotFound, UsageError
        If it is not there; if it is no regular file, too large or no text; in one line.
    """
    with one_line_of(path), opened(path) as file:
        data = file.read(most + 1)
        if len(data) > most:
            raise UsageError(f"{path}: it is larger than {most} bytes")
        return data.decode("utf-8-sig")
