"""The rows that choose: drawn from the test part, or the data set's own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from fedlearn.core.errors import SettingError
from fedlearn.data import from_any
from fedlearn.data.partitions import PartitionTable, measured_on
from fedlearn.data.sources.image_folder import from_folder
from fedlearn.data.validation import measured_rows


def part(first, count):
    """Return rows whose only column numbers them, of two classes."""
    return np.arange(first, first + count, dtype=np.float32)[:, None], np.arange(count) % 2


def numbers(rows):
    return rows.at(0, len(rows)).inputs[:, 0].tolist()


def test_validation_part_of_the_data_is_taken_whole_and_measured_only_where_it_is_wanted():
    data = from_any({"train": part(0, 6), "validation": part(10, 3), "test": part(20, 4)})
    assert (len(data.train), data.validation) == (6, 3)
    assert "part 'validation' holds validation rows" in data.notice
    measured = [
        numbers(measured_rows(data.test, share, own=data.validation, once=once))
        for share in (0.0, 0.5)
        for once in (False, True)
    ]
    tests = [20.0, 21.0, 22.0, 23.0]
    assert measured == [tests, tests, [10.0, 11.0, 12.0], tests]


def test_parts_of_a_library_have_validation_rows():
    datasets = pytest.importorskip("datasets")
    sizes = {"train": 6, "validation": 3, "test": 4}
    parts = {name: dict(zip(("x", "label"), part(0, size), strict=True)) for name, size in sizes.items()}
    data = from_any(
        datasets.DatasetDict(
            {name: datasets.Dataset.from_dict({**rows, "x": rows["x"][:, 0]}) for name, rows in parts.items()}
        )
    )
    assert (len(data.train), len(data.test), data.validation) == (6, 7, 3)


def test_validation_folder_lies_beside_the_test_folder(tmp_path):
    for place, (name, count) in enumerate({"train": 2, "val": 3, "test": 1}.items()):
        for kind in ("cat", "dog"):
            (tmp_path / name / kind).mkdir(parents=True)
            for number in range(count):
                picture = Image.fromarray(np.full((4, 4), 10 * place + number, np.uint8))
                picture.save(tmp_path / name / kind / f"{number}.png")
    data = from_folder(tmp_path)
    assert (len(data.train), len(data.test), data.validation) == (4, 8, 6)
    assert set(data.test.inputs[:6].ravel().tolist()) == {10, 11, 12}
    assert set(data.test.inputs[6:].ravel().tolist()) == {20}


def test_nodes_of_groups_measure_no_validation_rows():
    X, y = part(0, 4)
    split = {"X": X, "y": y, "groups": [0, 0, 1, 1]}
    tests = {"X_test": part(20, 4)[0], "y_test": y, "groups_test": [0, 1, 0, 1]}
    found = from_any({**split, **tests})
    table = PartitionTable(np.arange(4, dtype=np.int32), np.array([0, 2, 4]), by_group=True)
    assert measured_on(replace(found, validation=2), table, 1).inputs[:, 0].tolist() == [23.0]


def test_too_few_test_rows_are_refused():
    with pytest.raises(SettingError, match=r"validation_share = 0.5: the test set has 1 rows"):
        measured_rows(from_any((*part(0, 4), *part(4, 1))).test, 0.5)
