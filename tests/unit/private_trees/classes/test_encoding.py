from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedlearn.private_trees.binning import MISSING
from fedlearn.private_trees.classes.encoding import Encoding
from fedlearn.private_trees.domain import NotPrivateWarning

DECLARED = {"color": ["red", "green"], "count": 3}
BINS = {"age": [18, 65]}
FRAME = pd.DataFrame(
    {"color": ["green", None, "red", "blue"], "count": [2, 0, np.nan, 3], "age": [18, 18.5, np.nan, 99]}
)
CODES = [[1, 2, 0], [MISSING, 0, 1], [0, MISSING, MISSING], [MISSING, MISSING, 2]]


def encoding():
    return Encoding.declare(3, categories=DECLARED, bins=BINS, names=list(FRAME.columns))


def test_undeclared_categories_and_codes_out_of_range_are_missing():
    assert encoding().encode(FRAME).tolist() == CODES
    assert encoding().sizes.tolist() == [2, 3, 3]


@pytest.mark.parametrize("kind", ["object", "string", "category"])
def test_every_kind_of_column_gives_the_same_codes(kind):
    frame = FRAME.astype({"color": kind})
    assert encoding().encode(frame).tolist() == CODES


def test_arrays_of_objects_and_of_numbers_are_encoded_as_frames_are():
    assert encoding().encode(FRAME.to_numpy(object)).tolist() == CODES
    numbers = np.array([[0.0, 1.0], [2.0, np.nan], [1.5, -1.0]])
    assert Encoding.declare(2, categories=[2, 2], bins=None).encode(numbers).tolist() == [
        [0, 1],
        [255, 255],
        [255, 255],
    ]
    words = np.array([["red"], ["blue"]])
    assert Encoding.declare(1, categories=[["blue", "red"]], bins=None).encode(words).tolist() == [[1], [0]]


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"categories": None, "bins": None}, "needs categories="),
        ({"categories": {0: 2}, "bins": {0: [1.0]}}, "one of the two"),
        ({"categories": {"size": 2}, "bins": None}, "'size' is not a feature"),
        ({"categories": [2, 2], "bins": None}, "2 entries for 1 features"),
        ({"categories": {0: 256}, "bins": None}, "256 categories"),
        ({"categories": {0: ["a", "a"]}, "bins": None}, "twice"),
        ({"categories": None, "bins": {0: [2.0, 1.0]}}, "ascending"),
    ],
)
def test_a_wrong_declaration_is_refused(declared, says):
    with pytest.raises(ValueError, match=says):
        Encoding.declare(1, **declared)


def test_an_encoding_from_the_data_warns_and_is_marked():
    frame = pd.DataFrame({"a": ["x", None, "y"], "b": np.arange(3) * 0.1, "c": [None, None, None]})
    with pytest.warns(NotPrivateWarning):
        learned = Encoding.from_data(frame)
    assert not learned.is_declared
    assert learned.categories[0] == ("x", "y")
    with pytest.warns(NotPrivateWarning):
        binned = Encoding.from_data(np.linspace(0, 1, 100)[:, None])
    assert binned.sizes.tolist() == [8]
