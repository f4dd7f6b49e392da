"""Read files that others may have changed: only regular files, up to a size, and texts that a terminal can show."""

from __future__ import annotations

import errno
import os
import stat
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import TypeAdapter, ValidationError

from fedlearn.core.errors import UsageError, printable, quoted, said

MOST_BYTES = 1 << 22  # of a small file; a hundred times more than a run writes
LONGEST_TEXT = 2000  # characters of one value
DEEPEST = 6  # tables in tables
T = TypeVar("T")
AS_THEY_ARE = (bool, float)  # types of values that are safe to show


def open_regular(path: Path, *, most: int | None = None) -> BinaryIO:
    """Open a regular file for reading.

    Parameters
    ----------
    most
        How many bytes the file may have.

    Raises
    ------
    OSError
        If the file is missing, too large, a link, or a pipe or device, which need never end; the call never waits.
    """
    file = os.fdopen(_opened(path, os.O_RDONLY), "rb")
    if most is not None and os.fstat(file.fileno()).st_size > most:
        file.close()
        raise OSError(errno.EFBIG, f"it is larger than {most} bytes", str(path))
    return file


def open_to_append(path: Path) -> BinaryIO:
    """Open a regular file to write at its end, or make it; OSError as in `open_regular`.

    A file that a link leads to is never written, even if it does not exist yet.
    """
    return os.fdopen(_opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab")


def open_within(path: Path) -> BinaryIO:
    """Open a regular file to write anywhere within it, unbuffered, or make it; OSError as in `open_to_append`."""
    return os.fdopen(_opened(path, os.O_WRONLY | os.O_CREAT), "wb", buffering=0)


def _opened(path: Path, flags: int) -> int:
    """Return the descriptor of a regular file."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        reason = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise OSError(error.errno, reason, str(path)) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return descriptor


def check_path(path: Path, flag: str = "") -> None:
    """Refuse a path that no file can have; a path where no file lies is accepted, as its reader reports that.

    Raises
    ------
    UsageError
        Naming the flag.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    except (OSError, ValueError) as error:
        what = f"{flag} {said(path)}".lstrip()
        raise UsageError(f"{what}: {getattr(error, 'strerror', None) or said(error)}: name another path") from None


def read_small(path: Path) -> bytes:
    """Return the content of a small file; OSError if it is no regular file, or larger than any that a run writes."""
    with open_regular(path, most=MOST_BYTES) as file:
        return file.read(MOST_BYTES)


def read_as(kind: type[T], path: Path) -> T | None:
    """Return the content of a small JSON file as a dataclass; None if there is no such file.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        In one line, if its content does not fit the dataclass.
    """
    try:
        return schema_of(kind).validate_json(read_small(path), strict=True)
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise ValueError(f"it is not what was written: {error.errors()[0]['msg']}") from None


def schema_of(kind: type[T]) -> TypeAdapter[T]:
    """Return what checks values against a dataclass, made when it is first asked for."""
    named: Any = kind
    made: TypeAdapter[T] = _made(named)
    return made


@cache
def _made(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def cleaned(value: Any, depth: int = 0) -> Any:
    r"""Return a value of JSON or TOML with printable texts of limited length; a deeply nested table becomes a text.

    >>> cleaned({"a\x1b[2J": ["b\n", 1, None, 2.5]})
    {'a?[2J': ['b ', 1, None, 2.5]}
    """
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, AS_THEY_ARE) or (isinstance(value, int) and value.bit_length() <= 64):
        return value
    if depth < DEEPEST and isinstance(value, dict):
        return {_text(str(name)): cleaned(inner, depth + 1) for name, inner in value.items()}
    if depth < DEEPEST and isinstance(value, list):
        return [cleaned(inner, depth + 1) for inner in value]
    return quoted(value)


def _text(text: str) -> str:
    if len(text) <= LONGEST_TEXT and text.isascii() and text.isprintable():
        return text
    shown = printable(text[: LONGEST_TEXT + 1])
    return shown if len(shown) <= LONGEST_TEXT else shown[:LONGEST_TEXT] + "..."
