"""Own functions of one example: each by itself, the same in training, measuring and predicting."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torchvision.transforms import v2

from client.learners.augmentation import augmentation_for
from fedlearn.config import config_from
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.data import from_mixed
from fedlearn.data.data_spec import DataSpec, TableSchema
from fedlearn.data.filling import cut, padded
from fedlearn.models import load_model
from fedlearn.models.loaded import spec_of
from fedlearn.models.torch.inputs import inputs_of
from fedlearn.plugins.generators import restored_globals
from fedlearn.plugins.objects import reference_to
from fedlearn.predicting import Preparation

SPEC = DataSpec("photos", (8, 6, 3), "uint8", classes=4, mean=(0.5,), std=(0.25,))
PHOTOS = np.random.default_rng(5).integers(0, 256, (7, 8, 6, 3), np.uint8)
CALLS: list[float] = []


def drawing(example):
    return (example.float() + 3 * random.random() + 3 * np.random.rand() + 3 * torch.rand(1)).to(torch.uint8)


def drawing_as_told(example):
    """Draw more numbers for some examples than for others."""
    for _ in range(int(example.sum()) % 5):
        drawing(example)
    return drawing(example)


def counting(example):
    CALLS.append(1.0)
    return example.float() + len(CALLS)


def spec_with(function, spec=SPEC):
    return replace(spec, transform=reference_to(function))


def test_transform_that_changes_nothing_changes_no_input():
    inputs = inputs_of(spec_with(v2.Identity()))(PHOTOS)
    assert torch.equal(inputs, inputs_of(SPEC)(PHOTOS))
    assert inputs.is_contiguous(memory_format=torch.channels_last)
    rows = DataSpec("rows", (5,), "float32", mean=(2.0,), std=(4.0,))
    given = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    assert torch.equal(inputs_of(spec_with(nn.Identity(), rows))(given), torch.from_numpy(given))


def test_transform_of_torchvision_is_that_of_each_picture_and_a_module_gets_the_new_shape(tmp_path):
    wanted = v2.Compose([v2.Resize(5), v2.Grayscale(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.4], [2])])
    spec = spec_with(wanted)
    each = torch.stack([wanted(photo) for photo in torch.from_numpy(PHOTOS).permute(0, 3, 1, 2)])
    model = load_model("linear", spec)
    assert torch.equal(model.inputs(PHOTOS), each)
    assert model.module(each).shape == (7, 4)
    saved = Preparation(spec).save(tmp_path / "preparation.json")
    assert torch.equal(Preparation.read(saved).inputs(PHOTOS), each)


def test_augmentation_draws_for_each_place_by_itself_from_any_generator():
    augmented = augmentation_for(reference_to(drawing_as_told), SPEC)

    def drawn(photos):
        with restored_globals():
            torch.manual_seed(3)
            return augmented(photos)

    others = PHOTOS.copy()
    others[2] = 255 - others[2]
    assert np.array_equal(drawn(PHOTOS), drawn(PHOTOS))
    same = [np.array_equal(one, other) for one, other in zip(drawn(PHOTOS), drawn(others), strict=True)]
    assert same == [True, True, False, True, True, True, True]
    assert len({photo.tobytes() for photo in drawn(PHOTOS[[0] * 7])}) > 1


@pytest.mark.parametrize(
    ("setting", "function", "spec", "why"),
    [
        ("transform", v2.RandomHorizontalFlip(), SPEC, "it draws random numbers"),
        ("transform", counting, SPEC, "it keeps something from example to example"),
        ("augment", counting, SPEC, "it keeps something from example to example"),
        ("augment", v2.RandomCrop(4), SPEC, r"of shape \(3, 8, 6\) becomes another"),
        ("transform", torch.Tensor.long, SPEC, "it returns torch.int64: return bytes"),
        ("transform", v2.Grayscale(), replace(SPEC, mean=(0.1, 0.2, 0.3), std=(1, 1, 1)), "return floats"),
        ("transform", v2.Normalize([0.5], [0.5]), SPEC, "of an example it fails"),
        ("transform", "a text", SPEC, "it must be a function of one example"),
        ("transform", v2.Identity(),
         DataSpec("people", (1,), "float64", classes=2, table=TableSchema("sick", {"age": (0, 9)}, classes=("n", "y"))),
         "a declared table is prepared by its declaration"),
    ],
)  # fmt: skip
def test_wrong_function_is_refused_before_any_example_is_read(setting, function, spec, why):
    named = reference_to(function, name="wrong")
    with pytest.raises(SettingError, match=rf"data\.{setting} = .*{why}"):
        augmentation_for(named, spec) if setting == "augment" else inputs_of(replace(spec, transform=named))


def test_switch_of_augmentation_is_one_from_any_door():
    assert config_from({"data.augment": "true"}).data.augment is True
    assert config_from({"data.augment": "looks:turned"}).data.augment == "looks:turned"
    with pytest.raises(SettingError, match=r"data\.augment = 'flip': write true, false or module:name"):
        config_from({"data.augment": "flip"})


# --- examples of several sizes ----------------------------------------------------------------------------------------

SIZES = [(3, 5), (4, 2), (6, 6), (1, 1)]
MIXED = [np.random.default_rng(place).integers(0, 256, (*size, 3), np.uint8) for place, size in enumerate(SIZES)]
WAVES = [np.arange(float(length)) for length in (4, 2, 7, 5)]


def filled_up(examples):
    """Make a batch of pictures (C, H, W) or series (L, C), as large as the largest of them."""
    if examples[0].ndim == 2:
        return nn.utils.rnn.pad_sequence(examples, batch_first=True)
    sides = [max(each.shape[axis] for each in examples) for axis in (1, 2)]
    grown = [nn.functional.pad(e, (0, sides[1] - e.shape[2], 0, sides[0] - e.shape[1])) for e in examples]
    return torch.stack(grown).float() / 255


def drawing_batch(examples):
    return filled_up(examples) + torch.rand(1)


def one_row(examples):
    return filled_up(examples)[:1]


@pytest.mark.parametrize("examples", [MIXED, WAVES, [torch.tensor(each) for each in WAVES]])
def test_each_example_of_several_sizes_comes_back_as_it_was(examples):
    for given, held in zip(examples, padded(examples), strict=True):
        assert np.array_equal(cut(held), given if np.ndim(given) == 3 else np.asarray(given)[:, None])


@pytest.mark.parametrize(("examples", "shape"), [(MIXED, (3, 6, 6)), (WAVES, (7, 1))])
def test_collate_gets_a_batch_of_examples_in_their_own_sizes_also_in_predictions(examples, shape):
    data = from_mixed(examples, [0, 1, 0, 1], examples, [0, 1, 0, 1])
    spec = replace(data.spec, collate=reference_to(filled_up))
    each = [torch.from_numpy(np.atleast_2d(given.T if given.ndim == 1 else given)).float() for given in examples]
    each = [one.permute(2, 0, 1) / 255 if one.ndim == 3 else one.T for one in each]
    by_hand = torch.stack([
        nn.functional.pad(one, [side for a, b in zip(shape[::-1], one.shape[::-1], strict=True) for side in (0, a - b)])
        for one in each
    ])  # fmt: skip
    assert torch.equal(inputs_of(spec)(data.train.inputs), by_hand)
    assert torch.equal(Preparation(spec).inputs(list(examples)), by_hand)
    assert inputs_of(spec)(data.train.inputs[1:2]).shape[1:] == each[1].shape


def test_transform_of_one_size_makes_batches_of_examples_of_several_sizes():
    data = from_mixed(MIXED, [0, 1, 0, 1], MIXED, [0, 1, 0, 1])
    spec = replace(data.spec, transform=reference_to(v2.Resize((4, 4))))
    assert inputs_of(spec)(data.train.inputs).shape == (4, 3, 4, 4)
    assert load_model("linear", spec).inputs(data.test.inputs[:2]).shape == (2, 3, 4, 4)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "the examples have several sizes"),
        ({"collate": drawing_batch}, "it must draw no random numbers"),
        ({"collate": one_row}, "of 2 examples it makes a tensor of shape"),
    ],
)
def test_what_makes_no_batch_of_several_sizes_is_refused(changes, why):
    spec = from_mixed(MIXED, [0, 1, 0, 1], MIXED, [0, 1, 0, 1]).spec
    with pytest.raises(SettingError, match=rf"data\.collate = .*{why}"):
        inputs_of(replace(spec, **{name: reference_to(function) for name, function in changes.items()}))


def test_batch_of_several_protected_records_is_refused():
    data = from_mixed(MIXED, [0, 1, 0, 1], MIXED, [0, 1, 0, 1])
    private = {"privacy.protects": "records", "training.learner": "dp-sgd", "privacy.epsilon": 1.0}
    with pytest.raises(SettingError, match=r"data\.collate = .*one must change no other"):
        spec_of(config_from({**private, "data.collate": reference_to(filled_up)}), data)
    assert "sizes" in data.counted


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([MIXED[0], MIXED[1][..., :1]], r"example 1 is uint8 of shape \(4, 2, 1\), and example 0"),
        ([MIXED[0], WAVES[0]], "example 1 is float32"),
        ([[1.0, np.nan]], "example 0: it holds NaN"),
        ([[1, 2]], "example 0: int64 of shape"),
        ([], "there are no examples"),
    ],
)
def test_wrong_example_of_several_sizes_is_named(wrong, said):
    with pytest.raises(UsageError, match=said):
        from_mixed(wrong, [0] * len(wrong))
