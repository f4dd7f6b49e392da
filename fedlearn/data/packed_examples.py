"""Examples as named arrays in the cache; pickled, they are the places of these arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from fedlearn.cache.trusted import named_cache
from fedlearn.core.errors import DataNotFound, UsageError
from fedlearn.data.cache import cached, entry_at, place_of
from fedlearn.data.data_spec import Examples
from fedlearn.data.entries import Arrays

PARTS = ("train", "test")

Places = Mapping[str, tuple[str, str]]
"""Name of an array -> the folder of its entry in the cache, and its name in that entry."""


def arrays_of(train: Examples, test: Examples) -> Arrays:
    """Return examples as named arrays."""
    arrays: dict[str, NDArray[Any]] = {}
    for part, examples in zip(PARTS, (train, test), strict=True):
        arrays |= {f"{part}_inputs": examples.inputs, f"{part}_targets": examples.targets}
        if examples.groups is not None:
            arrays[f"{part}_groups"] = examples.groups
    return arrays


def examples_in(arrays: Arrays) -> tuple[Examples, Examples]:
    """Return the training and the test examples that named arrays hold."""
    train, test = (
        Examples(arrays[f"{part}_inputs"], arrays[f"{part}_targets"], arrays.get(f"{part}_groups")) for part in PARTS
    )
    return train, test


def places_of(name: str, train: Examples, test: Examples) -> Places:
    """Return where the cache keeps the arrays of examples; an array that is not in the cache is put there.

    Parameters
    ----------
    name
        Name of the data set, for the error.

    Raises
    ------
    UsageError
        If no cache folder can be written to.
    """
    arrays = arrays_of(train, test)
    found = {each: place_of(array) for each, array in arrays.items()}
    if absent := {each: arrays[each] for each, place in found.items() if place is None}:
        entry = cached("arrays", hash_of(absent), lambda: absent)
        found |= {each: place_of(entry.arrays[each]) for each in absent}
    places = {each: place for each, place in found.items() if place is not None}
    if len(places) < len(found):
        raise UsageError(
            f"the data set {name!r} cannot be given to other processes, as no cache folder can be written to: "
            "set FEDLEARN_CACHE to one that is yours"
        )
    return places


def examples_at(name: str, places: Places) -> tuple[Examples, Examples]:
    """Return the training and the test examples whose arrays lie at these places of this machine's cache.

    Parameters
    ----------
    name
        Name of the data set, for the error.

    Raises
    ------
    DataNotFound
        If an entry is not in the cache.
    """
    entries = {folder: entry_at(folder) for folder, _ in places.values()}
    if None in entries.values():
        raise DataNotFound(
            f"the data set {name!r} is not in the cache folder {named_cache()}: given as an object, it is "
            "found only on the machine that made it; name it by a path or module:callable, or set FEDLEARN_CACHE"
        )
    return examples_in({each: entry.arrays[array] for each, (at, array) in places.items() if (entry := entries[at])})


def hash_of(arrays: Arrays) -> str:
    """Return the hash of arrays: of their names, kinds of numbers, shapes and values."""
    digest = xxhash.xxh3_128()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
