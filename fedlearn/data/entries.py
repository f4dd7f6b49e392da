"""An entry of the cache: a folder of .npy files and an ``entry.json``, which says what the arrays must look like.

The name of the folder is ``NAME-HASH``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import xxhash
from numpy.typing import NDArray

from fedlearn.cache.trusted import open_ours

Arrays = Mapping[str, NDArray[Any]]

FORMAT = 1  # version of the format: a new number makes every older entry unknown


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Read-only arrays mapped from the files of an entry, the hash of their content, and a checksum of both."""

    arrays: Arrays
    content: str
    checksum: str = ""


def folder_name(name: str, key: str) -> str:
    """Return the name of the folder in which the entry of `key` lies."""
    return f"{name}-{_hash(os.fsencode(f'{FORMAT}/{key}'))}"


def _hash(*parts: bytes | memoryview) -> str:
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def content_hash(arrays: Arrays) -> str:
    """Return the hash of arrays by which data sets and partitions are known, with BLAKE2."""
    return _hash(*_parts(arrays))


def _checksum(arrays: Arrays, content: str) -> str:
    """Return the checksum that shows damage: with XXH3 it costs some 30 ms for CIFAR-10, with BLAKE2 ten times that."""
    digest = xxhash.xxh3_128(content.encode())
    for part in _parts(arrays):
        digest.update(part)
    return digest.hexdigest()


def _parts(arrays: Arrays) -> Iterator[bytes | memoryview]:
    for name, array in sorted(arrays.items()):
        yield f"{name} {array.dtype.str} {array.shape}\n".encode()
        yield np.ascontiguousarray(array).data


def read(root: Path, place: str, key: str = "") -> Entry:
    """Return the entry in a folder of the cache `root`; with a key, only if the entry is of that key.

    Raises
    ------
    Exception
        Of any kind, if a file is missing, damaged or not ours.
    """
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
    """Return the array of an open .npy file, mapped, as `np.load` maps the array of a path."""
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("it is of another format")
    shape, is_by_columns, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.hasobject:
        raise ValueError("it holds objects")
    order: Any = "F" if is_by_columns else "C"
    return np.memmap(file, dtype, "r", offset=file.tell(), shape=shape, order=order)


def compare(entry: Entry) -> None:
    """Raise ValueError if the content of an entry is not what was written; older entries have only the slower hash."""
    found = _checksum(entry.arrays, entry.content) if entry.checksum else content_hash(entry.arrays)
    if found != (entry.checksum or entry.content):
        raise ValueError("its content is not what was written")


def write(folder: Path, key: str, arrays: Arrays) -> None:
    """Write an entry into an empty folder, synced to the disk."""
    for name, array in arrays.items():
        with open(folder / f"{name}.npy", "wb", opener=_not_for_others) as file:
            np.save(file, array, allow_pickle=False)
            os.fsync(file.fileno())
    content = content_hash(arrays)
    entry = {
        "key": key,
        "content": content,
        "checksum": _checksum(arrays, content),
        "arrays": {name: [a.dtype.str, list(a.shape)] for name, a in arrays.items()},
    }
    with open(folder / "entry.json", "w", encoding="utf-8", opener=_not_for_others) as text:
        json.dump(entry, text, indent=1)
        text.flush()
        os.fsync(text.fileno())


def _not_for_others(name: str, flags: int) -> int:
    """Open a file that no other user may write to, whatever the process's umask."""
    return os.open(name, flags, 0o644)
