"""Arrays that are made once and then mapped into memory by every process and every later run.

An entry is a folder ``NAME-HASH`` of .npy files and an ``entry.json``, which says what the arrays
must look like. It is written under another name and renamed when complete, so a reader sees a whole
entry or none; of two processes that make the same entry at once, the second takes what the first
has written. An entry that cannot be read as its ``entry.json`` says is made again; when a run begins
(`checked`), its content is compared with its hash, too. Deleting the whole folder is always safe.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from fedlearn.errors import DataNotFound, UsageError

log = logging.getLogger(__name__)

Arrays = Mapping[str, NDArray[Any]]

FORMAT = 1  # of an entry; a new number makes every older entry unknown
OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)  # rename: something stands there


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Read-only arrays mapped from the files of an entry, the hash of their content, and a checksum of both."""

    arrays: Arrays
    content: str
    checksum: str = ""


_checked: ContextVar[set[Path] | None] = ContextVar("checked", default=None)  # entries compared so far in the block
_as_it_is = ContextVar("as it is", default=False)


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


def cache_folder() -> Path:
    """Return the folder of all entries: ``FEDLEARN_CACHE``, or the user's cache folder."""
    named = os.environ.get("FEDLEARN_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("fedlearn"))


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
    folder = _folder_of(name, key)
    found = load(name, key)
    if found is not None:
        return found
    if _as_it_is.get():
        raise DataNotFound(f"{name}: it is not in the cache {cache_folder()}, and only a run puts it there")
    with _cache_errors():
        cache_folder().mkdir(parents=True, exist_ok=True)
    arrays = make()
    for _ in range(5):  # again only where another process took ours for the damaged one it replaces
        with _cache_errors():
            _store(folder, key, arrays)
        stored = load(name, key)
        if stored is not None:
            return stored
    raise UsageError(f"{folder} was written but cannot be read back; set FEDLEARN_CACHE")


def load(name: str, key: str) -> Entry | None:
    """Return the entry of `key`, or None where there is none or it is damaged."""
    folder = _folder_of(name, key)
    if not folder.exists():
        return None
    compared = _checked.get()
    try:
        entry = _read(folder, key)
        if compared is not None and folder not in compared:
            _compare(entry)
            compared.add(folder)
        return entry
    except Exception as error:  # whatever it is, the answer is to make the entry again
        log.warning("cache entry=%s damaged=%r", folder, error)
        return None


def place_of(array: NDArray[Any]) -> tuple[str, str] | None:
    """Return the folder's name and the array's, if it is the whole of what an entry of this cache holds under it."""
    mapped = array.base
    if not isinstance(mapped, np.memmap) or mapped.filename is None:
        return None
    file = Path(mapped.filename)
    whole = (mapped.ctypes.data, mapped.shape, mapped.strides, mapped.dtype)
    if (array.ctypes.data, array.shape, array.strides, array.dtype) != whole or file.parent.parent != cache_folder():
        return None
    return file.parent.name, file.stem


def entry_at(folder: str) -> Entry | None:
    """Return the entry of a folder of this cache, or None where there is none or it is damaged."""
    try:
        return _read(cache_folder() / folder)
    except (OSError, ValueError, KeyError):
        return None


@contextmanager
def _cache_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot write to the cache folder {cache_folder()}: {error}; "
            "set FEDLEARN_CACHE to a folder with free space"
        ) from error


def _folder_of(name: str, key: str) -> Path:
    return cache_folder() / f"{name}-{_hash(os.fsencode(f'{FORMAT}/{key}'))}"


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


def _read(folder: Path, key: str = "") -> Entry:
    """Return the entry in `folder`, of this key or any; raises whatever a missing or damaged file raises."""
    entry = json.loads((folder / "entry.json").read_text(encoding="utf-8"))
    if key and entry["key"] != key:
        raise ValueError("it belongs to another key")
    arrays = {}
    for name, (dtype, shape) in entry["arrays"].items():
        mapped = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        if mapped.dtype.str != dtype or list(mapped.shape) != shape:
            raise ValueError(f"{name} is {mapped.dtype.str} of shape {mapped.shape}")
        arrays[name] = np.asarray(mapped)  # still the mapped file, without memmap's slow slices
    return Entry(arrays, content=str(entry["content"]), checksum=str(entry.get("checksum", "")))


def _compare(entry: Entry) -> None:
    """Raise ValueError where an entry does not hold what was written; older ones have only the slower hash."""
    found = _checksum(entry.arrays, entry.content) if entry.checksum else _content_hash(entry.arrays)
    if found != (entry.checksum or entry.content):
        raise ValueError("its content is not what was written")


def _store(folder: Path, key: str, arrays: Arrays) -> None:
    """Write an entry beside its place and move it there; raises OSError where it cannot."""
    written = Path(tempfile.mkdtemp(prefix=f".new-{folder.name}-", dir=folder.parent))
    try:
        for name, array in arrays.items():
            with (written / f"{name}.npy").open("wb") as file:
                np.save(file, array, allow_pickle=False)
                os.fsync(file.fileno())
        content = _content_hash(arrays)
        entry = {
            "key": key,
            "content": content,
            "checksum": _checksum(arrays, content),
            "arrays": {name: [a.dtype.str, list(a.shape)] for name, a in arrays.items()},
        }
        with (written / "entry.json").open("w", encoding="utf-8") as text:
            json.dump(entry, text, indent=1)
            text.flush()
            os.fsync(text.fileno())
        _move_into_place(written, folder, key)
    finally:
        shutil.rmtree(written, ignore_errors=True)


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
            _compare(_read(folder, key))
            return
        except Exception:  # as in `load`
            _remove(folder)


def _remove(damaged: Path) -> None:
    """Take a damaged entry out of the way; processes that have it mapped keep their mapping."""
    aside = Path(tempfile.mkdtemp(prefix=f".old-{damaged.name}-", dir=damaged.parent))
    try:
        damaged.rename(aside / damaged.name)
    except FileNotFoundError:
        pass  # another process was faster
    finally:
        shutil.rmtree(aside, ignore_errors=True)
