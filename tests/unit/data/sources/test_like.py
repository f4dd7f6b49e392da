"""Other data for a trained model: classes and columns by their names, numbers of the same kind, or one line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedlearn.core.errors import UsageError
from fedlearn.data import Examples, from_arrays, from_table, from_torch
from fedlearn.data.data_spec import TableSchema
from fedlearn.data.dataset import Dataset
from fedlearn.data.sources.like import examples_like, held_out_like

GREY = from_arrays(np.zeros((10, 6, 4), np.uint8), np.arange(10) % 2).spec
COLOUR = from_arrays(np.zeros((10, 6, 4, 3), np.uint8), np.arange(10) % 2).spec
ROWS = from_arrays(pd.DataFrame(np.zeros((10, 2), np.float32), columns=["age", "hours"]), np.arange(10) % 2).spec
TOKENS = from_arrays(np.arange(20).reshape(10, 2), np.arange(10) % 2).spec


def message(call) -> str:
    with pytest.raises(UsageError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("given", [np.ones((3, 6, 4), np.uint8), np.ones((3, 6, 4, 1), np.int64), [[[1] * 4] * 6] * 3])
def test_grey_images_are_taken_as_from_arrays_takes_them(given):
    found = examples_like(GREY, given)
    assert (found.shape, found.dtype, found.max()) == ((3, 6, 4, 1), np.uint8, 1)


@pytest.mark.parametrize(
    ("spec", "given", "said"),
    [
        (GREY, np.ones((3, 6, 4), np.float32), "these are float32; numbers from 0 to 1 are (255 * x).round() as uint8"),
        (GREY, np.ones((3, 6, 4), bool), "these are bool"),
        (GREY, np.full((3, 6, 4), 256), "these hold 256 to 256: they go from 0 to 255"),
        (GREY, np.full((3, 6, 4), -1), "these hold -1 to -1"),
        (COLOUR, np.ones((3, 6, 4), np.uint8), "uint8 of shape (n, 6, 4, 3): these have shape (3, 6, 4)"),
        (COLOUR, np.ones((3, 3, 6, 4), np.uint8), "put the channels last"),
        (COLOUR, np.ones((6, 4, 3), np.uint8), "these have shape (6, 4, 3)"),
        (COLOUR, 3, "these have shape ()"),
        (ROWS, np.array([["a", "b"]]), "these are <U1: give numbers"),
        (TOKENS, np.array([[0, 20]]), "these hold 0 to 20: they go from 0 to 19"),
        (TOKENS, np.array([[0.0, 1.0]]), "give tokens"),
    ],
)
def test_inputs_of_another_kind_are_refused_in_one_line(spec, given, said):
    assert said in message(lambda: examples_like(spec, given))


def test_columns_of_a_frame_are_found_by_their_names():
    frame = pd.DataFrame({"hours": [1.0, 2.0], "age": [3.0, 4.0]})
    np.testing.assert_array_equal(examples_like(ROWS, frame), [[3, 1], [4, 2]])
    assert "has no column 'hours'" in message(lambda: examples_like(ROWS, frame.rename(columns={"hours": "time"})))
    assert "has a column 'more'" in message(lambda: examples_like(ROWS, frame.assign(more=1)))


def animals(names, kinds):
    """Return data whose one pixel says the animal."""
    order = ["ant", "cat", "dog", "fox", "owl"]
    X = np.array([[[order.index(kind)]] for kind in kinds], np.uint8)
    return from_arrays(X, np.array(kinds), X, np.array(kinds), classes=names)


def test_classes_are_those_of_the_same_names():
    ours = animals(("ant", "cat", "dog", "fox", "owl"), ["ant", "cat", "dog", "fox", "owl"])
    other = held_out_like(ours.spec, animals(("dog", "fox", "owl"), ["owl", "dog", "fox"]))
    np.testing.assert_array_equal(other.targets, other.inputs.ravel())


def test_a_class_that_was_not_learned_is_named():
    ours, other = animals(("ant", "cat"), ["ant", "cat"]), animals(("ant", "dog"), ["ant", "dog"])
    assert "its class 'dog' is none of 'ant', 'cat'" in message(lambda: held_out_like(ours.spec, other))


def test_more_numbers_than_were_learned_are_refused():
    ours, other = (from_arrays(np.zeros((9, 2)), np.arange(9) % count) for count in (2, 3))
    assert "it has 3 classes, and the run's 2" in message(lambda: held_out_like(ours.spec, other))


def test_a_regression_is_no_classification():
    ours, other = from_arrays(np.zeros((9, 2)), np.arange(9) % 2), from_arrays(np.zeros((9, 2)), np.arange(9) / 2)
    assert "it is a regression, and the run has learned a classification" in message(
        lambda: held_out_like(ours.spec, other)
    )


def test_columns_of_another_table_are_found_by_their_names(tmp_path):
    for name, head, row in (("ours", "age,hours,y", "{0},{1},{2}"), ("theirs", "hours,y,age", "{1},{2},{0}")):
        lines = [row.format(i, 100 + i, "ab"[i % 2]) for i in range(10)]
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *lines]) + "\n")
    ours, theirs = (from_table(tmp_path / f"{name}.csv", target="y") for name in ("ours", "theirs"))
    np.testing.assert_array_equal(held_out_like(ours.spec, theirs).inputs, ours.test.inputs)


def test_columns_and_categories_of_a_declared_table_are_found_by_their_names():
    def table(bounds, jobs, rows):
        schema = TableSchema("y", dict.fromkeys(bounds, (0, 9)), {"job": jobs}, classes=("a", "b"))
        some = Examples(np.array(rows, np.float64), np.array([0, 1]))
        return Dataset.of_table("t", some, some, schema, "")

    ours = table(("age", "hours"), ("clerk", "farmer"), [[1, 2, 0], [3, 4, 1]])
    theirs = table(("hours", "age"), ("farmer", "cook", "clerk"), [[2, 1, 2], [4, 3, 1]])
    np.testing.assert_array_equal(held_out_like(ours.spec, theirs).inputs, [[1, 2, 0], [3, 4, np.nan]])


# --- training and test examples of one data set -----------------------------------------------------------------------


def test_a_test_frame_with_its_columns_in_another_order_is_put_in_ours():
    frame = pd.DataFrame({"age": np.arange(10.0), "hours": np.arange(10.0) + 100})
    found = from_arrays(frame, np.arange(10) % 2, frame[["hours", "age"]], np.arange(10) % 2)
    np.testing.assert_array_equal(found.test.inputs, found.train.inputs)
    assert found.spec.feature_names == ("age", "hours")


def test_a_test_frame_with_other_columns_is_refused():
    frame = pd.DataFrame({"age": np.arange(10.0), "hours": np.arange(10.0)})
    other = frame.rename(columns={"hours": "time"})
    said = message(lambda: from_arrays(frame, np.arange(10) % 2, other, np.arange(10) % 2))
    assert "X_test has no column 'hours', which is one of X" in said


def test_a_column_without_numbers_is_named():
    frame = pd.DataFrame({"age": np.arange(10.0), "day": pd.Timestamp("2026-01-01")})
    assert "column 'day' holds datetime64" in message(lambda: from_arrays(frame, np.arange(10) % 2))


def test_truth_values_beside_numbers_are_numbers():
    frame = pd.DataFrame({"age": np.arange(10.0), "new": [True, False] * 5})
    assert from_arrays(frame, np.arange(10) % 2).train.inputs.max() == 8


class Named(list):
    """Pairs with names of classes, as torchvision's folders have them."""

    def __init__(self, classes, labels):
        super().__init__((np.full(2, label, np.float32), classes.index(label_name)) for label, label_name in labels)
        self.classes = classes


def test_classes_of_a_torch_test_set_are_those_of_the_same_names():
    train = Named(["cat", "dog", "owl"], [(0, "cat"), (1, "dog"), (2, "owl")])
    test = Named(["dog", "owl"], [(1, "dog"), (2, "owl")])
    found = from_torch(train, test)
    np.testing.assert_array_equal(found.test.targets, found.test.inputs[:, 0])


def test_what_has_no_pairs_is_refused_in_one_line():
    class Empty:
        def __iter__(self):
            return iter([])

    assert "must be a pair of an input and a target: there are none" in message(lambda: from_torch(Empty()))
    assert "object has no pairs" in message(lambda: from_torch(object()))


def test_what_a_users_own_data_set_raises_is_one_line_with_its_place():
    class Own(list):
        def __getitem__(self, place):
            raise KeyError("gone")

    assert "KeyError in test_like.py:" in message(lambda: from_torch(Own([1, 2])))
