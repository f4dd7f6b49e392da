"""Buffers of a state: which are constants, which running, by what a forward pass does to them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from client.learners.learner import LocalTask
from client.learners.sgd import SGD
from fedlearn.config import config_from
from fedlearn.core.errors import Refused, SettingError
from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.models.torch.parts import whole
from fedlearn.models.torch.torch_model import TorchModel

SPEC = DataSpec("rows", (3,), "float32", classes=3)
DATA = Examples(np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32), np.arange(8) % 3)
TASK = LocalTask(DATA, np.arange(8), seed=1, round_number=1, partition_id=0, config={})
CONSTANTS = {
    "mask": torch.triu(torch.full((3, 3), -math.inf), 1),
    "far": torch.full((3,), -1e9),
    "eps": torch.tensor(1e-5),
    "unknown": torch.tensor([math.nan, 1.0]),
    "ids": torch.arange(1, 4),
    "hash": torch.tensor([2**61 - 1]),
    "table": torch.arange(256, dtype=torch.uint8),
    "is_on": torch.tensor(True),
    "float16": torch.tensor([0.1], dtype=torch.float16),
}
RUNNING = ["mean", "count", "replaced"]


class Net(nn.Module):
    """Has an expert that no example reaches, a frozen parameter, constants of every dtype, and buffers that run."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(3)
        self.expert = nn.Linear(3, 3)
        self.still = nn.Parameter(torch.full((3,), -math.inf), requires_grad=False)
        for name, each in CONSTANTS.items():
            self.register_buffer(name, each.clone())
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("count", torch.tensor(0))
        self.register_buffer("replaced", torch.ones(1))

    def forward(self, x):
        self.eps = self.eps * 1.0  # another tensor with the same numbers
        if self.training:
            self.mean.lerp_(x.mean(0), 0.1)
            self.count += 1
            self.replaced = self.replaced * 0.9
        if x.abs().max() > 1e6:
            x = self.expert(x)
        return self.norm(self.layer(x)) + self.eps + torch.exp(self.still)


def planned(kind=Net, **training):
    return TorchModel(kind, SPEC).planned(config_from({f"training.{name}": each for name, each in training.items()}))


def test_what_no_forward_pass_changes_is_constant_and_what_requires_a_gradient_is_trained():
    model = planned()
    assert model.parts.constant == tuple(CONSTANTS)
    assert [name for name in model.parts.shared if name in RUNNING] == RUNNING
    assert {"expert.weight", "norm.running_mean", "norm.num_batches_tracked"} < {*model.parts.shared}
    assert set(model.parts.frozen) == {"still", *CONSTANTS}


def test_vectors_that_have_come_to_rest_follow_from_their_weight_all_the_same():
    def settled():
        layer = spectral_norm(nn.Linear(3, 3), n_power_iterations=5)
        with torch.no_grad():
            layer.parametrizations.weight.original.copy_(torch.diag(torch.tensor([5.0, 1.0, 0.1])))
            for _ in range(50):
                layer(torch.zeros(1, 3))
        return layer

    model = planned(settled)
    assert model.parts.constant == ()
    assert set(model.parts.auxiliary) == {f"parametrizations.weight.0._{each}" for each in "uv"}


def test_the_trial_leaves_no_trace():
    state, plain = planned().initial_state(seed=1), TorchModel(Net, SPEC).initial_state(seed=1)
    assert all(np.array_equal(state[name], plain[name]) for name in state)
    before = torch.get_rng_state()
    planned()
    assert torch.equal(torch.get_rng_state(), before)


def test_a_module_without_buffers_of_its_own_is_not_tried(monkeypatch):
    monkeypatch.setattr("fedlearn.models.torch.making.Making.made_up", None)
    model = planned(lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)))
    assert model.parts == whole(model.module)


def test_a_module_that_fails_has_no_constants():
    class Fails(Net):
        def forward(self, x):
            raise ValueError

    assert planned(Fails).parts.constant == ()


def test_a_fit_leaves_constants_as_they_are():
    model = planned()
    fit = SGD(model, config_from({})).fit(model.initial_state(seed=1), TASK)
    assert not {*CONSTANTS, "still"} & fit.arrays.keys()
    for name, each in CONSTANTS.items():
        assert np.array_equal(model.unsent[name], each.numpy(), equal_nan=each.dtype.is_floating_point)


@pytest.mark.parametrize(
    ("send", "sent"),
    [
        ("*", {*CONSTANTS}),
        (["*", "!eps"], set()),
        (["*", "eps"], {"eps"}),
        ("layer, e*", set()),
        ("layer, eps", {"eps"}),
    ],
)
def test_a_constant_is_sent_only_where_it_is_named_in_full(send, sent):
    assert {*planned(send=send).parts.shared} & {*CONSTANTS} == sent


class Later(Net):
    """Changes constants once it has seen more than the trial shows; by `how`."""

    how = staticmethod(lambda module: module.eps.mul_(2))

    def forward(self, x):
        if self.training and self.count > 100:
            self.how(self)
        return super().forward(x)


@pytest.mark.parametrize(
    "how",
    [
        lambda module: module.eps.mul_(2),
        lambda module: setattr(module, "eps", torch.tensor(1.0)),
        lambda module: setattr(module, "eps", torch.ones(1)),
        lambda module: module.eps.fill_(math.nan),
    ],
    ids=["in place", "replaced", "another shape", "NaN"],
)
def test_a_constant_that_a_later_fit_changes_is_named_with_the_setting(how, monkeypatch):
    monkeypatch.setattr(Later, "how", staticmethod(how))
    model = planned(Later)
    state = model.initial_state(seed=1)
    learner = SGD(model, config_from({"training.batch_size": 2}))
    learner.fit(state, TASK)
    with pytest.raises(SettingError, match=r"training\.send.*buffer eps has changed.*\[\"\*\", \"eps\"\]"):
        learner.fit({**state, "count": np.array(200)}, TASK)
    learner.fit(state, TASK)
    assert model.unsent["eps"] == CONSTANTS["eps"].numpy()


def test_arrays_of_a_server_may_be_infinite_only_where_the_module_is_itself():
    model = planned()
    model.hold({**model.unsent, "eps": np.array(2e-5, np.float32)})
    assert model.module.eps == np.float32(2e-5)
    for name, bad in (("eps", np.array(np.inf, np.float32)), ("mask", np.full((3, 3), -np.inf, np.float32))):
        with pytest.raises(Refused, match=f"{name} holds NaN or infinity"):
            model.hold({**model.unsent, name: bad})


def lazily():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.LazyLinear(5), nn.LazyBatchNorm1d(), nn.Linear(5, 3))


def test_sizing_a_lazy_layer_leaves_no_trace_in_norms():
    model = TorchModel(lazily, SPEC)
    state = model.initial_state(seed=1)
    assert all(part.training for part in model.module.modules())
    for norm in ("1", "3"):
        assert state[f"{norm}.num_batches_tracked"] == 0
        assert (state[f"{norm}.running_var"] == 1).all() and (state[f"{norm}.running_mean"] == 0).all()


def part_compiled(backend):
    made = Net()
    made.layer = torch.compile(made.layer, backend=backend)
    return made


@pytest.mark.parametrize(
    ("kind", "compiles"),
    [
        (lambda backend: torch.compile(Net(), backend=backend), True),
        (part_compiled, True),
        (lambda _: nn.DataParallel(Net()), False),
        (lambda backend: nn.DataParallel(torch.compile(Net(), backend=backend)), True),
    ],
    ids=["compiled", "a part", "DataParallel", "both"],
)
def test_a_wrapped_module_has_the_state_of_the_module_and_is_compiled(kind, compiles):
    torch.compiler.reset()  # of one function it compiles a few forms, and others have been compiled in this process
    compiled = []

    def backend(graph, _):
        compiled.append(graph)
        return graph.forward

    model, plain = planned(lambda: kind(backend)), planned()
    state = model.initial_state(seed=1)
    assert list(state) == list(plain.initial_state(seed=1)) and model.parts == plain.parts
    fits = [SGD(each, config_from({})).fit(state, TASK) for each in (model, plain)]
    assert bool(compiled) is compiles
    for name, array in fits[1].arrays.items():
        assert np.allclose(fits[0].arrays[name], array, atol=1e-6), name
