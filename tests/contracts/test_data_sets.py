"""What every data set of the table keeps: a spec that is true, training and test rows apart, the same bytes twice."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from fedlearn.config.schema import DataSettings
from fedlearn.data import DATASETS, Dataset, load_dataset, partition_table

FOLDER = os.environ.get("FEDLEARN_DATA", "")
# Those that are looked for in the data folder; all others are bundled, and must load without it and without a download.
FILES = {"cifar10": "cifar10/train.parquet", "california": "california_housing.parquet", "adult": "adult.parquet"}
NAMES = [name for name in DATASETS if not name.startswith("auto")]


@pytest.fixture(scope="module", params=NAMES)
def found(request):
    name = request.param
    if name in FILES and not (Path(FOLDER) / FILES[name]).exists():
        pytest.skip(f"FEDLEARN_DATA does not hold {FILES[name]}")
    return load_dataset(name, "", offline=True)


def rows_of(examples):
    """Return each example with its label as bytes."""
    inputs = examples.images if hasattr(examples, "images") else examples.features
    targets = examples.labels if hasattr(examples, "images") else examples.targets
    flat = np.ascontiguousarray(inputs).reshape(len(inputs), -1)
    return [row.tobytes() + target.tobytes() for row, target in zip(flat, targets, strict=True)]


def test_spec_is_true_to_the_data(found):
    spec = found.spec
    for part in (found.train, found.test):
        inputs = part.images if spec.is_image else part.features
        assert (inputs.shape[1:], str(inputs.dtype)) == (spec.shape, spec.dtype)
    assert spec.name == found.name
    assert spec.is_image == isinstance(found, Dataset)
    assert bool(spec.classes) != bool(spec.target_bounds)


def test_labels_and_targets_are_in_the_declared_range(found):
    for part in (found.train, found.test):
        if found.spec.classes:
            targets = part.labels
            assert targets.min() >= 0
            assert targets.max() < found.spec.classes
        else:
            low, high = found.spec.target_bounds
            assert low <= part.targets.min()
            assert part.targets.max() <= high


def test_every_class_is_in_both_parts(found):
    if found.spec.classes:
        for part in (found.train, found.test):
            assert set(np.unique(part.labels)) == set(range(found.spec.classes))


TWICE = {"adult": 0.16}  # share of the test rows that are like some training row: answers that two people gave


def test_training_and_test_rows_are_apart(found):
    train = set(rows_of(found.train))
    shared = sum(row in train for row in rows_of(found.test))
    assert shared <= TWICE.get(found.name, 0) * len(found.test)


def test_loading_it_again_gives_the_same_bytes(found):
    again = load_dataset(found.name, "")
    assert again.fingerprint == found.fingerprint
    assert rows_of(again.test.at(slice(0, 50))) == rows_of(found.test.at(slice(0, 50)))
    assert len(again.train) == len(found.train)


@pytest.mark.parametrize("scheme", ["iid", "dirichlet", "shard"])
def test_it_can_be_spread_over_nodes(found, scheme):
    table = partition_table(found, DataSettings(partition=scheme), num_partitions=7, seed=3)
    rows = np.concatenate([table.indices(i) for i in range(7)])
    assert len(np.unique(rows)) == len(rows) <= len(found.train)
