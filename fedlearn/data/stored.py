"""Data sets as they lie in the cache: kept once, mapped by every process, pickled as the places of their arrays."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from fedlearn.cache.trusted import named_cache
from fedlearn.data.base import AnyDataset, Dataset, Examples
from fedlearn.data.cache import Arrays, cached, entry_at, place_of
from fedlearn.data.drawing import share_held_out
from fedlearn.words.errors import DataNotFound, UsageError

ABOUT = "about"  # array with the JSON text of what a data set's arrays do not say
PARTS = ("train", "test")
MOST_NAMES = 10_000  # of columns

Facts = Mapping[str, Any]
"""Fields of `Dataset` that JSON can hold: num_classes, mean, std, vocabulary, class_names, group_names."""


def arrays_of(train: Examples, test: Examples) -> dict[str, NDArray[Any]]:
    """Return examples as named arrays."""
    arrays: dict[str, NDArray[Any]] = {}
    for part, examples in zip(PARTS, (train, test), strict=True):
        arrays |= {f"{part}_inputs": examples.inputs, f"{part}_targets": examples.targets}
        if examples.groups is not None:
            arrays[f"{part}_groups"] = examples.groups
    return arrays


def examples_in(arrays: Arrays) -> tuple[Examples, Examples]:
    """Return the training and the test examples of named arrays."""
    train, test = (
        Examples(arrays[f"{part}_inputs"], arrays[f"{part}_targets"], arrays.get(f"{part}_groups")) for part in PARTS
    )
    return train, test


def kept(name: str, train: Examples, test: Examples, facts: Facts) -> Dataset:
    """Return the data set of these examples, mapped from the cache; its key there is the hash of what it holds."""
    arrays = with_facts(train, test, facts)
    return dataset_at(name, "arrays", _hash(arrays), lambda: arrays)


def dataset_at(name: str, kind: str, key: str, make: Callable[[], Arrays]) -> Dataset:
    """Return a data set from the cache, where `make`, which returns what `with_facts` does, is called if it must be.

    Parameters
    ----------
    kind, key
        As `name` and `key` of `cached`.
    """
    entry = cached(kind, key if share_held_out(1.0) else f"{key}\nnothing held out", make)
    facts = json.loads(entry.arrays[ABOUT].tobytes())
    lists = {name: tuple(value) for name, value in facts.items() if isinstance(value, list)}
    train, test = examples_in(entry.arrays)
    return Dataset(name, train, test, fingerprint=entry.content, **{**facts, **lists})


def with_facts(train: Examples, test: Examples, facts: Facts) -> Arrays:
    """Return the arrays of an entry that `dataset_at` reads."""
    text = json.dumps(facts, sort_keys=True).encode()
    return {**arrays_of(train, test), ABOUT: np.frombuffer(text, np.uint8)}


def named_columns(names: Sequence[object]) -> Facts:
    """Return the fact of what columns are called; none of numbers, and of more names than should travel with a spec."""
    are_names = names and len(names) <= MOST_NAMES and all(isinstance(name, str) for name in names)
    return {"feature_names": tuple(names)} if are_names else {}


def packed(dataset: AnyDataset) -> tuple[Any, ...]:
    """Return how pickle makes a data set again: where its arrays lie, and all else by value; or how it is made."""
    if dataset.made is not None:
        return dataset.made.again, ()
    arrays = arrays_of(dataset.train, dataset.test)
    places = {name: place_of(array) for name, array in arrays.items()}
    if homeless := {name: arrays[name] for name, place in places.items() if place is None}:
        entry = cached("arrays", _hash(homeless), lambda: homeless)
        places |= {name: place_of(entry.arrays[name]) for name in homeless}
    if None in places.values():
        raise UsageError(
            f"the data set {dataset.name!r} cannot be given to other processes, as no cache folder can be written to: "
            "set FEDLEARN_CACHE to one that is yours"
        )
    values = {each.name: getattr(dataset, each.name) for each in fields(dataset) if each.name not in PARTS}
    return unpacked, (type(dataset), places, values)


def unpacked(kind: type[AnyDataset], places: Mapping[str, tuple[str, str]], values: dict[str, Any]) -> AnyDataset:
    """Return a data set whose arrays lie in this machine's cache.

    Raises
    ------
    DataNotFound
        Where they do not.
    """
    entries = {folder: entry_at(folder) for folder, _ in places.values()}
    if None in entries.values():
        raise DataNotFound(
            f"the data set {values['name']!r} is not in the cache folder {named_cache()}: given as an object, it is "
            "found only on the machine that made it; name it by a path or module:callable, or set FEDLEARN_CACHE"
        )
    arrays = {name: entry.arrays[array] for name, (at, array) in places.items() if (entry := entries[at])}
    train, test = examples_in(arrays)
    return kind(train=train, test=test, **values)


def _hash(arrays: Arrays) -> str:
    digest = xxhash.xxh3_128()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
