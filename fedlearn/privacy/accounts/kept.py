"""Results of accounts, kept in memory and in the project's cache folder: each takes seconds to compute.

A file is read only where no other user can have written it (`fedlearn.cache.trusted`): a noise multiplier that somebody
made smaller would protect less in silence. A file that does not say exactly the key is computed anew.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version

from fedlearn.cache.trusted import cache_folder, open_ours

FOLDER = "accounts"
FORMAT = 1  # to be raised with each change of the computation
_memory: dict[Hashable, float] = {}


def kept(key: Hashable, compute: Callable[[], float]) -> float:
    """Return the number that was kept for a key; else compute it and keep it, on disk where there is room.

    >>> kept(("doctest", 1), lambda: 2.5)
    2.5
    """
    if key not in _memory:
        words = f"{FORMAT} {_library()} {key!r}"
        found = _read(words)
        if found is None:
            _write(words, found := compute())
        _memory[key] = found
    return _memory[key]


@cache
def _library() -> str:
    return version("dp-accounting")


def _name(words: str) -> str:
    return f"{sha256(words.encode()).hexdigest()[:24]}.json"


def _read(words: str) -> float | None:
    with suppress(OSError, ValueError, TypeError, KeyError):
        folder = cache_folder()
        if folder is not None:
            with open_ours(folder, FOLDER, _name(words)) as file:
                plain = json.loads(file.read())
            value = float(plain["value"])
            if plain["key"] == words and math.isfinite(value) and value >= 0:
                return value
    return None


def _write(words: str, value: float) -> None:
    with suppress(OSError):
        folder = cache_folder()
        if folder is None or not math.isfinite(value):
            return
        (folder / FOLDER).mkdir(mode=0o700, exist_ok=True)
        aside = folder / FOLDER / f".{_name(words)}.{os.getpid()}"
        with open(aside, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            json.dump({"key": words, "value": value}, file)
        aside.replace(folder / FOLDER / _name(words))
