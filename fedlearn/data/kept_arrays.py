"""Data sets whose arrays and facts lie in the cache: kept once, mapped by every process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from secrets import token_hex

import numpy as np

from fedlearn.data.cache import cached
from fedlearn.data.data_spec import Examples, Facts
from fedlearn.data.dataset import Dataset
from fedlearn.data.drawing import reading_key
from fedlearn.data.entries import Arrays
from fedlearn.data.packed_examples import arrays_of, examples_in, hash_of

ABOUT = "about"  # array with the JSON text of the facts
LATER = ("hides",)  # facts that came later: where they say nothing, the hash is that of earlier versions


def kept(name: str, train: Examples, test: Examples, facts: Facts) -> Dataset:
    """Return the data set of these examples, mapped from the cache, where its key is the hash of arrays and facts."""
    arrays = with_facts(train, test, facts)
    return dataset_at(name, "arrays", hash_of(arrays), lambda: arrays)


def without_fingerprint(given: Dataset) -> Dataset:
    """Return a data set whose arrays lie in the cache under a random name, so that no name of it is a hash of them.

    Whoever knows all rows but one cell would find the cell by trying, from a hash that a run folder holds.
    """
    name = token_hex(16)
    entry = cached("private", name, lambda: dict(arrays_of(given.train, given.test)))
    train, test = examples_in(entry.arrays)
    return replace(given, train=train, test=test, fingerprint=name)


def dataset_at(name: str, kind: str, key: str, make: Callable[[], Arrays]) -> Dataset:
    """Return a data set from the cache; if it is not there, make it.

    Parameters
    ----------
    kind, key
        As `name` and `key` of `cached`.
    make
        Returns examples and facts as `with_facts` does.
    """
    entry = cached(kind, f"{key}{reading_key()}", make)
    facts = json.loads(entry.arrays[ABOUT].tobytes())
    lists = {name: tuple(value) for name, value in facts.items() if isinstance(value, list)}
    train, test = examples_in(entry.arrays)
    return Dataset(name, train, test, fingerprint=entry.content, **{**facts, **lists})


def with_facts(train: Examples, test: Examples, facts: Facts) -> Arrays:
    """Return examples and facts as the arrays of an entry, which `dataset_at` reads."""
    said = {name: fact for name, fact in facts.items() if fact or name not in LATER}
    text = json.dumps(said, sort_keys=True).encode()
    return {**arrays_of(train, test), ABOUT: np.frombuffer(text, np.uint8)}
