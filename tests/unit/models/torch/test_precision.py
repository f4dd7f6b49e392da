"""Products in bfloat16, or all that is computed; what is kept, added up and sent in float32."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from torch import nn

from client.learners.learner import LocalTask
from client.learners.sgd import SGD
from fedlearn.config import config_from
from fedlearn.core.errors import SettingError
from fedlearn.engine.prepare import has_bfloat16, prepared
from fedlearn.models import load_model
from fedlearn.models.loaded import trial
from fedlearn.models.torch.torch_model import TorchModel
from tests.oracles import images, texts

MIXED = {"training.precision": "bfloat16-mixed"}
REDUCED = ("bfloat16-mixed", "bfloat16")
SETTINGS = {**MIXED, "training.local_epochs": 2, "training.batch_size": 4, "training.lr": 0.01}


class Made:
    def __init__(self, name, **settings):
        self.data = texts.dataset() if name in ("lstm", "transformer") else images.dataset()
        config = config_from({**SETTINGS, **{key.replace("_", ".", 1): value for key, value in settings.items()}})
        self.model = load_model(name, self.data.spec).planned(config)
        self.state = self.model.initial_state(seed=1)
        self.learner = SGD(self.model, config)

    def fit(self):
        task = LocalTask(self.data.train, np.arange(8), 3, 1, 0, {})
        return {name: array.copy() for name, array in self.learner.fit(self.state, task).arrays.items()}


def flat(arrays, state):
    return np.concatenate([(array - state[name]).ravel() for name, array in arrays.items()])


@pytest.mark.parametrize("precision", REDUCED)
@pytest.mark.parametrize("name", ["linear", "mlp", "cnn", "transformer"])
def test_reduced_fit_is_near_that_of_float32_and_the_same_each_time(name, precision):
    mixed, plain = Made(name, training_precision=precision), Made(name, training_precision="float32")
    arrays = mixed.fit()
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float32)}
    change, exact = flat(arrays, mixed.state), flat(plain.fit(), plain.state)
    assert 0 < np.linalg.norm(change - exact) < 0.1 * np.linalg.norm(exact)  # bfloat16 has 8 bits
    assert all(np.array_equal(array, arrays[name]) for name, array in mixed.fit().items())


@pytest.mark.parametrize("precision", REDUCED)
def test_small_steps_are_not_lost(precision):
    made = Made(
        "mlp", training_lr=1e-5, training_precision=precision
    )  # far below what a weight of 8 bits can tell apart
    change = flat(made.fit(), made.state)
    exact = flat(Made("mlp", training_lr=1e-5, training_precision="float32").fit(), made.state)
    assert np.linalg.norm(change - exact) < 0.1 * np.linalg.norm(exact)


@pytest.mark.parametrize("precision", REDUCED)
def test_layers_compute_in_bfloat16_when_they_learn_and_when_they_are_measured(precision):
    made, seen = Made("cnn", training_precision=precision), []
    made.model.module.fc1.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    made.fit()
    assert {torch.bfloat16} == set(seen)
    seen.clear()
    exact = Made("cnn", training_precision="float32").model.evaluate(made.state, made.data.test).means
    measured = made.model.evaluate(made.state, made.data.test).means
    assert {torch.bfloat16} == set(seen)
    assert measured["loss"] == pytest.approx(exact["loss"], rel=0.01)


class Normed(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Flatten(), nn.Linear(3072, 8), nn.BatchNorm1d(8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 10)
        )


@pytest.mark.parametrize("precision", REDUCED)
def test_norms_keep_float32_parameters_and_what_they_have_seen(precision):
    model = TorchModel(Normed, images.dataset().spec).planned(config_from({"training.precision": precision}))
    model.module[4].register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    seen = []
    outputs = model.outputs(model.inputs(np.random.default_rng(0).integers(0, 255, (4, 32, 32, 3), np.uint8)))
    assert outputs.dtype is torch.float32
    gradients = torch.autograd.grad(outputs.square().sum(), model.parameters)
    assert all(each.dtype is torch.float32 and each.abs().sum() > 0 for each in gradients)
    assert model.module[2].running_mean.abs().sum() > 0  # what a norm keeps is kept
    assert seen == [torch.bfloat16]
    assert not {"2.weight", "2.bias", "3.weight", "3.bias"} & model._rounded.keys()


def test_layer_that_has_no_bfloat16_here_is_refused_before_the_first_round(monkeypatch):
    def outputs(model, inputs):
        raise RuntimeError("could not create a primitive descriptor for the LSTM")  # so torch says

    monkeypatch.setattr(TorchModel, "outputs", outputs)
    settings = {**MIXED, "data.dataset": "digits"}
    with pytest.raises(
        SettingError, match=r"^training\.precision = 'bfloat16-mixed': .*RuntimeError.*: could not create"
    ):
        trial(settings, {})
    with pytest.raises(SettingError, match=r"^model\.name = 'cnn': .*RuntimeError.*: could not create"):
        trial({"data.dataset": "digits"}, {})


@pytest.mark.parametrize(
    ("flags", "is_there"),
    [("avx2 fma", False), ("avx512f avx512_bf16", True), ("amx_bf16", True), ("asimd bf16", True)],
)
def test_processor_says_whether_it_computes_in_bfloat16(flags, is_there, tmp_path):
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: fpu {flags} sse\n")
    assert has_bfloat16(tmp_path / "cpuinfo") is is_there
    assert has_bfloat16(tmp_path / "none")


@pytest.mark.parametrize("is_there", [False, True])
def test_processor_without_bfloat16_is_named_before_the_run(is_there, monkeypatch, caplog):
    monkeypatch.setattr("fedlearn.engine.prepare.has_bfloat16", lambda: is_there)
    with caplog.at_level(logging.WARNING):
        prepared(config_from({**SETTINGS, "data.dataset": "digits", "clients": 3}))
    assert ("no instructions for bfloat16" in caplog.text) is not is_there
