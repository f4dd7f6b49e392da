from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedlearn.data import Dataset, Examples, TableSchema

IMAGES = Examples(np.zeros((2, 4, 4, 3), np.uint8), np.array([0, 1]))
ROWS = Examples(np.array([[17.0], [50.0]]), np.array([0, 1]))
SCHEMA = TableSchema("adult", {"age": (0, 120)}, classes=("no", "yes"))


@dataclass(frozen=True, eq=False, repr=False)
class Scanned(Dataset):
    """A user's own kind of data set: another field, and a method."""

    hospital: str = ""

    def where(self):
        return f"{self.name} of {self.hospital}"


class Named(Dataset):
    """A user's own kind without another field."""


def scans(**given):
    return Scanned("scans", IMAGES, IMAGES, 2, (0.5,), (0.2,), "scans-1", **given)


@pytest.mark.parametrize(
    "data", [scans(hospital="north"), Scanned.of_table("t", ROWS, ROWS, SCHEMA, "1", hospital="north")]
)
def test_a_users_kind_of_data_set_is_pickled_with_what_it_adds(data):
    found = pickle.loads(pickle.dumps(data))
    assert type(found) is Scanned and found.where() == f"{data.name} of north"
    assert found.spec == data.spec and repr(found) == repr(data)
    np.testing.assert_array_equal(found.train.inputs, data.train.inputs)


def test_a_users_kind_without_a_field_is_pickled_as_itself():
    found = pickle.loads(pickle.dumps(Named("named", IMAGES, IMAGES, 2, (), (), "named-1")))
    assert type(found) is Named and len(found.train) == 2


def test_a_pickle_holds_no_example():
    many = Examples(np.zeros((1000, 8, 8, 1), np.uint8), np.zeros(1000, np.int64))
    assert len(pickle.dumps(Dataset("many", many, many, 2, (), (), "many-1"))) < 1000


def test_a_table_has_the_classes_of_its_schema():
    found = Dataset.of_table("ages", ROWS, ROWS, SCHEMA, "1")
    assert (found.num_classes, found.spec.class_names, found.spec.table) == (2, ("no", "yes"), SCHEMA)
    assert pickle.loads(pickle.dumps(found)).schema == SCHEMA


def test_other_classes_than_those_of_the_schema_are_refused():
    with pytest.raises(ValueError, match=r"those of the schema: use Dataset\.of_table"):
        replace(scans(), schema=SCHEMA)


def test_whether_test_rows_are_public_is_left_open_unless_it_is_said():
    assert scans().test_is_public is None
    assert Dataset.of_table("ages", ROWS, ROWS, SCHEMA, "1").test_is_public is False
