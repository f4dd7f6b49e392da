"""Runs of modules whose state is no plain list of parameters: tied, normed, and with more beside it."""

from __future__ import annotations

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn
from torch.nn import functional

import fedlearn
from client.learners.sgd import SGD
from fedlearn.data import from_arrays
from tests.marked import thinned

QUICK = {"clients": 4, "rounds": 2, "batch_size": 8, "local_epochs": 1, "progress": False}
UPDATE = {"compression.send": "update", "gate.max_ratio": 0.0}
RNG = np.random.default_rng(1)
ROWS = RNG.normal(size=(80, 6)).astype(np.float32)
TOKENS = np.cumsum(RNG.integers(1, 4, (80, 9)), axis=1) % 60


def rows():
    return from_arrays(ROWS, ROWS[:, :3].argmax(1), ROWS[:20], ROWS[:20, :3].argmax(1))


def run(model, out, settings=None, data=None, **given):
    given = {**QUICK, "engine": "inline", **given}
    return fedlearn.run(model=model, data=data or rows(), out=out, settings=settings or {}, **given)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.body, self.head = nn.Embedding(60, 16), nn.Linear(16, 16), nn.Linear(16, 60, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(torch.tanh(self.body(self.embed(tokens))))


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"compression.codec": "drop", "compression.keep_ratio": 0.25},
        {**UPDATE, "compression.codec": "residual,top-k:0.05"},
        {**UPDATE, "compression.codec": "eden:1", "strategy.name": "fedadam"},
        {"strategy.name": "flwr.serverapp.strategy:FedAdam"},
        {"training.stack": 2},
    ],
    ids=["plain", "drop", "residual", "eden and fedadam", "flower", "stack"],
)
def test_tied_parameters_are_sent_and_stored_once_and_stay_equal(tmp_path, settings):
    data = from_arrays(TOKENS[:, :-1], TOKENS[:, 1:], TOKENS[:20, :-1], TOKENS[:20, 1:], vocabulary=60, classes=60)
    made = run(Tied, tmp_path / "whole", settings, data)
    file = made.folder / "model.safetensors"
    assert sorted(safetensors.torch.load_file(file)) == ["body.bias", "body.weight", "embed.weight"]
    state = made.state
    assert state["head.weight"] is state["embed.weight"]
    module, plain = made.model(), Tied()
    safetensors.torch.load_model(plain, file)
    assert torch.equal(module.head.weight, module.embed.weight)
    assert torch.equal(plain.head.weight, module.head.weight)
    first = run(Tied, tmp_path / "first", settings, data, rounds=1)
    assert fedlearn.run(resume=first, model=Tied, data=data, rounds=2, progress=False).sha256 == made.sha256
    if not settings:
        tied = made.history["bytes_up"].iloc[-1]
        assert tied < 4 * (4 * (60 * 16 + 16 * 16 + 16) + 1200)


class Normed(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


@pytest.mark.parametrize(
    "settings",
    thinned(
        [
            {**UPDATE, "compression.codec": "residual,ternary:0.01"},
            {**UPDATE, "compression.codec": "rand-k:0.0625,rotate,quantize:2"},
            {**UPDATE, "compression.codec": "residual,sign"},
            {"compression.downlink": "rotate,quantize:2"},
            {"strategy.name": "fedavgm", "strategy.options": {"server_lr": 4.0}},
            {"strategy.name": "flwr.serverapp.strategy:FedAdam", "strategy.options": {"eta": 1.0}},
        ],
        3,
    ),
    ids=["ternary", "rand-k", "sign", "downlink", "fedavgm", "flower"],
)
def test_variances_are_never_negative_under_any_codec_or_strategy(tmp_path, settings):
    made = run(
        Normed, tmp_path / "run", settings, rounds=2 if "strategy.name" in settings else 6
    )  # where Adam overshoots
    for state in (made.state, made.best_state):
        assert (state["1.running_var"] >= 0).all()
        assert (state["1.num_batches_tracked"] >= 0).all()
    assert np.isfinite(made.history["loss"]).all()
    assert torch.isfinite(made.model()(torch.from_numpy(ROWS))).all()


def test_nodes_whose_last_batch_is_one_example_report(tmp_path):
    groups = np.repeat(["a", "b", "c", "d"], [17, 9, 1, 53])
    data = from_arrays(ROWS, ROWS[:, :3].argmax(1), ROWS[:1], ROWS[:1, :3].argmax(1), groups=groups)
    for stack in (1, 2):
        made = run(Normed, tmp_path / f"{stack}", {"training.stack": stack}, data, partition="natural")
        assert made.history["reported"].tolist() == [4, 4]


class Beside(nn.Module):
    """Counts its steps, keeps a scale that is in no state, and transforms what it is given by NumPy's numbers."""

    def __init__(self):
        super().__init__()
        self.out, self.steps = nn.Linear(6, 3), 0
        self.register_buffer("scale", torch.ones(1), persistent=False)

    def forward(self, x):
        if self.training:
            self.steps += 1
            self.scale.mul_(0.9).add_(0.1 * x.detach().abs().mean())
            x = x + 0.1 * torch.from_numpy(np.random.normal(size=x.shape).astype(np.float32))
        return self.out(x / self.scale) / max(0.5, 1 - 0.01 * self.steps)


class Drawing(SGD):
    """Counts, and draws from NumPy."""

    def __init__(self, model, config):
        super().__init__(model, config)
        self.n = 0

    def gradients(self, gradients, task):
        self.n += 1
        for each in gradients:
            each.mul_(np.random.random() / self.n)


def smoothed(outputs, targets):
    return functional.cross_entropy(outputs, targets, label_smoothing=0.1 * np.random.random())


GIVEN = {"model.loss": smoothed, "training.learner": Drawing}
KEPT = {"engine": "inline"}, {"workers": 1, "engine": "embedded"}, {"workers": 2, "engine": "embedded"}


@pytest.mark.network
def test_one_hash_whatever_module_loss_and_learner_keep_and_draw(tmp_path):
    found = {}
    for place, how in enumerate(KEPT):
        for stack in (1, 2):
            made = run(Beside, tmp_path / f"{place}-{stack}", {**GIVEN, "training.stack": stack}, **how)
            found[place, stack] = made.sha256
    assert len(set(found.values())) == 1, found


def test_another_run_of_the_process_finds_nothing_of_the_first(tmp_path, caplog):
    one, other = (run(Beside, tmp_path / name, GIVEN) for name in ("one", "other"))
    assert one.sha256 == other.sha256
    (said,) = {record.getMessage() for record in caplog.records if "no part of the model's state" in record.message}
    assert said.startswith("learner.n, scale, steps: ")
