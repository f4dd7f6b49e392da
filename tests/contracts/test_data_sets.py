"""The contract of every data set: a true spec, training and test rows apart, the same bytes twice."""

from __future__ import annotations

import json
import os
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fedlearn.config.tables.data import DataSettings
from fedlearn.core.errors import SettingError
from fedlearn.data import DATASETS, from_arrays, load_dataset, partition_table
from tests.unit.data.conftest import CifarFiles

FOLDER = os.environ.get("FEDLEARN_DATA", "")
# Those that are looked for in the data folder; all others are bundled, and must load without it and without a download.
FILES = {"cifar10": "cifar10/train.parquet", "california": "california_housing.parquet", "adult": "adult.parquet"}
NAMES = [name for name in DATASETS if not name.startswith("auto")]
LONG = {"cifar10"}  # decodes 60,000 images
FEW = "cifar10, few of its images"


def made(name, shape, kind, *, targets="classes", groups=None, **said):
    """Return a data set of 80 random examples, every class in both parts."""
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(80, *shape)) if kind == "float" else rng.integers(0, 40, (80, *shape), kind)
    to_learn = {
        "classes": np.arange(80) % 4,
        "names": np.array(["ant", "bee", "cat", "dog"])[np.arange(80) % 4],
        "numbers": rng.normal(size=80),
        "pairs": rng.normal(size=(80, 2)),
        "sequence": rng.integers(0, 40, (80, *shape)),
    }[targets]
    return from_arrays(inputs, to_learn, groups=groups, name=name, **said)


# What users bring; asked the same as those of the table.
OWN = {
    "own grey images": lambda name: made(name, (28, 20), "uint8"),
    "own colour images": lambda name: made(name, (3, 9, 9), "uint8", targets="names", channels="first"),
    "own pictures of five channels": lambda name: made(name, (7, 7, 5), "float"),
    "own rows": lambda name: made(name, (13,), "float", groups=np.arange(80) % 7),
    "own regression": lambda name: made(name, (13,), "float", targets="numbers"),
    "own two numbers": lambda name: made(name, (1,), "float", targets="pairs"),
    "own series": lambda name: made(name, (50, 3), "float", mean=(0.0, 1.0, 2.0), std=2.0),
    "own tokens": lambda name: made(name, (12,), "int64", groups=[f"writer {i % 5}" for i in range(80)]),
    "own sequences": lambda name: made(name, (12,), "int32", targets="sequence"),
}
# The table has the images.
MADE = {
    "synthetic rows": {"kind": "rows", "alpha": 0.5},
    "synthetic regression": {"kind": "rows", "classes": 0},
    "synthetic tokens": {"kind": "tokens"},
}


PARAMS = [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in (*NAMES, FEW, *OWN, *MADE)]


@pytest.fixture(scope="module", params=PARAMS)
def load(request, tmp_path_factory):
    """Return the function that loads it."""
    name = request.param
    if name in OWN:
        return partial(OWN[name], name)
    if name in MADE:
        return partial(load_dataset, "synthetic", "", options=json.dumps(MADE[name]))
    if name == FEW:
        folder = tmp_path_factory.mktemp("data")
        for part, number in (("train", 100), ("test", 30)):
            CifarFiles().write(folder / "cifar10" / f"{part}.parquet", [each % 10 for each in range(number)])
        return partial(load_dataset, "cifar10", str(folder))
    if name in FILES and not (Path(FOLDER) / FILES[name]).exists():
        pytest.skip(f"FEDLEARN_DATA does not hold {FILES[name]}")
    return partial(load_dataset, name, "", offline=True)


@pytest.fixture(scope="module")
def found(load):
    return load()


MANY = 1_000  # examples that are looked at, of a data set that is made when they are asked for


def train_of(found):
    """Return the training examples; of those that are made when they are asked for, the first."""
    return found.train.at(slice(0, MANY)) if found.made else found.train


def rows_of(examples):
    """Return each example with its label as bytes."""
    flat = np.ascontiguousarray(examples.inputs).reshape(len(examples), -1)
    return [row.tobytes() + target.tobytes() for row, target in zip(flat, examples.targets, strict=True)]


def test_spec_is_true_to_the_data(found):
    spec = found.spec
    for part in (train_of(found), found.test):
        assert (part.inputs.shape[1:], str(part.inputs.dtype)) == (spec.shape, spec.dtype)
        assert part.targets.shape[1:] == spec.target_shape
        assert (part.targets.dtype == np.int64) == bool(spec.classes)
    assert spec.name == found.name
    assert bool(spec.vocabulary) == (spec.dtype == "int32")
    assert len(spec.class_names) in (0, spec.classes)
    for constants in (spec.mean, spec.std):
        assert len(constants) in (0, spec.shape[-1])
        np.broadcast_to(constants or (0.0,), spec.shape)


def test_tokens_labels_and_targets_are_in_the_declared_range(found):
    for part in (train_of(found), found.test):
        if found.spec.vocabulary:
            assert 0 <= part.inputs.min() <= part.inputs.max() < found.spec.vocabulary
        if found.spec.classes:
            assert 0 <= part.targets.min() <= part.targets.max() < found.spec.classes
        elif found.spec.target_bounds:
            low, high = found.spec.target_bounds
            assert low <= part.targets.min() <= part.targets.max() <= high
        if found.spec.groups:
            assert 0 <= part.groups.min() <= part.groups.max() < found.spec.groups if part.groups is not None else True


def test_every_class_is_in_both_parts(found):
    if found.spec.classes and not found.spec.target_shape:  # a sequence may lack a letter
        for part in (train_of(found), found.test):
            assert set(np.unique(part.labels)) == set(range(found.spec.classes))


# Share of the test rows that are like some training row: answers that two people gave, a ruled line of a table.
TWICE = {"adult": 0.16, "topics": 0.005}


def test_training_and_test_rows_are_apart(found):
    train = set(rows_of(train_of(found)))
    shared = sum(row in train for row in rows_of(found.test))
    assert shared <= TWICE.get(found.name, 0) * len(found.test)


def test_loading_it_again_gives_the_same_bytes(load, found):
    again = load()
    assert again.fingerprint == found.fingerprint
    assert rows_of(again.test.at(slice(0, 50))) == rows_of(found.test.at(slice(0, 50)))
    assert len(again.train) == len(found.train)
    assert rows_of(again.train.at(slice(3, 50))) == rows_of(train_of(found).at(slice(3, 50)))


def test_it_travels_in_a_few_hundred_bytes(found):
    text = pickle.dumps(found)
    assert len(text) < 6_000
    again = pickle.loads(text)
    assert (again.spec, again.fingerprint, repr(again)) == (found.spec, found.fingerprint, repr(found))
    for part, same in ((train_of(again), train_of(found)), (again.test, found.test)):
        assert found.made or isinstance(part.inputs.base, np.memmap)  # the file of the cache, not a copy
        np.testing.assert_array_equal(part.inputs, same.inputs)
        np.testing.assert_array_equal(part.targets, same.targets)
        np.testing.assert_array_equal(part.groups, same.groups)


@pytest.mark.parametrize("scheme", ["iid", "dirichlet", "shard"])
def test_it_can_be_spread_over_nodes(found, scheme):
    if (found.spec.target_shape or found.made) and scheme != "iid":
        with pytest.raises(SettingError, match="client by client" if found.made else "it skews labels"):
            partition_table(found, DataSettings(partition=scheme), num_partitions=7, seed=3)
        return
    table = partition_table(found, DataSettings(partition=scheme), num_partitions=7, seed=3)
    rows = np.concatenate([table.indices(i) for i in range(7)])
    assert len(np.unique(rows)) == len(rows) <= len(found.train)
