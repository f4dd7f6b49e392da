"""Arrays that are made once and then mapped into memory by every process and every later run.

An entry (`entries.py`) is written under another name and renamed when it is complete, so a reader sees a whole entry or
none. Of two processes that make the same entry at once, the second takes the first's. An entry that cannot be read as
its ``entry.json`` says is made again; when a run begins (`checked`), the content of entries is compared with its hash,
too. Deleting the whole cache folder is always safe.

The cache reads no folder that another user may write to, and no entry that is not ours: the arrays are made anew, in
the user's own cache folder (`fedlearn.cache.trusted`), or in memory if there is no such folder either.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.cache.trusted import cache_folder, cache_folders, named_cache, said_of, say_once, why_not_ours
from fedlearn.core.errors import UsageError
from fedlearn.data.entries import Arrays, Entry, compare, content_hash, folder_name, read, write
from fedlearn.data.staging import aside

log = logging.getLogger(__name__)

OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)  # errors of a rename: the new name is taken

_checked: ContextVar[set[Path] | None] = ContextVar("checked", default=None)  # entries compared so far
_in_memory: dict[str, Entry] = {}  # by the names of their folders, which cannot be written


@contextmanager
def checked() -> Iterator[None]:
    """Compare the content of entries with the hash of what was written, as long as the block lasts.

    An entry that differs is damaged, and made again. Processes that map the entry afterwards need not compare it.
    """
    before = _checked.set(set())
    try:
        yield
    finally:
        _checked.reset(before)


def cached(name: str, key: str, make: Callable[[], Arrays]) -> Entry:
    """Return the entry of `key`; if there is no sound one, make its arrays and store them.

    Parameters
    ----------
    name
        Start of the entry's folder name, for people who look into the cache.
    key
        Text, of any length, that names all that the arrays depend on.
    make
        Returns the arrays.

    Raises
    ------
    UsageError
        If the cache folder is full, or an entry that was written cannot be read back.
    """
    found = load(name, key)
    if found is not None:
        return found
    if why := why_not_ours(named_cache()):
        _say(f"{why}: it is neither read nor written; set FEDLEARN_CACHE to a folder that only you can write to")
    with _cache_errors():
        folder = cache_folder()
    arrays = make()
    place = folder_name(name, key)
    if folder is not None:
        try:
            return _stored(folder, name, key, arrays)
        except PermissionError as error:
            _say(f"{said_of(error)}: it is made in memory, by each process")
    else:
        _say(f"{name} is made in memory, by each process: no cache folder can be written to; set FEDLEARN_CACHE")
    return _in_memory.setdefault(place, _entry_of(arrays))


def _say(line: str) -> None:
    """Log a line once, where a run begins or data are loaded, and not in each of the workers, too."""
    if parent_process() is None or _checked.get() is not None:
        say_once(line)


def _stored(folder: Path, name: str, key: str, arrays: Arrays) -> Entry:
    """Store an entry; return it as it is read back."""
    place = folder / folder_name(name, key)
    for _ in range(5):  # again only if another process took our entry for the damaged one that it replaces
        with _cache_errors(), aside(".new-", folder, place.name) as written:
            write(written, key, arrays)
            _move_into_place(written, place, key)
        stored = load(name, key)
        if stored is not None:
            return stored
    raise UsageError(f"{place} was written but cannot be read back; set FEDLEARN_CACHE")


def _move_into_place(written: Path, folder: Path, key: str) -> None:
    """Rename `written` to `folder`, unless a sound entry of another process is there by now."""
    for _ in range(10):  # again each time another process moved its own entry in
        try:
            written.rename(folder)
            return
        except OSError as error:
            if error.errno not in OCCUPIED:
                raise
        try:
            compare(read(folder.parent, folder.name, key))
            return
        except Exception:  # a damaged entry may raise anything
            _remove(folder)


def _remove(damaged: Path) -> None:
    """Remove a damaged entry; processes that have it mapped keep their mapping."""
    with (
        suppress(FileNotFoundError),  # another process may be faster
        aside(".old-", damaged.parent, damaged.name) as old,
    ):
        damaged.rename(old / damaged.name)


def _entry_of(arrays: Arrays) -> Entry:
    """Return an entry that is kept in memory alone, read-only."""
    views = {name: array.view() for name, array in arrays.items()}
    for view in views.values():
        view.flags.writeable = False
    return Entry(views, content_hash(views))


def load(name: str, key: str) -> Entry | None:
    """Return the entry of `key`, or None if there is none, or it is damaged or not ours."""
    place, compared = folder_name(name, key), _checked.get()
    for folder in cache_folders():
        try:
            entry = read(folder, place, key)
            if compared is not None and folder / place not in compared:
                compare(entry)
                compared.add(folder / place)
            return entry
        except Exception as error:  # whatever the reason, the entry is made again
            with suppress(PermissionError):
                if (folder / place).exists():
                    log.warning("cache entry=%s damaged=%r", folder / place, error)
    return _in_memory.get(place)


def place_of(array: NDArray[Any]) -> tuple[str, str] | None:
    """Return the names of folder and array if an array is the whole of one in this cache, else None."""
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
    """Return the entry in a folder of this cache, or None if there is none or it is damaged."""
    for root in cache_folders():
        with suppress(OSError, ValueError, KeyError):
            return read(root, folder)
    return None


@contextmanager
def _cache_errors() -> Iterator[None]:
    """Turn the system's errors into one line, but for those of permissions, which `cached` answers."""
    try:
        yield
    except PermissionError:
        raise
    except OSError as error:
        raise UsageError(
            f"cannot write to the cache folder {named_cache()}: {error}; set FEDLEARN_CACHE to a folder with free space"
        ) from error
