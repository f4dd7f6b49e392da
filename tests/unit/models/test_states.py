"""The state of a module is all that is stored, each tensor once."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn

from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.models.torch.torch_model import TorchModel

SPEC = DataSpec("rows", (3,), "float32", classes=3)
DATA = Examples(np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32), np.arange(8) % 3)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)
        self.last.weight = self.first.weight
        self.norm = self.again = nn.BatchNorm1d(3)

    def forward(self, x):
        return self.again(self.last(self.norm(self.first(x))))


def test_tensor_with_several_names_stands_in_the_state_once_by_the_first():
    model = TorchModel(Tied, SPEC)
    state = model.initial_state(seed=1)
    assert list(state) == [
        "first.weight", "first.bias", "last.bias",
        "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked",
    ]  # fmt: skip
    assert model.arrays().keys() == state.keys()
    assert model.tied["last.weight"] == "first.weight"
    assert model.tied["again.running_var"] == "norm.running_var"


def test_both_names_of_a_tensor_are_equal_when_a_state_is_loaded():
    model = TorchModel(Tied, SPEC)
    state = {name: array + 1 for name, array in model.initial_state(seed=1).items()}
    model.load(state)
    loaded = model.module.state_dict()
    np.testing.assert_array_equal(loaded["last.weight"], state["first.weight"])
    np.testing.assert_array_equal(loaded["first.weight"], state["first.weight"])


def test_of_a_state_that_holds_a_tensor_twice_the_last_counts_as_it_did_in_that_run():
    model = TorchModel(Tied, SPEC)
    model.load({**model.initial_state(seed=1), "last.weight": np.full((3, 3), 5, np.float32)})
    assert model.module.first.weight.unique().tolist() == [5]


class SharedMemory(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)
        self.last.weight.data = self.first.weight.data


def test_parameters_that_share_memory_without_being_one_are_refused():
    with pytest.raises(TypeError, match=r"last\.weight and first\.weight share memory, but are two parameters"):
        TorchModel(SharedMemory, SPEC)


class Replacing(nn.Module):
    def __init__(self, *, grows=False):
        super().__init__()
        self.out, self.grows = nn.Linear(3, 3), grows
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        self.mean = torch.cat([self.mean, x.mean(0)]) if self.grows else 0.5 * self.mean + x.mean(0)
        return self.out(x)


def test_buffer_that_a_module_replaces_is_part_of_the_state():
    model = TorchModel(Replacing, SPEC)
    state = model.initial_state(seed=1)
    means = []
    for _ in range(2):
        model.load(state)
        model.module(torch.ones(2, 3))
        means.append(model.arrays()["mean"].tolist())
    assert means == [[1, 1, 1], [1, 1, 1]]


def test_buffer_that_grows_is_refused_before_the_first_round():
    model = TorchModel(lambda: Replacing(grows=True), SPEC)
    with pytest.raises(TypeError, match=r"mean was torch.float32 of shape \(3,\), and is .* \(6,\) after a fit"):
        model.try_step(DATA)


def test_variance_below_zero_is_zero_in_the_module():
    model = TorchModel(Tied, SPEC)
    state = dict(model.initial_state(seed=1))
    state["norm.running_var"] = np.array([-0.5, 0.25, 1], np.float32)
    model.load(state)
    assert model.module.norm.running_var.tolist() == [0, 0.25, 1]
    assert np.isfinite(list(model.evaluate(state, DATA).sums.values())).all()


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.out, self.steps = nn.Linear(3, 3), 0
        self.register_buffer("scale", torch.ones(1), persistent=False)

    def forward(self, x):
        self.steps += 1
        self.scale += 1
        return self.out(x)


def test_what_is_in_no_state_begins_anew_when_a_state_is_loaded():
    model = TorchModel(Counted, SPEC)
    state = model.initial_state(seed=1)
    for _ in range(2):
        model.load(state)
        model.module(torch.ones(2, 3))
        assert (model.module.steps, model.module.scale.item()) == (1, 2)
    assert "scale" not in state


class Drawn(nn.Module):
    """Draws when it is made, and when it is measured, from each global generator."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3, 3)
        self.out.weight.data = torch.from_numpy(np.random.normal(size=(3, 3)).astype(np.float32))
        self.register_buffer("features", torch.randn(3), persistent=False)
        self.shift = random.random()

    def forward(self, x):
        drawn = np.random.normal() + random.random() + torch.rand(1)
        return self.out(x * self.features + self.shift) + drawn * torch.arange(3)


def test_what_a_module_draws_is_the_same_in_each_process():
    (one, first), (other, second) = ((model, model.initial_state(seed=3)) for model in (made(), made()))
    for name, array in first.items():
        np.testing.assert_array_equal(second[name], array)
    assert not np.array_equal(one.initial_state(seed=4)["out.weight"], first["out.weight"])
    assert torch.equal(one.module.features, other.module.features)
    assert one.module.shift == other.module.shift
    assert one.evaluate(first, DATA).sums == other.evaluate(first, DATA).sums == one.evaluate(first, DATA).sums


def made():
    np.random.normal()
    random.random()
    torch.rand(1)
    return TorchModel(Drawn, SPEC)


def test_arrays_that_must_not_be_written_to_are_copied():
    model = TorchModel(Tied, SPEC)
    state = model.initial_state(seed=1)
    for array in state.values():
        array.flags.writeable = False
    tensors = model.tensors_of(state)  # torch warns of such an array, and a warning is an error here
    tensors[0].zero_()
    assert state["first.weight"].all()
