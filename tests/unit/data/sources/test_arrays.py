"""Arrays become data sets, and wrong ones are refused."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedlearn.cache.trusted import cache_folder
from fedlearn.core.errors import DataNotFound, UsageError
from fedlearn.data import Examples, from_arrays

RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(10, 3)), np.arange(10) % 2
BYTES = RNG.integers(0, 256, (10, 6, 5), np.uint8)


@given(data=st.data(), kind=st.sampled_from(["uint8", "int16", "int64", "float32", "float64"]))
def test_nothing_is_lost_or_changed(data, kind):
    shape = data.draw(arrays.array_shapes(min_dims=1, max_dims=3, max_side=4))
    numbers = {"uint8": (0, 255), "int16": (0, 2**15 - 1), "int64": (0, 2**31 - 1)}
    elements = st.integers(*numbers[kind]) if kind in numbers else st.floats(-9, 9, width=32)
    inputs = data.draw(arrays.arrays(kind, (4, *shape), elements=elements))
    targets = data.draw(arrays.arrays("float64", 4, elements=st.floats(-9, 9, width=32)))
    vocabulary = 2**31 if kind.startswith("int") else None
    made = from_arrays(inputs, targets, inputs[:2], targets[:2], vocabulary=vocabulary)
    for part, stop in ((made.train, 4), (made.test, 2)):
        np.testing.assert_array_equal(part.inputs.reshape(stop, -1), inputs[:stop].reshape(stop, -1))
        np.testing.assert_array_equal(part.targets, targets[:stop])


def test_grey_images_get_a_channel_and_constants():
    spec = from_arrays(BYTES, Y).spec
    assert (spec.shape, spec.mean, spec.std) == ((6, 5, 1), (0.5,), (0.25,))
    assert spec.is_image


def test_images_with_channels_first_are_turned():
    turned = from_arrays(np.moveaxis(np.stack([BYTES] * 3, 3), 3, 1), Y, channels="first", mean=(0.1, 0.2, 0.3))
    assert turned.spec.shape == (6, 5, 3)
    assert (turned.mean, turned.std) == ((0.1, 0.2, 0.3), (0.25,) * 3)


def test_floats_are_taken_as_they_are():
    assert (from_arrays(X, Y).mean, from_arrays(X, Y).std) == ((), ())


def test_a_fifth_is_held_out_whatever_the_order_of_calls():
    first, again = from_arrays(X, Y), from_arrays(X.astype(np.float32), Y)
    assert (len(first.train), len(first.test)) == (8, 2)
    assert first.fingerprint == again.fingerprint
    whole = np.sort(np.concatenate([first.train.inputs[:, 0], first.test.inputs[:, 0]]))
    np.testing.assert_array_equal(whole, np.sort(X[:, 0].astype(np.float32)))


def test_two_names_of_the_same_arrays_are_kept_once():
    from_arrays(X, Y, name="one")
    from_arrays(X, Y, name="two")
    assert len(list(cache_folder().iterdir())) == 1


def test_classes_by_name_are_numbered_in_their_order():
    words = np.array(["b", "a", "c", "a"] * 3)
    made = from_arrays(np.zeros((12, 2)), words, np.zeros((1, 2)), ["c"])
    assert made.class_names == ("a", "b", "c")
    assert made.train.targets[:4].tolist() == [1, 0, 2, 0]
    assert from_arrays(np.zeros((12, 2)), words, classes=["c", "b", "a", "z"]).train.targets.max() == 2


def test_groups_of_any_kind_are_numbered_and_keep_their_names():
    made = from_arrays(X, Y, X[:3], Y[:3], groups=[7, 7, 9, 9, 9, 7, 12, 12, 7, 7], groups_test=[9, 12, 13])
    assert made.group_names == ("7", "9", "12", "13")
    assert made.train.groups.tolist() == [0, 0, 1, 1, 1, 0, 2, 2, 0, 0]
    assert made.test.groups.tolist() == [1, 2, 3]
    assert made.spec.groups == 4
    assert from_arrays(X, Y, groups=Y).group_names == ()


def test_letters_and_the_next_ones_share_a_vocabulary():
    tokens = RNG.integers(0, 9, (10, 4))
    spec = from_arrays(tokens, tokens + 1).spec
    assert spec.vocabulary == spec.classes == int(tokens.max()) + 2
    assert from_arrays(tokens, tokens[:, 0] % 3, vocabulary=100).spec.vocabulary == 100


def test_tensors_and_lists_are_arrays_too():
    made = from_arrays(torch.ones(6, 2, requires_grad=True), [0, 1, 0, 1, 0, 1])
    assert made.spec.dtype == "float32"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((X, Y[:9]), "X has 10 examples and y 9"),
        ((X, Y, X), "give X_test and y_test"),
        ((X, Y, X[:, :2], Y), "X is float32 of shape (n, 3) and X_test float32 of shape (n, 2)"),
        ((X, Y, X, Y.astype(float)), "y holds int64 and y_test float32: give both as classes or as numbers"),
        ((np.where(np.arange(10)[:, None] == 4, np.nan, X), Y), "X: example 4 holds NaN"),
        ((X, np.where(Y == 1, np.inf, 0.0)), "y: example 1 holds NaN"),
        ((X, Y - 1), "y: example 0 holds -1: a class is from 0 to"),
        ((X, np.zeros(10, int)), "y holds one class"),
        ((-np.arange(10)[:, None], Y), "X: example 1 holds -1: a token is from 0 to"),
        (([[1.0], [1.0, 2.0]], [0, 1]), "X holds examples of several shapes: give numbers of one shape"),
        ((np.array([["a"]] * 10), Y), "X holds texts: give tokens"),
        ((X[:0], Y[:0]), "X is empty"),
        ((X[:1], Y[:1]), "one example cannot be split"),
        ((np.zeros((10, 3, 8, 8)), Y), "say channels='first'"),
        ((X, [0, 1, None] + [0] * 7), "y: example 2 has no value"),
        ((X, [{}] * 10), "y holds object"),
        ((3, Y), "X is one value, 3: give an array"),
        ((X, None), "y is one value, None"),
    ],
)
def test_wrong_arrays_are_refused_in_one_line(arguments, said):
    with pytest.raises(UsageError) as error:
        from_arrays(*arguments, name="mine")
    assert str(error.value).startswith("data set 'mine': ")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"groups": Y[:3]}, "X has 10 examples and groups 3"),
        ({"groups": X[:, 0]}, "groups must be texts or integers"),
        ({"groups_test": Y}, "give X_test and y_test (and then groups_test), or neither"),
        ({"classes": ["a"]}, "y: example 1 holds 1: a class is from 0 to 0"),
        ({"classes": ["a", "a"]}, "a name is given twice"),
        ({"mean": (0.1, 0.2)}, "mean and std: one number, or one for each of the 3 channels"),
        ({"std": 0.0}, "std is above 0"),
        ({"channels": "first"}, "channels='first' is for (n, channels, height, width)"),
        ({"test_share": 1.0}, "test_share = 1.0: it must lie between 0 and 1"),
    ],
)
def test_wrong_statements_are_refused_in_one_line(more, said):
    with pytest.raises(UsageError) as error:
        from_arrays(X, Y, **more)
    assert said in str(error.value)


def test_a_class_that_was_not_named_is_refused_with_its_example():
    with pytest.raises(UsageError, match=r"y_test: example 1 is 'dog', which is none of the classes \('cat', 'owl'\)"):
        from_arrays(np.zeros((2, 1)), ["cat", "owl"], np.zeros((2, 1)), ["cat", "dog"], classes=["cat", "owl"])


def test_changed_examples_are_not_mistaken_for_those_in_the_cache():
    made = from_arrays(X, Y, groups=Y)
    other = replace(made, train=Examples(made.train.inputs[::2], made.train.targets[::2] * 0))
    again = pickle.loads(pickle.dumps(other))
    np.testing.assert_array_equal(again.train.inputs, made.train.inputs[::2])
    assert again.train.targets.max() == 0
    assert again.train.groups is None


def test_another_process_maps_the_same_file():
    made = from_arrays(X, Y)
    program = "import pickle, sys; d = pickle.load(sys.stdin.buffer); print(d.train.inputs.base.filename, d)"
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(made), capture_output=True, check=True)
    assert done.stdout.decode().split()[0] == str(made.train.inputs.base.filename)


def test_a_data_set_that_is_not_in_this_cache_says_so():
    text = pickle.dumps(from_arrays(X, Y, name="mine"))
    shutil.rmtree(cache_folder())
    with pytest.raises(DataNotFound, match="the data set 'mine' is not in the cache folder"):
        pickle.loads(text)
