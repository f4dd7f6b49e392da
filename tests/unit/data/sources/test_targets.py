"""A column is a vector, whatever it comes from; one-hot rows are said."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from fedlearn.config.tables.data import DataSettings
from fedlearn.core.errors import UsageError
from fedlearn.data import from_arrays, from_hf, from_torch, load_dataset
from fedlearn.data.data_spec import Examples
from fedlearn.data.partitioning import partition_table

X = np.arange(80, dtype=np.float32).reshape(20, 4)
CLASSES = np.arange(20) % 3
COLUMNS = {
    "integers": CLASSES[:, None],
    "floats": CLASSES[:, None] / 2.0,
    "texts": CLASSES[:, None].astype(str),
    "bools": CLASSES[:, None] > 0,
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_column_is_a_vector(column):
    assert from_arrays(X, column).fingerprint == from_arrays(X, column[:, 0]).fingerprint


def test_column_of_arrays_in_a_file_is_a_vector(tmp_path):
    np.savez(tmp_path / "rows.npz", X=X, y=COLUMNS["integers"])
    assert load_dataset(str(tmp_path / "rows.npz"), "").spec.target_shape == ()


def test_column_of_other_libraries_is_a_vector():
    from datasets import Dataset

    of_torch = from_torch(TensorDataset(torch.from_numpy(X), torch.from_numpy(COLUMNS["integers"])))
    of_hf = from_hf(Dataset.from_dict({"x": X.tolist(), "label": COLUMNS["integers"].tolist()}), inputs="x")
    assert of_torch.spec.target_shape == of_hf.spec.target_shape == ()
    assert of_torch.spec.classes == of_hf.spec.classes == 3


def test_column_of_examples_is_a_vector():
    assert Examples(X, COLUMNS["integers"]).labels.tolist() == CLASSES.tolist()


@pytest.mark.parametrize("scheme", ["dirichlet", "pathological", "equal-dirichlet"])
def test_labels_in_a_column_can_be_skewed(scheme):
    settings = DataSettings(partition=scheme)
    sizes = [
        partition_table(from_arrays(X, y), settings, num_partitions=4, seed=1).sizes().tolist()
        for y in (CLASSES, COLUMNS["integers"])
    ]
    assert sizes[0] == sizes[1]


def test_masks_with_an_axis_of_one_are_masks():
    masks = np.ones((20, 2, 2, 1), int)
    masks[:, 0] = 0
    assert from_arrays(np.zeros((20, 2, 2, 3), np.uint8), masks).spec.target_shape == (2, 2)


@pytest.mark.parametrize("dtype", [int, np.float32, np.uint8])
def test_one_hot_rows_are_refused_in_one_line(dtype):
    with pytest.raises(UsageError, match=r"one-hot rows, of shape \(20, 3\): give the classes, y.argmax\(1\), or"):
        from_arrays(X, np.eye(3, dtype=dtype)[CLASSES])


def test_one_hot_rows_are_taken_where_they_are_meant():
    assert from_arrays(X, np.eye(3, dtype=np.float32)[CLASSES], classes=0).spec.classes == 0
    assert from_arrays(X, np.eye(3, dtype=int)[CLASSES], classes=2).spec.target_shape == (3,)


@pytest.mark.parametrize(
    "y", [np.tile([0.0, 1.0], (20, 1)), np.eye(3)[CLASSES] * 0.5, np.array([[0, 1], [1, 1]] * 10)],
    ids=["always the same", "no ones", "several ones"],
)  # fmt: skip
def test_other_rows_are_no_one_hot_rows(y):
    assert from_arrays(X, y).spec.target_shape == y.shape[1:]


def test_images_to_be_learned_with_channels_first_are_said():
    images = np.zeros((20, 3, 8, 8), np.float32)
    with pytest.raises(UsageError, match=r"y has shape \(20, 3, 8, 8\): .* say channels='first'"):
        from_arrays(np.zeros((20, 8, 8, 3), np.float32), images)
