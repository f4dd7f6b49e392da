"""Safe reading of users' files: the kind and the size of a file are checked first, and each failure is one line.

A file of data may be a download, an export or a link. Links are followed, as data sets are often kept by them
(git-annex, DVC, the Hugging Face cache); the file that a link leads to must be regular. The number of bytes that a file
unpacks to is read from its own declaration, before anything is decoded.
"""

from __future__ import annotations

import inspect
import io
import os
import stat
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ParamSpec, TypeVar

from fedlearn.core.errors import DataNotFound, FedlearnError, UsageError, printable
from fedlearn.plugins.own_packages import NAMES, ROOT
from fedlearn.plugins.tracebacks import place_of, shortened

if TYPE_CHECKING:
    import zipfile

MOST_OF_A_TEXT = 1 << 24  # bytes of a text about data: a schema, a partition
UNPACKED = 1 << 30  # bytes that any file may unpack to
TIMES = 50  # beyond UNPACKED: bytes that a file may unpack to / bytes that it takes on the disk
LONGEST_REASON = 300  # letters of an error in the user's code
DETAILS = "FEDLEARN_TRACEBACK=1 prints what the library that reads it says"
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}
"""Ending of a compressed file -> Python's module for it; a .zip holds one table."""
ZIP = ".zip"
TABLES = (".csv", ".tsv", ".txt")  # endings of a table in a .zip
OF_SYSTEMS = ("__MACOSX", ".")  # beginnings of names that systems put beside the table

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def one_line_of(place: object) -> Iterator[None]:
    """Turn an exception inside the block into one line with the place of the data; our own errors stay as they are.

    Raises
    ------
    UsageError
        For any exception of a library or of the user's own data set, or for want of memory.
    """
    try:
        yield
    except FedlearnError:
        raise
    except Exception as error:  # libraries raise anything on data that they do not expect
        raise _refused(place, error) from error


def _refused(place: object, error: Exception) -> UsageError:
    if ".py:" in place_of(error) or _is_raised_by_us(error):  # a user's own data set; libraries have places, too
        reason = " ".join(printable(shortened(error)).split())
    elif isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    elif isinstance(error, MemoryError):
        reason = "there is not enough memory: give fewer examples, or smaller ones"
    else:
        reason = f"it is damaged, or not what its name says ({type(error).__name__}): {DETAILS}"
    return UsageError(f"{place} cannot be read: {reason[:LONGEST_REASON]}")


def _is_raised_by_us(error: Exception) -> bool:
    """Return whether the text of an error is ours: raised by a statement of our packages, not within a library."""
    innermost = traceback.extract_tb(error.__traceback__)[-1]
    is_ours = innermost.filename.startswith(tuple(f"{ROOT / name}/" for name in ("fedlearn", *NAMES)))
    return is_ours and (innermost.line or "").startswith("raise")


def one_line_errors(read: Callable[P, R]) -> Callable[P, R]:
    """Decorate a reader of data: each error is one line that names the reader's first argument."""
    signature = inspect.signature(read)

    @wraps(read)
    def reading(*args: P.args, **options: P.kwargs) -> R:
        try:
            signature.bind(*args, **options)
        except TypeError as error:  # of the caller, not of the data
            raise TypeError(f"{read.__name__}() {error}") from None
        given = args[0] if args else None
        with one_line_of(given if isinstance(given, str | Path) else f"{read.__name__}: {options.get('name', 'data')}"):
            return read(*args, **options)

    return reading


def size_of(path: Path) -> os.stat_result:
    """Return the status of a regular file, links followed, without opening it.

    Raises
    ------
    DataNotFound, UsageError
        If the file is not there; if it is a pipe, a device or a folder, or unpacks to far more than it takes on the
        disk.
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
    """Refuse a file that unpacks to more than `UNPACKED` bytes, and to more than `TIMES` its bytes on the disk.

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
    """Return the number of bytes that an open file takes on the disk: holes take none; some systems count no blocks."""
    found = os.fstat(descriptor)
    if not found.st_blocks and found.st_size:
        try:
            os.lseek(descriptor, 0, os.SEEK_DATA)
        except OSError:  # the whole file is a hole
            return 0
        return found.st_size
    return min(found.st_size, found.st_blocks * 512)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file, links followed; never wait, even if a pipe has taken its place meanwhile."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        _check_kind(path, os.fstat(file.fileno()))
        yield file


def ending_of(path: Path) -> str:
    """Return the ending of a file's name in small letters, without that of a compression.

    >>> [ending_of(Path(name)) for name in ("a.CSV", "a.tsv.gz", "a.csv.zip", "a.zip", "a.gz")]
    ['.csv', '.tsv', '.csv', '.csv', '.gz']
    """
    name = Path(path.name.lower())
    if name.suffix not in (*COMPRESSED, ZIP):
        return name.suffix
    inner = Path(name.stem).suffix
    return inner if inner in TABLES else ".csv" if name.suffix == ZIP else name.suffix


@contextmanager
def unpacked(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file, and unpack it if its ending is that of a compression.

    Raises
    ------
    UsageError
        If it unpacks to more than `check_unpacked` lets pass, or is a .zip of other than one table.
    """
    kind = path.suffix.lower()
    with opened(path) as file:
        if kind == ZIP:
            with import_module("zipfile").ZipFile(file) as archive, archive.open(_table_in(path, archive)) as packed:
                yield io.BytesIO(_bounded(path, packed))
        elif kind in COMPRESSED:
            with import_module(COMPRESSED[kind]).open(file) as packed:
                yield io.BytesIO(_bounded(path, packed))
        else:
            yield file


def _bounded(path: Path, packed: Any) -> bytes:
    """Return the content of a compressed file; the size that it declares need not be true."""
    with opened(path) as file:
        most = max(UNPACKED, TIMES * _stored(file.fileno()))
    content: bytes = packed.read(most + 1)
    check_unpacked(path, len(content))
    return content


def _table_in(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    names = [each for each in archive.infolist() if not each.is_dir()]
    found = [each for each in names if not any(part.startswith(OF_SYSTEMS) for part in Path(each.filename).parts)]
    if len(found) != 1 or not found[0].filename.lower().endswith(TABLES):
        listed = ", ".join(each.filename for each in found[:5]) or "nothing"
        raise UsageError(f"{path}: it must hold one table ({', '.join(TABLES)}), and holds {listed}: unpack it")
    return found[0]


def text_of(path: Path, *, most: int = MOST_OF_A_TEXT) -> str:
    """Return the text of a file of at most `most` bytes.

    Raises
    ------
    DataNotFound, UsageError
        If the file is not there; if it is no regular file, too large or no text; in one line.
    """
    with one_line_of(path), opened(path) as file:
        data = file.read(most + 1)
        if len(data) > most:
            raise UsageError(f"{path}: it is larger than {most} bytes")
        return data.decode("utf-8-sig")
