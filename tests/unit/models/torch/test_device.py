"""Where a module is computed. Where there is no GPU, torch's ``meta`` device stands for it: shapes without values."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from client.learners.learner import LocalTask
from client.learners.sgd import SGD
from fedlearn.config import config_from
from fedlearn.core.errors import SettingError
from fedlearn.data import load_dataset
from fedlearn.data.data_spec import DataSpec
from fedlearn.models import load_model
from fedlearn.models.torch import device as devices
from fedlearn.models.torch.device import CPU, device_of, enter, seed_torch
from fedlearn.models.torch.inputs import inputs_of
from fedlearn.models.torch.torch_model import TorchModel
from tests.oracles import images, texts

SETTINGS = {
    "training.local_epochs": 2,
    "training.batch_size": 4,
    "training.proximal_mu": 0.1,
    "training.clip_norm": 1.0,
}


class Copied(TorchModel):
    """Takes the way of a device whose memory is no array's, on the CPU."""

    def on(self, device):
        super().on(device)
        self._state._views = {}


class Watched(SGD):
    """Looks where the losses of its steps are added up."""

    def is_enough(self, task, epoch, loss_sum, steps):
        assert loss_sum.device == self.model.device
        return False


OTHER = torch.device("cpu", 0)  # no other memory, but the way of a GPU: states are copied, examples are kept there


def task(train, rows=range(12)):
    return LocalTask(train, np.array(rows), 3, 1, 0, {})


def fitted(kind, module):
    data = images.dataset()
    model = kind(module, data.spec)
    fit = SGD(model, config_from(SETTINGS)).fit(model.initial_state(seed=1), task(data.train))
    measured = model.evaluate(fit.arrays, data.test)
    return {name: array.tobytes() for name, array in fit.arrays.items()}, fit.metrics, measured.means


def test_examples_in_a_devices_own_memory_come_to_the_same_bytes(monkeypatch):
    data = images.dataset()
    fits, read = {}, []
    for device in (CPU, OTHER):
        model = TorchModel(images.Small, data.spec)
        model.on(device)
        monkeypatch.setattr(model, "inputs", lambda rows, to=model.inputs: read.append(type(rows)) or to(rows))
        fit = SGD(model, config_from(SETTINGS)).fit(model.initial_state(seed=1), task(data.train))
        fits[device] = {name: array.tobytes() for name, array in fit.arrays.items()}
    assert fits[OTHER] == fits[CPU]
    assert read == [np.ndarray] * 6 + [torch.Tensor] * 6


def test_examples_that_are_too_many_or_others_are_not_mistaken_for_those_on_a_device(monkeypatch):
    one, other = images.examples(60), images.examples(60, seed=5)
    model = TorchModel(images.Small, images.dataset().spec)
    model.on(OTHER)
    rows = np.array([3, 1])
    for examples in (one, other, one):
        assert torch.equal(model.inputs_at(examples, rows), model.inputs(examples.inputs[rows]))
    assert model._resident[0] is one
    monkeypatch.setattr("fedlearn.models.torch.torch_model.MOST_RESIDENT", other.inputs.nbytes - 1)
    assert torch.equal(model.inputs_at(other, rows), model.inputs(other.inputs[rows]))
    assert model._resident[0] is one


def test_examples_that_are_made_when_they_are_asked_for_are_not_kept_on_a_device():
    data = load_dataset("synthetic", "", options='{"kind": "images", "examples": 4}')
    model = TorchModel(images.Small, data.spec)
    model.on(OTHER)
    rows = np.array([3, 1])
    assert torch.equal(model.inputs_at(data.train, rows), model.inputs(data.train.inputs[rows]))
    assert model._resident is None


@pytest.mark.parametrize("module", [images.Small, images.WithDropout])
def test_state_that_is_copied_to_its_device_and_back_comes_to_the_same_bytes(module):
    assert fitted(Copied, module) == fitted(TorchModel, module)


@pytest.fixture
def elsewhere():
    """Torch's meta device, on which tensors have a shape and no value; an operation on two devices raises an error."""
    yield torch.device("meta")
    enter(CPU)


@pytest.mark.parametrize("name", ["linear", "mlp", "cnn", "lstm", "transformer"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_all_of_a_fit_and_of_an_evaluation_is_on_the_device(name, optimizer, elsewhere, monkeypatch):
    data = texts.dataset() if name in ("lstm", "transformer") else images.dataset()
    model = load_model(name, data.spec)
    state = model.initial_state(seed=1)
    model.on(elsewhere)
    decay = {"training.weight_decay": 0.01} if optimizer == "sgd" else {}
    learner = Watched(model, config_from({**SETTINGS, "training.optimizer": optimizer, **decay}))
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: torch.zeros(tensor.shape, dtype=tensor.dtype))
    monkeypatch.setattr(torch.Tensor, "item", lambda tensor: 1.0)
    fit = learner.fit(state, task(data.train, range(6)))
    assert {name: array.shape for name, array in fit.arrays.items()} == {n: array.shape for n, array in state.items()}
    held = (*model.parameters, *model.module.buffers(), *model.tensors_of(state))
    assert {each.device for each in held} == {elsewhere}
    assert model.evaluate(state, data.test).count == len(data.test)


@pytest.mark.parametrize(
    "spec",
    [
        images.dataset().spec,
        DataSpec("text", (3,), "int32", classes=5, vocabulary=5),
        DataSpec("rows", (3,), "float32", classes=2),
    ],
)
def test_inputs_of_a_device_are_there(spec, elsewhere):
    assert inputs_of(spec, elsewhere)(np.zeros((2, *spec.shape), spec.dtype)).device == elsewhere


def test_gpu_computes_the_same_each_time_and_the_cpu_as_ever(elsewhere):
    enter(elsewhere)
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.flash_sdp_enabled()
    enter(CPU)
    assert not torch.are_deterministic_algorithms_enabled()


def test_what_a_user_has_chosen_for_the_cpu_stays():
    torch.use_deterministic_algorithms(True)
    try:
        TorchModel(images.Small, images.dataset().spec)
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_dropout_on_a_device_is_drawn_where_the_seed_says(monkeypatch):
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed", seeds.append)
    monkeypatch.setattr(torch.mps, "manual_seed", seeds.append)
    for device in ("cuda", "mps", "cpu"):
        seed_torch(torch.device(device), 5)
        assert torch.initial_seed() == 5
    assert seeds == [5, 5]


@pytest.mark.parametrize(
    ("there", "wanted", "found"),
    [
        ({"cuda": 2, "mps": 0}, "auto", "cuda"),
        ({"cuda": 0, "mps": 1}, "auto", "mps"),
        ({"cuda": 0, "mps": 0}, "auto", "cpu"),
        ({"cuda": 2, "mps": 0}, "cuda:1", "cuda:1"),
    ],
)
def test_device_is_the_one_that_is_there(there, wanted, found, monkeypatch):
    monkeypatch.setattr(devices, "_count", lambda kind: {"cpu": 1, **there}[kind])
    assert str(device_of(wanted)) == found


@pytest.mark.parametrize(
    ("there", "wanted", "why"),
    [
        (0, "cuda", "torch finds no cuda here: take another, 'auto', or 'cpu'"),
        (0, "mps", "torch finds no mps here: take another, 'auto', or 'cpu'"),
        (2, "cuda:2", "torch finds 2 here, counted from cuda:0: take another, 'auto', or 'cpu'"),
    ],
)
def test_device_that_is_not_there_is_refused_in_one_line(there, wanted, why, monkeypatch):
    monkeypatch.setattr(devices, "_count", lambda kind: there)
    with pytest.raises(SettingError) as refused:
        device_of(wanted)
    assert str(refused.value) == f"engine.device = '{wanted}': {why}"


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:-1", "cuda:1 ", "CPU", "", "cuda:1000"])
def test_device_that_cannot_be_is_refused_by_its_setting(name):
    with pytest.raises(SettingError, match=r"^engine\.device = .*: write cpu, cuda, cuda:1 and so on, mps or auto$"):
        config_from({"engine.device": name})
