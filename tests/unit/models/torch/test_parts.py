"""What a module's state is divided into: what is sent, what each node keeps, what is frozen."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from client.learners.learner import LocalTask
from client.learners.sgd import SGD
from fedlearn.config import config_from
from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.models.torch.parts import parts_of
from fedlearn.models.torch.torch_model import TorchModel

SPEC = DataSpec("rows", (3,), "float32", classes=3)
DATA = Examples(np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32), np.arange(8) % 3)
TASK = LocalTask(DATA, np.arange(8), seed=1, round_number=1, partition_id=0, config={})
BODY = ["body.weight", "body.bias"]
NORM = [f"norm.{name}" for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")]
HEAD = ["head.weight", "head.bias"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.norm(self.body(x)))


class Frozen(Net):
    def __init__(self):
        super().__init__()
        for part in (self.body, self.norm):
            part.requires_grad_(False)


class Adapted(nn.Module):
    """A layer with an adapter beside its frozen weights."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(3, 3).requires_grad_(False)
        self.lora_a, self.lora_b = nn.Parameter(torch.randn(1, 3)), nn.Parameter(torch.zeros(3, 1))

    def forward(self, x):
        return self.base(x) + x @ self.lora_a.T @ self.lora_b.T


def planned(kind, **training):
    return TorchModel(kind, SPEC).planned(config_from({f"training.{name}": each for name, each in training.items()}))


def parts(kind, send="", personal=""):
    settings = config_from({"training.send": send, "training.personal": personal}).training
    return parts_of(kind(), send=settings.send, personal=settings.personal, model="net")


def test_module_without_frozen_parameters_is_sent_as_a_whole():
    found = parts(Net)
    assert found.is_whole and list(found.shared) == BODY + NORM + HEAD


def test_frozen_layers_stay_with_their_buffers():
    found = parts(Frozen)
    assert list(found.shared) == HEAD
    assert list(found.frozen) == BODY + NORM
    assert found.still == ("norm",)


def test_of_an_adapted_layer_the_adapter_alone_is_sent():
    assert parts(Adapted).shared == ("lora_a", "lora_b")


@pytest.mark.parametrize(
    ("patterns", "sent"),
    [
        ("head", HEAD),
        ("head.*", HEAD),
        ("*.bias, !norm", ["body.bias", "head.bias"]),
        ("!norm", BODY + HEAD),
        (["head.weight", "norm.running_mean"], ["norm.running_mean", "head.weight"]),
        ("*", BODY + NORM + HEAD),
        ("unfrozen, !*.bias", ["body.weight", "norm.weight", *NORM[2:], "head.weight"]),
    ],
)
def test_patterns_name_what_is_sent(patterns, sent):
    assert list(parts(Net, send=patterns).shared) == sent


def test_unfrozen_names_what_is_sent_without_the_setting():
    assert parts(Frozen, send="unfrozen").shared == parts(Frozen).shared == tuple(HEAD)
    assert parts(Adapted, send="unfrozen, !*_a").shared == ("lora_b",)


def test_star_sends_frozen_parameters_too():
    assert parts(Frozen, send="*").is_whole


def test_what_is_named_personal_is_not_sent():
    found = parts(Net, personal="norm")
    assert (list(found.shared), list(found.personal)) == (BODY + HEAD, NORM)
    assert parts(Net, send="*", personal="head").personal == tuple(HEAD)


@pytest.mark.parametrize(
    ("kind", "given", "why"),
    [
        (
            Net,
            {"send": "haed.*"},
            r"send = 'haed\.\*': no parameter or buffer is named so; there are body, norm",
        ),
        (Net, {"send": "head, !tail"}, r"training\.send = '!tail': no parameter"),
        (Adapted, {"personal": "norm"}, "the model has no layer of normalization"),
        (Net, {"personal": "*"}, "it names everything that is trained: nothing would be averaged"),
        (Net, {"send": "head", "personal": "head"}, "all that it names is personal"),
        (Frozen, {"send": "body"}, "nothing that it names is trained: there are head.weight"),
        (Frozen, {"personal": "body"}, "what it names is frozen"),
        (lambda: Net().requires_grad_(False), {}, "all its parameters are frozen"),
    ],
)
def test_what_cannot_be_divided_is_one_line(kind, given, why):
    with pytest.raises(SettingError, match=why) as refused:
        parts(kind, **given)
    assert "\n" not in str(refused.value)


def test_state_of_the_run_is_what_is_sent():
    model = planned(Frozen)
    state = model.initial_state(seed=1)
    assert list(state) == HEAD == list(model.arrays())
    assert list(model.unsent) == BODY + NORM


def test_state_and_what_is_not_sent_are_those_of_the_whole_module_under_the_seed_of_the_run():
    whole, model = TorchModel(Frozen, SPEC).initial_state(seed=1), planned(Frozen)
    divided = {**model.unsent, **model.initial_state(seed=1)}
    assert divided.keys() == whole.keys()
    assert all(np.array_equal(divided[name], whole[name]) for name in whole)


DECAY = {"weight_decay": 0.5}


@pytest.mark.parametrize("training", [DECAY, {**DECAY, "optimizer": "adamw"}, {"momentum": 0.9}])
def test_fit_leaves_frozen_arrays_alone(training):
    model = planned(Frozen, **training)
    fit = SGD.from_settings(model, config_from({f"training.{k}": v for k, v in training.items()})).fit(
        model.initial_state(seed=1), TASK
    )
    assert list(fit.arrays) == HEAD
    now = model.module.state_dict()
    assert all(np.array_equal(now[name], array) for name, array in model.unsent.items())


def test_what_send_does_not_name_requires_no_gradients():
    model = planned(Net, send="head")
    assert model.names == HEAD
    assert [name for name, each in model.module.named_parameters() if each.requires_grad] == HEAD


def test_frozen_norms_are_computed_as_in_an_evaluation():
    model = planned(Frozen)
    model.train()
    assert model.module.training and model.module.head.training and not model.module.norm.training
    model.module.train()
    model.train()
    assert not model.module.norm.training


def test_frozen_array_that_code_of_the_user_changes_is_put_back():
    model = planned(Frozen)
    with torch.no_grad():
        model.module.body.weight.add_(1)
    model.load(model.initial_state(seed=1))
    assert np.array_equal(model.module.state_dict()["body.weight"], model.unsent["body.weight"])


def test_state_of_a_server_sets_no_frozen_array():
    model = planned(Frozen)
    model.load({**model.initial_state(seed=1), "body.weight": np.ones((4, 3), np.float32)})
    assert np.array_equal(model.module.state_dict()["body.weight"], model.unsent["body.weight"])


def test_state_without_personal_arrays_gets_the_first_ones():
    model = planned(Net, personal="norm")
    state = model.initial_state(seed=1)
    model.load({**state, "norm.bias": np.ones(4, np.float32)})
    model.load(state)
    assert not model.module.norm.bias.any()
