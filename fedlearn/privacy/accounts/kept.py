"""Results of accounts, kept in memory and in the project's cache folder: each takes seconds to compute.

A file is read only where no other user can have written it (`fedlearn.cache.trusted`): a noise multiplier that somebody
made smaller would protect less in silence. A file that does not say exactly the key is computed anew.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import cache
from hashlib import sha256

from fedlearn.cache.trusted import cache_folder, open_ours
from fedlearn.plugins.extras import version_of

FOLDER = "accounts"
FORMAT = 1  # to be raised with each change of the computation
_memory: dict[Hashable, bytes] = {}


def kept(key: Hashable, compute: Callable[[], float]) -> float:
    """Return the number that was kept for a key; else compute it and keep it, on disk where there is room.

    >>> kept(("doctest", 1), lambda: 2.5)
    2.5
    """
    with suppress(ValueError):
        value = float(kept_bytes(key, lambda: repr(compute()).encode()))
        if math.isfinite(value) and value >= 0:
            return value
    return compute()


def kept_bytes(key: Hashable, compute: Callable[[], bytes]) -> bytes:
    """Return the bytes that were kept for a key; else compute them and keep them."""
    if key not in _memory:
        words = f"{FORMAT} {_library()} {key!r}".encode()
        found = _read(words)
        if found is None:
            _write(words, found := compute())
        _memory[key] = found
    return _memory[key]


@cache
def _library() -> str:
    return version_of("dp_accounting")


def _name(words: bytes) -> str:
    return f"{sha256(words).hexdigest()[:24]}.kept"


def _read(words: bytes) -> bytes | None:
    with suppress(OSError):
        folder = cache_folder()
        if folder is not None:
            with open_ours(folder, FOLDER, _name(words)) as file:
                whole = file.read()
            head, _, value = whole.partition(b"\n")
            if head == words + b" " + sha256(value).hexdigest().encode():
                return value
    return None


def _write(words: bytes, value: bytes) -> None:
    with suppress(OSError):
        folder = cache_folder()
        if folder is None:
            return
        (folder / FOLDER).mkdir(mode=0o700, exist_ok=True)
        aside = folder / FOLDER / f".{_name(words)}.{os.getpid()}"
        with open(aside, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(words + b" " + sha256(value).hexdigest().encode() + b"\n" + value)
        aside.replace(folder / FOLDER / _name(words))
