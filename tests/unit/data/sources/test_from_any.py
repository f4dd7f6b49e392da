"""What people have in their hands is a data set, or one line that says what to write."""

from __future__ import annotations

from unittest.mock import MagicMock

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, random_split

from fedlearn.core.errors import UsageError
from fedlearn.data import Examples, from_any, from_arrays, from_frame, from_table, from_torch, load_dataset
from fedlearn.data.drawing import nothing_held_out
from fedlearn.data.sources.from_any import LOADER

RNG = np.random.default_rng(4)
X = RNG.random((60, 4)).astype(np.float32)
Y = RNG.integers(0, 3, 60)
NAMES = list("abcd")
FRAME = pd.DataFrame(X, columns=NAMES)
TABLE = FRAME.assign(kind=np.array(["cat", "dog", "owl"])[Y])
TENSORS = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
PICTURES = datasets.Dataset.from_dict(
    {"img": list(RNG.integers(0, 256, (20, 6, 5, 3), np.uint8)), "id": range(20), "kind": [0, 1] * 10},
    features=datasets.Features(
        img=datasets.Image(), id=datasets.Value("int64"), kind=datasets.ClassLabel(names=["no", "yes"])
    ),
)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(TENSORS)


class Counted(Stream):
    def __len__(self):
        return len(TENSORS)


class Short(Stream):
    def __len__(self):
        return 70


class Endless(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.zeros(1_000_000), 1


class WithoutLength(Dataset):
    def __getitem__(self, place):
        return TENSORS[place]


class Random(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, place):
        return torch.rand(3) * place, place % 2  # the first as it was


def message(data) -> str:
    """Return the one line by which data are refused."""
    with pytest.raises(UsageError) as error:
        from_any(data)
    assert "\n" not in str(error.value)
    return str(error.value)


ALIKE = {
    "tuple": (X, Y),
    "list": [X, Y],
    "lists": (X.tolist(), Y.tolist()),
    "tensors": (torch.from_numpy(X), torch.from_numpy(Y)),
    "named arrays": {"X": X, "y": Y},
    "a part alone": {"train": (X, Y)},
    "Examples": Examples(X, Y),
    "torch": TENSORS,
    "DataLoader": DataLoader(TENSORS, batch_size=7, shuffle=True),
    "a stream": Stream(),
    "a stream with a length": Counted(),
    "an index without a length": WithoutLength(),
    "pairs": [(x, int(y)) for x, y in zip(X, Y, strict=True)],
    "a generator": (X, Y),
}


@pytest.mark.parametrize("form", ALIKE)
def test_every_form_of_the_same_examples_has_the_bytes_of_from_arrays(form):
    data = zip(X, Y, strict=True) if form == "a generator" else ALIKE[form]
    assert from_any(data).fingerprint == from_arrays(X, Y).fingerprint


@pytest.mark.parametrize(
    "data",
    [
        (X, Y, X[:9], Y[:9]),
        ((X, Y), (X[:9], Y[:9])),
        {"train": (X, Y), "test": (X[:9], Y[:9])},
        {"X": X, "y": Y, "X_test": X[:9], "y_test": Y[:9]},
        (TENSORS, TensorDataset(*TENSORS[:9])),
        (DataLoader(TENSORS), DataLoader(TensorDataset(*TENSORS[:9]))),
        (Stream(), TensorDataset(*TENSORS[:9])),
        (Examples(X, Y), Examples(X[:9], Y[:9])),
    ],
)
def test_every_form_of_train_and_test_has_the_bytes_of_from_arrays(data):
    assert from_any(data).fingerprint == from_arrays(X, Y, X[:9], Y[:9]).fingerprint


def test_a_frame_and_the_name_of_its_target_is_the_table(tmp_path):
    found = from_any((TABLE, "kind"))
    assert (found.class_names, found.feature_names) == (("cat", "dog", "owl"), tuple("abcd"))
    TABLE.to_parquet(tmp_path / "t.parquet")
    assert found.fingerprint == from_frame(TABLE, target="kind").fingerprint
    assert np.array_equal(found.train.inputs, from_table(tmp_path / "t.parquet", target="kind").train.inputs)
    assert from_any((pa.Table.from_pandas(TABLE), "kind")).fingerprint == found.fingerprint
    assert from_any((FRAME, TABLE["kind"])).fingerprint == found.fingerprint


def test_frames_for_testing_are_put_in_order_by_their_names():
    turned = TABLE[["kind", *"dcba"]][:9]
    for data in ((TABLE, turned, "kind"), (FRAME, TABLE["kind"], turned[list("dbca")], turned["kind"])):
        assert np.array_equal(from_any(data).test.inputs, X[:9])


def test_options_of_a_frame_are_those_of_a_file():
    found = from_frame(TABLE.assign(who="x", age=np.arange(60)), target="age", without="kind", groups="who", name="t")
    assert (found.feature_names, found.group_names, found.spec.classes) == (tuple("abcd"), ("x",), 60)
    assert from_frame(TABLE.assign(age=np.arange(60)), target="age", inputs="a", regression=True).spec.classes == 0


def test_whole_numbers_in_a_frame_are_numbers_and_not_tokens():
    found = from_any(((FRAME * 100).astype(int), Y))
    assert (found.spec.dtype, found.spec.vocabulary, found.spec.shape) == ("float32", 0, (4,))


def test_a_bunch_of_scikit_learn_keeps_its_names():
    found = from_any(load_breast_cancer())
    assert found.class_names == ("malignant", "benign")
    assert found.feature_names[:2] == ("mean radius", "mean texture")
    assert found.spec.shape == (30,)
    assert from_any(load_iris(as_frame=True)).fingerprint == from_any(load_iris()).fingerprint
    assert from_any(load_diabetes()).spec.classes == 0


def test_columns_of_the_library_datasets_are_chosen_by_their_kinds_and_said():
    parts = datasets.DatasetDict(train=PICTURES, validation=PICTURES.select(range(4)), unsupervised=PICTURES)
    found = from_any(parts)
    assert (found.spec.shape, found.class_names, len(found.test)) == ((6, 5, 3), ("no", "yes"), 4)
    assert found.notice == (
        "part 'validation' is for testing; part 'unsupervised' is not used; learned: kind, from img, id left out"
    )


@pytest.mark.parametrize("shown", ["numpy", "torch"])
def test_a_format_of_the_library_datasets_changes_nothing(shown):
    plain, other = from_any(PICTURES), from_any(PICTURES.with_format(shown))
    assert plain.fingerprint == other.fingerprint == from_any(DataLoader(PICTURES)).fingerprint


def test_a_target_can_be_named_for_the_library_datasets():
    rows = datasets.Dataset.from_dict({"a": [0.5] * 10, "b": [1.5] * 10, "y": ["p", "q"] * 5})
    found = from_any((rows, "y"))
    assert (found.spec.shape, found.class_names, found.notice) == ((2,), ("p", "q"), "")
    assert len(from_any((rows, rows.select(range(3)), "y")).test) == 3


def test_classes_of_a_subset_keep_their_names():
    class Named(TensorDataset):
        classes = ("cat", "dog", "owl")

    part, rest = random_split(Named(*TENSORS.tensors), [40, 20], torch.Generator().manual_seed(1))
    assert from_any((part, rest)).class_names == ("cat", "dog", "owl")


def test_a_data_loader_says_once_that_its_batches_are_not_used():
    assert from_any((DataLoader(TENSORS), DataLoader(TENSORS))).notice == LOADER
    assert from_any({"a": DataLoader(TENSORS), "b": DataLoader(TENSORS)}).notice == LOADER
    assert from_any(TENSORS).notice == ""


def test_a_random_transform_is_said_to_be_frozen():
    assert "as by a random transform: each was read once and stays" in from_any(Random()).notice


def test_entries_of_more_than_two_parts_are_said():
    found = from_any(TensorDataset(*TENSORS.tensors, torch.zeros(60)))
    assert found.notice == "entries have 3 parts: the first is the input, the second the target"
    assert found.fingerprint == from_any(TENSORS).fingerprint


def test_what_claims_every_attribute_is_one_line():
    message(MagicMock())
    message((MagicMock(), MagicMock()))


@pytest.mark.long
def test_a_length_can_be_told():
    assert len(from_torch(Endless(), length=5, test_share=0.2).train) == 4
    with pytest.raises(UsageError, match="length = 61: there are 60 pairs"):
        from_torch(TENSORS, length=61)


def test_many_classes_are_said_as_they_may_be_numbers():
    assert (
        "y holds integers, which are 60 classes, on average of less than two examples"
        in from_any((X, np.arange(60))).notice
    )


def test_data_node_by_node_are_groups_in_the_order_of_the_nodes():
    found = from_any({"west": (X[:20], Y[:20]), "east": TensorDataset(*TENSORS[20:])})
    assert found.group_names == ("west", "east")
    rows = np.concatenate([found.train.inputs, found.test.inputs])
    owners = np.concatenate([found.train.groups, found.test.groups])
    assert {tuple(row) for row in rows[owners == 0]} == {tuple(row) for row in X[:20]}
    assert from_any({1: (X[:20], Y[:20]), 0: (X[20:], Y[20:])}).group_names == ("1", "0")


def test_a_fifth_of_each_node_is_held_out_and_every_node_trains():
    sizes = [40, 1, 2, 1, 10]
    nodes = {f"n{place}": (RNG.random((n, 3)), RNG.integers(0, 2, n)) for place, n in enumerate(sizes)}
    found = from_any(nodes)
    assert np.bincount(found.train.groups).tolist() == [32, 1, 1, 1, 8]
    assert np.bincount(found.test.groups, minlength=5).tolist() == [8, 0, 1, 0, 2]
    with nothing_held_out():
        assert len(from_any(nodes).train) == sum(sizes)
    frames = {name: (pd.DataFrame(X, columns=list("abc")), y) for name, (X, y) in nodes.items()}
    assert np.array_equal(from_any(frames).train.inputs, found.train.inputs)


def test_nodes_bring_their_own_tests_and_columns_in_any_order():
    one, other = TABLE[:20], TABLE[20:][["kind", *"dcba"]]
    found = from_any({"a": (one, one[:3], "kind"), "b": (other, other[:5], "kind")})
    assert found.test.groups.tolist() == [0] * 3 + [1] * 5
    assert np.array_equal(found.train.inputs, X)
    assert found.feature_names == tuple("abcd")


def test_classes_of_nodes_are_matched_by_their_names():
    def one(names, code):
        features = datasets.Features(a=datasets.Value("float32"), label=datasets.ClassLabel(names=names))
        return datasets.Dataset.from_dict({"a": [float(code)] * 10, "label": [code] * 10}, features=features)

    found = from_any({"a": one(["cat", "dog"], 1), "b": one(["dog", "owl"], 0)})
    assert found.class_names == ("cat", "dog", "owl")
    assert set(found.train.targets.tolist()) == {1}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (X, "these are inputs without targets: give (X, y)"),
        (TABLE, "a frame does not say which column is learned: give (frame, 'COLUMN') with one of a, b, c, d, kind"),
        ((TABLE, "Kind"), "has no column 'Kind'; it has 'a', 'b', 'c', 'd', 'kind'"),
        ((TABLE, TABLE["a"]), "X holds the column 'a', which is y: give (X, 'a'), or X without it"),
        ((TABLE.assign(who="x"), "kind"), "row 0, column 'who': 'x' is no number"),
        ((TABLE.assign(a=np.nan), "kind"), "row 0, column 'a': no value"),
        ((FRAME, Y, FRAME[["a"]], Y), "X_test has no column 'b', which is one of X"),
        (train_test_split(X, Y), "these are X, X_test, y, y_test, as of train_test_split"),
        (train_test_split(X[:, :1], X[:, 0], test_size=0.5), "these are X, X_test, y, y_test"),
        ((X, Y[:5]), "X has 60 examples and y 5"),
        ((X, None), "a tuple of ndarray, NoneType cannot be read as data: give (X, y)"),
        ((X, Y, X), "a tuple of ndarray, ndarray, ndarray cannot be read"),
        ((TENSORS, TENSORS, TENSORS), "three parts are given: give (train, test)"),
        ((scipy.sparse.csr_matrix(X), Y), "X is a sparse matrix: give X.toarray()"),
        (7, "7 cannot be read as data: give (X, y)"),
        ({X[0, 0], 3}, "a set of"),
        (object(), "cannot be read as data"),
        ({}, "a dict gives the data of each client"),
        ({1: (X, Y), "1": (X, Y)}, "it has none, or one name twice"),
        ({"a": (X, Y), "b": X}, "client b': these are inputs without targets"),
        ({"a": (X, Y), "b": {"c": (X, Y)}}, "client 'b' is a dict itself"),
        ({"a": (X, Y), "b": (X[:, :3], Y)}, "X of 'a' is floats of shape (n, 4), and of 'b' floats of shape (n, 3)"),
        ({"a": (X, Y), "b": (X.astype(np.uint8), Y)}, "X of 'a' is floats of shape (n, 4), and of 'b' uint8"),
        ({"a": (X, Y), "b": (X, Y * 0.5)}, "y of 'a' is integers of shape (n), and of 'b' floats"),
        ({"a": (X, Y, X, Y), "b": (X, Y)}, "client 'a' has examples for testing, client 'b' has none"),
        ({"a": (TABLE, "kind"), "b": (TABLE.drop(columns="a"), "kind")}, "X of client 'b' has no column 'a'"),
        ({"a": load_iris(), "b": (X, Y)}, "the classes of 'b' have numbers, and those of others names"),
        (DataLoader(TENSORS, batch_size=None), "a DataLoader with batch_size=None has a data set of batches"),
        (Short(), "Short has yielded 60 pairs of 70"),
        ([{"x": X[0], "y": 1}] * 3, "these are inputs without targets"),
        (DataLoader([{"x": X[0], "y": 1}] * 3), "cannot be read as data|inputs without targets"),
        (datasets.Dataset.from_dict({"text": ["a"], "label": [1]}), "its column 'text' holds texts"),
        (datasets.Dataset.from_dict({"a": [1.0], "b": [1]}), "no column is the target for sure: give (data, 'COLUMN')"),
        (datasets.DatasetDict(test=PICTURES), "it has no part 'train': give one of its parts, test"),
        (PICTURES.to_iterable_dataset(), "it is a stream, which has no length: load it without streaming=True"),
    ],
)
def test_what_cannot_be_read_is_one_line_that_says_what_to_write(data, said):
    assert any(each in message(data) for each in said.split("|"))


def test_a_stream_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr("fedlearn.data.sources.libraries.UNPACKED", 50_000_000)
    assert "Endless has no length and has not ended after 13 pairs, 0.052 GB: say how many" in message(Endless())


def test_a_function_of_a_module_may_return_any_form(tmp_path, monkeypatch):
    (tmp_path / "brought_by_hand.py").write_text(
        "import numpy as np\nPAIR = (np.eye(6, dtype='f'), [0, 1] * 3)\ndef load(data_dir):\n    return PAIR\n"
        "NODES = {'a': PAIR, 'b': PAIR}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    by_call, by_name = (load_dataset(f"brought_by_hand:{each}", "") for each in ("load", "PAIR"))
    assert by_call.fingerprint == by_name.fingerprint == from_arrays(np.eye(6), [0, 1] * 3).fingerprint
    nodes = load_dataset("brought_by_hand:NODES", "")
    assert (nodes.spec.groups, nodes.name) == (2, "brought_by_hand:NODES")
    assert nodes.notice == "data are given for 2 clients: --partition natural --clients 2 keeps them so"
