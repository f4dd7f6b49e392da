"""Rows as people have them, against a preparation that is written out here."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image

from fedlearn.core.errors import UsageError
from fedlearn.data.data_spec import DataSpec, TableSchema
from fedlearn.predicting import Preparation
from fedlearn.predicting.lost import Lost

PEOPLE = TableSchema(
    "sick", {"age": (0, 100), "income": (1, 1000, "log")}, {"job": ("clerk", "7", "True")}, classes=("no", "yes")
)
DECLARED = Preparation(DataSpec("people", (3,), "float64", classes=2, table=PEOPLE, class_names=("no", "yes")))
PLAIN = Preparation(DataSpec("rows", (2,), "float32", classes=2, feature_names=("a", "b")))
GREY = Preparation(DataSpec("grey", (4, 5, 1), "uint8", classes=2))
COLORED = Preparation(DataSpec("colored", (4, 5, 3), "uint8", classes=2))
ROWS = [
    {"job": "clerk", "age": 50, "income": 10.0, "id": "a"},
    {"job": None, "age": None, "income": 5000, "id": "b"},
    {"job": "pilot", "age": -5, "income": 1.0, "id": "c"},
]
CODES = [[50, 10, 0], [math.nan, 5000, math.nan], [-5, 1, math.nan]]
INPUTS = [[0, 2 * math.log(10) / math.log(1000) - 1, 1, 0, 0], [0, 1, 0, 0, 0], [-1, -1, 0, 0, 0]]
FORMS = {
    "dicts": lambda: ROWS,
    "dict of lists": lambda: {name: [row[name] for row in ROWS] for name in ("income", "age", "id", "job")},
    "frame": lambda: pd.DataFrame(ROWS),
    "categories of pandas": lambda: pd.DataFrame(ROWS).astype({"job": "category"}),
    "frame of arrow": lambda: pa.Table.from_pylist(ROWS),
    "lists in order": lambda: [[row["age"], row["income"], row["job"]] for row in ROWS],
    "array of codes": lambda: np.array(CODES),
    "texts and numbers in one column": lambda: pd.DataFrame(ROWS).astype({"age": object}).assign(age=["50", None, -5]),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_a_declared_table_in_any_form_are_scaled_and_encoded(form):
    np.testing.assert_array_equal(DECLARED.arrays(FORMS[form]()), CODES)
    np.testing.assert_allclose(DECLARED.inputs(FORMS[form]()).numpy(), INPUTS, atol=1e-6)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".csv.gz"])
def test_a_file_of_rows_is_the_frame(tmp_path, ending):
    path, frame = tmp_path / f"rows{ending}", pd.DataFrame(ROWS)[["id", "income", "job", "age"]]
    frame.to_parquet(path) if ending == ".parquet" else frame.to_csv(path, index=False)
    np.testing.assert_array_equal(DECLARED.arrays(path), CODES)


@pytest.mark.parametrize(("job", "code"), [(7, 1), (7.0, 1), (" clerk ", 0), (True, 2), ("Clerk", math.nan)])
def test_a_category_is_known_by_its_text(job, code):
    for rows in ({"age": 1, "income": 1, "job": job}, pd.Series({"age": 1, "income": 1, "job": job})):
        np.testing.assert_array_equal(DECLARED.arrays(rows), [[1, 1, code]])


def test_cells_that_are_not_as_declared_are_counted_and_missing_ones_are_not():
    lost = Lost()
    for _ in range(2):
        DECLARED.arrays([*ROWS, {"job": "NA", "age": "old", "income": None}], lost=lost)
    assert lost.lines == [
        "column 'age': 2 cells are no numbers ('old'): they count as missing",
        "column 'age': 2 cells are outside the declared range ('-5'): they count as its ends",
        "column 'income': 2 cells are outside the declared range ('5000'): they count as its ends",
        "column 'job': 2 cells are none of the declared categories ('pilot'): they count as missing",
    ]


def test_columns_of_numbers_are_found_by_name_and_holes_are_refused(tmp_path):
    frame = pd.DataFrame({"more": ["x", "y"], "b": [1.5, 2.5], "a": [3, 4]})
    wanted = np.array([[3, 1.5], [4, 2.5]], np.float32)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for rows in (frame, tmp_path / "rows.csv", frame[["b", "a"]].to_dict("records"), wanted.tolist()):
        np.testing.assert_array_equal(PLAIN.arrays(rows), wanted)

    assert Preparation.read(PLAIN.save(tmp_path / "p.json")) == PLAIN
    with pytest.raises(UsageError, match=r"rows.csv, line 3, column 'a': no value"):
        frame.assign(a=[3, None]).to_csv(tmp_path / "rows.csv", index=False)
        PLAIN.arrays(tmp_path / "rows.csv")
    with pytest.raises(UsageError, match="the frame has no column 'a'; it has 'more', 'b'"):
        PLAIN.arrays(frame.drop(columns="a"))
    with pytest.raises(UsageError, match="column 'a': 'x' is no number"):
        PLAIN.arrays({"a": "x", "b": 1})


def picture(mode, size=(5, 4)):
    return Image.fromarray(np.arange(20 * len(mode), dtype=np.uint8).reshape(4, 5, -1).squeeze()).resize(size)


def test_pictures_get_size_and_channels_of_the_run(tmp_path):
    grey, colored = picture("L"), picture("RGB")
    grey.save(tmp_path / "b.png")
    colored.save(tmp_path / "a.png")
    both = COLORED.arrays(tmp_path)
    np.testing.assert_array_equal(both[0], np.asarray(colored))
    np.testing.assert_array_equal(both[1], np.asarray(grey)[..., None].repeat(3, axis=2))
    np.testing.assert_array_equal(COLORED.arrays([colored, str(tmp_path / "b.png")]), both)
    scaled = COLORED.arrays([colored.resize((10, 8))])
    np.testing.assert_array_equal(scaled[0], colored.resize((10, 8)).resize((5, 4), Image.Resampling.BILINEAR))
    with pytest.raises(UsageError, match="pictures in color, and the run has learned from grey ones"):
        GREY.arrays([colored])


def test_texts_are_letters_of_the_classes():
    letters = Preparation(DataSpec("l", (3,), "int32", classes=3, vocabulary=3, class_names=("a", "b", "\ufffd")))
    np.testing.assert_array_equal(letters.arrays(["abz", "bba"]), [[0, 1, 2], [1, 1, 0]])
    with pytest.raises(UsageError, match="row 1: 2 letters: the model takes texts of 3"):
        letters.arrays(["abz", "bb"])
    with pytest.raises(UsageError, match="tokens of your own"):
        Preparation(DataSpec("t", (3,), "int32", classes=2, vocabulary=9)).arrays(["abc"])
