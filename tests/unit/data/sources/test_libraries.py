"""Data sets of torch and of the library `datasets`, as they come."""

from __future__ import annotations

import datasets
import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from fedlearn.core.errors import DataNotFound, UsageError
from fedlearn.data import from_hf, from_torch

RNG = np.random.default_rng(3)
PIXELS = RNG.integers(0, 256, (10, 6, 5, 3), np.uint8)
LABELS = np.arange(10) % 2


class Pictures(list):
    classes = ("cat", "dog")


def test_torch_tensors_with_channels_first_are_turned():
    tensors = torch.from_numpy(PIXELS).permute(0, 3, 1, 2) / 255
    found = from_torch(TensorDataset(tensors, torch.from_numpy(LABELS)), groups=LABELS)
    assert (found.spec.shape, found.spec.dtype, found.spec.groups) == ((6, 5, 3), "float32", 2)
    np.testing.assert_allclose(found.train.inputs[0], PIXELS[0] / 255, rtol=1e-6)


def test_torch_data_sets_of_pictures_keep_bytes_and_class_names():
    pairs = Pictures((Image.fromarray(pixels), int(label)) for pixels, label in zip(PIXELS, LABELS, strict=True))
    found = from_torch(pairs, pairs[:4])
    np.testing.assert_array_equal(found.train.inputs, PIXELS)
    assert (found.class_names, len(found.test)) == (("cat", "dog"), 4)


def test_torch_regressions_stay_regressions():
    found = from_torch(TensorDataset(torch.ones(6, 2), torch.arange(6.0)))
    assert (found.spec.classes, found.spec.shape) == (0, (2,))


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([], "must be a pair"),
        ([torch.ones(2)] * 3, "X holds|must be a pair"),
        ([(torch.ones(2), 0), (torch.ones(3), 1)], "example 1: its shape"),
    ],
)
def test_what_is_no_sequence_of_pairs_is_refused(entries, said):
    with pytest.raises(UsageError, match=said):
        from_torch(entries)


@pytest.fixture
def hub():
    features = datasets.Features(
        image=datasets.Image(), label=datasets.ClassLabel(names=["cat", "dog"]), writer=datasets.Value("string")
    )
    rows = {"image": [Image.fromarray(each) for each in PIXELS], "label": LABELS, "writer": list("abcdeabcde")}
    return datasets.Dataset.from_dict(rows, features=features)


def test_a_hub_data_set_of_pictures(hub):
    found = from_hf(datasets.DatasetDict(train=hub, test=hub.select(range(2))), groups="writer")
    np.testing.assert_array_equal(found.train.inputs, PIXELS)
    assert (found.class_names, found.group_names, len(found.test)) == (("cat", "dog"), tuple("abcde"), 2)


def test_a_hub_data_set_of_numbers(hub):
    rows = datasets.Dataset.from_dict({"a": [1.0, 2.0, 3.0, 4.0], "b": [0.5] * 4, "y": [0.1, 0.2, 0.3, 0.4]})
    assert from_hf(rows, inputs=["a", "b"], target="y").spec.shape == (2,)
    with pytest.raises(UsageError, match="no column 'z'; it has a, b, y"):
        from_hf(rows, inputs=["a", "b"], target="z")
    with pytest.raises(UsageError, match="no part 'train'; it has other"):
        from_hf(datasets.DatasetDict(other=hub))


def test_a_name_asks_the_hub_by_that_name(hub, monkeypatch):
    monkeypatch.setattr(
        "datasets.load_dataset", lambda *asked: datasets.DatasetDict(train=hub) if asked == ("me/pets", None) else None
    )
    assert from_hf("me/pets").name == "me/pets"
    monkeypatch.undo()
    monkeypatch.setattr(
        "datasets.load_dataset", lambda *_: (_ for _ in ()).throw(ConnectionError("no network\nat all"))
    )
    with pytest.raises(DataNotFound, match=r"'me/pets' could not be loaded from the .*: no network at all"):
        from_hf("me/pets")
