"""Arrays that are made once and then mapped into memory by every process and every later run.

An entry is a folder ``NAME-HASH`` of .npy files and an ``entry.json``, which says what the arrays
must look like. It is written under another name and renamed when complete, so a reader sees a whole
entry or none; of two processes that make the same entry at once, the second takes what the first
has written. An entry that cannot be read as its ``entry.json`` says is made again; when a run begins
(`checked`), its content is compared with its hash, too. Deleting the whole folder is always safe.

Nothing is taken from a folder that somebody else may write to, nor an entry that is not ours: what it should hold is
made anew, in the user's own cache folder (`fedlearn.cache.trusted`), or in memory where there is none either.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import blake2b
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import xxhash
from numpy.typing import NDArray

from fedlearn.cache.trusted import cache_folder as cache_folder
from fedlearn.cache.trusted import cache_folders, lock, named_cache, open_ours, said_of, say_once, why_not_ours
from fedlearn.words.errors import DataNotFound, UsageError

log = logging.getLogger(__name__)

Arrays = Mapping[str, NDArray[Any]]

FORMAT = 1  # of an entry; a new number makes every older entry unknown
OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)  # rename: something stands there
ASIDES = (".new-", ".old-", ".download-")  # how folders begin in which something is made
A_DAY = 86400  # seconds; where there are no locks, a folder that is older is nobody's any more


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Read-only arrays mapped from the files of an entry, the hash of their content, and a checksum of both."""

    arrays: Arrays
    content: str
    checksum: str = ""


_checked: ContextVar[set[Path] | None] = ContextVar("checked", default=None)  # entries compared so far in the block
_as_it_is = ContextVar("as it is", default=False)
_in_memory: dict[str, Entry] = {}  # by the names of their folders, which cannot be written


@contextmanager
def checked() -> Iterator[None]:
    """Compare, as long as the block lasts, what entries hold with the hash of what was written.

    An entry that differs is damaged, and made again. Processes that map the entry afterwards need not compare it.
    """
    before = _checked.set(set())
    try:
        yield
    finally:
        _checked.reset(before)


@contextmanager
def as_it_is() -> Iterator[None]:
    """Let `cached` raise DataNotFound in place of making what is missing, as long as the block lasts."""
    before = _as_it_is.set(True)
    try:
        yield
    finally:
        _as_it_is.reset(before)


def cached(name: str, key: str, make: Callable[[], Arrays]) -> Entry:
    """Return the arrays of `key`, calling `make` only where no sound entry exists.

    Parameters
    ----------
    name
        Start of the entry's folder name, for people who look into the cache.
    key
        All that the arrays depend on, in any length.
    make
        Makes the arrays.
    """
    found = load(name, key)
    if found is not None:
        return found
    if _as_it_is.get():
        raise DataNotFound(f"{name}: it is not in the cache {named_cache()}, and only a run puts it there")
    if why := why_not_ours(named_cache()):
        _say(f"{why}: nothing is read there nor kept; set FEDLEARN_CACHE to a folder that only you can write to")
    with _cache_errors():
        folder = cache_folder()
    arrays = make()
    place = _place(name, key)
    if folder is not None:
        try:
            return _stored(folder, name, key, arrays)
        except PermissionError as error:
            _say(f"{said_of(error)}: it is made in memory, by each process")
    else:
        _say(f"{name} is made in memory, by each process: no cache folder can be written to; set FEDLEARN_CACHE")
    return _in_memory.setdefault(place, _entry_of(arrays))


def _say(line: str) -> None:
    """Say a line once, where a run begins or data are loaded, and not in each of the workers, too."""
    if parent_process() is None or _checked.get() is not None:
        say_once(line)


def _stored(folder: Path, name: str, key: str, arrays: Arrays) -> Entry:
    """Store an entry, and read it back."""
    place = folder / _place(name, key)
    for _ in range(5):  # again only where another process took ours for the damaged one it replaces
        with _cache_errors():
            _store(place, key, arrays)
        stored = load(name, key)
        if stored is not None:
            return stored
    raise UsageError(f"{place} was written but cannot be read back; set FEDLEARN_CACHE")


def _entry_of(arrays: Arrays) -> Entry:
    """Return an entry that lies in memory alone."""
    views = {name: array.view() for name, array in arrays.items()}
    for view in views.values():
        view.flags.writeable = False
    return Entry(views, _content_hash(views))


def load(name: str, key: str) -> Entry | None:
    """Return the entry of `key`, or None where there is none, or it is damaged or not ours."""
    place, compared = _place(name, key), _checked.get()
    for folder in cache_folders():
        try:
            entry = _read(folder, place, key)
            if compared is not None and folder / place not in compared:
                _compare(entry)
                compared.add(folder / place)
            return entry
        except Exception as error:  # whatever it is, the answer is to make the entry again
            with suppress(PermissionError):
                if (folder / place).exists():
                    log.warning("cache entry=%s damaged=%r", folder / place, error)
    return _in_memory.get(place)


def place_of(array: NDArray[Any]) -> tuple[str, str] | None:
    """Return the folder's name and the array's, if it is the whole of what an entry of this cache holds under it."""
    mapped = array.base
    if not isinstance(mapped, np.memmap) or mapped.filename is None:
        return None
    file = Path(mapped.filename)
    whole = (mapped.ctypes.data, mapped.shape, mapped.strides, mapped.dtype)
    is_whole = (array.ctypes.data, array.shape, array.strides, array.dtype) == whole
    if not is_whole or file.parent.parent not in cache_folders():
        return None
    return file.parent.name, file.stem


def entry_at(folder: str) -> Entry | None:
    """Return the entry of a folder of this cache, or None where there is none or it is damaged."""
    for root in cache_folders():
        with suppress(OSError, ValueError, KeyError):
            return _read(root, folder)
    return None


@contextmanager
def _cache_errors() -> Iterator[None]:
    try:
        yield
    except PermissionError:
        raise
    except OSError as error:
        raise UsageError(
            f"cannot write to the cache folder {named_cache()}: {error}; set FEDLEARN_CACHE to a folder with free space"
        ) from error


def _place(name: str, key: str) -> str:
    return f"{name}-{_hash(os.fsencode(f'{FORMAT}/{key}'))}"


def _hash(*parts: bytes | memoryview) -> str:
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _content_hash(arrays: Arrays) -> str:
    return _hash(*_parts(arrays))


def _checksum(arrays: Arrays, content: str) -> str:
    """Return what tells of damage: with XXH3 all of CIFAR-10 costs some 30 ms, and BLAKE2 ten times that."""
    digest = xxhash.xxh3_128(content.encode())
    for part in _parts(arrays):
        digest.update(part)
    return digest.hexdigest()


def _parts(arrays: Arrays) -> Iterator[bytes | memoryview]:
    for name, array in sorted(arrays.items()):
        yield f"{name} {array.dtype.str} {array.shape}\n".encode()
        yield np.ascontiguousarray(array).data


def _read(root: Path, place: str, key: str = "") -> Entry:
    """Return the entry of this key or any; raises whatever a file raises that is missing, damaged or not ours."""
    with open_ours(root, place, "entry.json") as text:
        entry = json.load(text)
    if key and entry["key"] != key:
        raise ValueError("it belongs to another key")
    arrays = {}
    for name, (dtype, shape) in entry["arrays"].items():
        with open_ours(root, place, f"{name}.npy") as file:
            mapped = _mapped(file)
        if mapped.dtype.str != dtype or list(mapped.shape) != shape:
            raise ValueError(f"{name} is {mapped.dtype.str} of shape {mapped.shape}")
        arrays[name] = np.asarray(mapped)  # still the mapped file, without memmap's slow slices
    return Entry(arrays, content=str(entry["content"]), checksum=str(entry.get("checksum", "")))


def _mapped(file: BinaryIO) -> NDArray[Any]:
    """Return the array of an .npy file that was opened, as `np.load` maps that of a path."""
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("it is of another format")
    shape, is_by_columns, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.hasobject:
        raise ValueError("it holds objects")
    order: Any = "F" if is_by_columns else "C"
    return np.memmap(file, dtype, "r", offset=file.tell(), shape=shape, order=order)


def _compare(entry: Entry) -> None:
    """Raise ValueError where an entry does not hold what was written; older ones have only the slower hash."""
    found = _checksum(entry.arrays, entry.content) if entry.checksum else _content_hash(entry.arrays)
    if found != (entry.checksum or entry.content):
        raise ValueError("its content is not what was written")


def _store(folder: Path, key: str, arrays: Arrays) -> None:
    """Write an entry beside its place and move it there; raises OSError where it cannot."""
    with aside(".new-", folder.parent, folder.name) as written:
        for name, array in arrays.items():
            with open(written / f"{name}.npy", "wb", opener=_not_for_others) as file:
                np.save(file, array, allow_pickle=False)
                os.fsync(file.fileno())
        content = _content_hash(arrays)
        entry = {
            "key": key,
            "content": content,
            "checksum": _checksum(arrays, content),
            "arrays": {name: [a.dtype.str, list(a.shape)] for name, a in arrays.items()},
        }
        with open(written / "entry.json", "w", encoding="utf-8", opener=_not_for_others) as text:
            json.dump(entry, text, indent=1)
            text.flush()
            os.fsync(text.fileno())
        _move_into_place(written, folder, key)


def _not_for_others(name: str, flags: int) -> int:
    """Open a file that nobody else may write to, whatever the process's umask."""
    return os.open(name, flags, 0o644)


@contextmanager
def aside(kind: str, folder: Path | None, name: str) -> Iterator[Path]:
    """Make a folder beside entries, for as long as the block lasts, and remove those that kills have left behind.

    It is locked meanwhile, which a kill ends.

    Parameters
    ----------
    kind
        One of `ASIDES`.
    folder
        Where; None is the system's folder for what is temporary.
    name
        For people.
    """
    if folder is not None:
        _clear(folder)
    made, opened = None, -1
    while made is None:  # again only where another process took it for one that was left, before it was locked
        made, opened = _locked(Path(tempfile.mkdtemp(prefix=f"{kind}{name}-", dir=folder)))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(opened)


def _locked(made: Path) -> tuple[Path | None, int]:
    """Lock a folder; return it, or None where it is gone, and what holds the lock."""
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
    """Remove the asides whose makers are gone: their locks are free; without locks, those that are older than a day."""
    for left in [path for kind in ASIDES for path in folder.glob(f"{kind}*")]:
        with suppress(OSError):
            opened = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                is_alone = lock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if is_alone or time.time() - os.fstat(opened).st_mtime > A_DAY:
                    shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(opened)


def _move_into_place(written: Path, folder: Path, key: str) -> None:
    """Rename `written` to `folder`, unless a sound entry of another process is there by now."""
    for _ in range(10):  # each turn more means that another process moved its own entry in
        try:
            written.rename(folder)
            return
        except OSError as error:
            if error.errno not in OCCUPIED:
                raise
        try:
            _compare(_read(folder.parent, folder.name, key))
            return
        except Exception:  # as in `load`
            _remove(folder)


def _remove(damaged: Path) -> None:
    """Take a damaged entry out of the way; processes that have it mapped keep their mapping."""
    with (
        suppress(FileNotFoundError),
        aside(".old-", damaged.parent, damaged.name) as old,
    ):  # another process may be faster
        damaged.rename(old / damaged.name)
