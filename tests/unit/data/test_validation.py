"""The rows that choose: drawn from the test part, or the data set's own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from fedlearn.core.errors import SettingError, UsageError
from fedlearn.data import from_any
from fedlearn.data.encoded_tables import load_schema_file
from fedlearn.data.rows_of_nodes import PartitionTable, measured_on
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


def test_each_node_may_have_validation_rows_and_none_of_them_is_a_test_row():
    def node(first):
        return {"train": part(first, 6), "validation": part(first + 10, 3), "test": part(first + 20, 4)}

    data = from_any({"west": node(0), "east": node(100)})
    assert (len(data.train), data.validation) == (12, 6)
    assert numbers(measured_rows(data.test, 0.5, own=data.validation)) == [10.0, 11.0, 12.0, 110.0, 111.0, 112.0]
    assert min(numbers(measured_rows(data.test, 0.5, own=data.validation, once=True))) == 20.0
    table = PartitionTable(np.arange(12, dtype=np.int32), np.array([0, 6, 12]), by_group=True)
    assert measured_on(data, table, 1).inputs[:, 0].tolist() == [120.0, 121.0, 122.0, 123.0]
    with pytest.raises(UsageError, match="client 'east' has no validation rows, and others have"):
        from_any({"west": node(0), "east": {"train": part(0, 6), "test": part(20, 4)}})


def table_of(folder, **files):
    """Write a declaration and tables of one column, of the rows from each number on; return the declaration."""
    for name, first in {"data": 0, "validation": 100, "test": 200}.items():
        rows = [f"{number},{'no' if number % 2 else 'yes'}" for number in range(first, first + 6)]
        (folder / f"{name}.csv").write_text("\n".join(["x,y", *rows, "7,perhaps"]))
    lines = [f"{part} = {name!r}" for part, name in files.items()]
    declared = ["target = 'y'", "classes = ['no', 'yes']", "bounds = { x = [0, 300] }"]
    (folder / "t.toml").write_text("\n".join([*lines, *declared]))
    return folder / "t.toml"


FILES = {"data": "data.csv", "validation": "validation.csv", "test": "test.csv"}


def arrays_of(folder, **files):
    for name, first in {"data": 0, "validation": 100, "test": 200}.items():
        X, y = part(first, 6)
        np.savez(folder / f"{name}.npz", X=X, y=y)
    lines = [f"{part} = {name.replace('csv', 'npz')!r}" for part, name in files.items()]
    (folder / "a.toml").write_text("\n".join([*lines, "classes = 2"]))
    return folder / "a.toml"


@pytest.mark.parametrize("declared", [table_of, arrays_of])
def test_a_declaration_names_public_validation_rows(declared, tmp_path):
    data = load_schema_file(declared(tmp_path, **FILES))
    assert (len(data.train), data.validation, data.test_is_public) == (6, 6, True)
    for once, first in ((False, 100.0), (True, 200.0)):
        assert numbers(measured_rows(data.test, 0.3, own=data.validation, once=once))[0] == first
    assert "validation." in data.notice and "holds validation rows" in data.notice
    plain = load_schema_file(declared(tmp_path, data="data.csv", test="test.csv"))
    assert (plain.validation, len(plain.test), plain.notice) == (0, 6, "")
    for files, why in (
        ({"data": "data.csv", "validation": "validation.csv"}, "validation: its rows choose, .*declare test = FILE"),
        ({**FILES, "validation": "test.csv"}, "validation = .*neither trained on nor reported"),
        ({**FILES, "validation": "other.csv"}, "there is no file"),
    ):
        with pytest.raises(UsageError, match=why):
            load_schema_file(declared(tmp_path, **files))
    declared(tmp_path, **FILES)
    (tmp_path / "validation.csv").write_text("x,y\n7,perhaps\n")
    np.savez(tmp_path / "validation.npz", X=part(0, 2)[0], y=np.array([2, 3]))
    with pytest.raises(UsageError, match=r"validation\..* (is as declared: validation rows are to choose|X is empty)"):
        load_schema_file(tmp_path / ("t.toml" if declared is table_of else "a.toml"))


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
