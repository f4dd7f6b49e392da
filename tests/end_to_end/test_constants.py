"""Runs of modules with constants and auxiliary vectors: whatever averages, codes, masks or steps leaves them right."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import fedlearn
from fedlearn.core.errors import RunFailed
from fedlearn.data import from_arrays
from tests.marked import thinned

UPDATE = {"compression.send": "update"}
SETTINGS = {
    "fedavg": {},
    "fedadam": {"strategy.name": "fedadam"},
    "krum": {"strategy.name": "krum", "strategy.options": {"attackers": 1}},
    "flower": {"strategy.name": "flwr.serverapp.strategy:FedAvg"},
    "flower's FedAdam": {"strategy.name": "flwr.serverapp.strategy:FedAdam"},
    "eden": {**UPDATE, "compression.codec": "eden:1"},
    "residual": {**UPDATE, "compression.codec": "residual,top-k:0.05"},
    "drop": {"compression.codec": "drop", "compression.keep_ratio": 0.1},
    "fp16": {"compression.codec": "fp16"},
    "secure sums": {"secure.sums": "masked", "rounds.cohort": 0},
    "downlink": {"compression.downlink": "rotate,quantize:8"},
    "stacked": {"training.stack": 3},
}
TOKENS = np.cumsum(np.random.default_rng(1).integers(1, 3, (56, 7)), axis=1) % 12


class Causal(nn.Module):
    """A decoder with its mask, table of positions, and numbers of other kinds among the buffers."""

    def __init__(self, far=-math.inf):
        super().__init__()
        self.embed, self.out = nn.Embedding(12, 8), nn.Linear(8, 12)
        self.query = nn.Linear(8, 8)
        self.register_buffer("mask", torch.triu(torch.full((6, 6), far), 1))
        self.register_buffer("sinusoids", torch.sin(torch.arange(48.0)).reshape(6, 8))
        self.register_buffer("eps", torch.tensor(1e-5))
        self.register_buffer("ids", torch.arange(1, 7))
        self.register_buffer("hash", torch.tensor([2**61 - 1]))

    def forward(self, tokens):
        x = self.embed(tokens) + self.sinusoids * (self.ids > 0).unsqueeze(1)
        weights = torch.softmax(self.query(x) @ x.transpose(1, 2) + self.mask, -1)
        return self.out(x + weights @ x) / (1 + self.eps)


def run(model, out, settings, **given):
    data = from_arrays(TOKENS[:, :-1], TOKENS[:, 1:], TOKENS[:9, :-1], TOKENS[:9, 1:], vocabulary=12, classes=12)
    settings = {"gate.max_ratio": 0.0, **settings}
    given = {"clients": 7, "rounds": 2, "batch_size": 8, "local_epochs": 1, "engine": "inline", **given}
    return fedlearn.run(model=model, data=data, out=out, settings=settings, progress=False, **given)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_constants_stay_to_the_bit(tmp_path, settings):
    made = run(Causal, tmp_path / "run", settings)
    for name, each in Causal().named_buffers():
        assert made.state[name].tobytes() == each.numpy().tobytes(), name
    assert made.evaluate()["loss"] == made.summary["loss"]


def test_a_mask_of_finite_numbers_trains_as_one_of_infinite_ones(tmp_path):
    found = []
    for far in (-math.inf, -1e9):
        torch.manual_seed(1)
        made = run(Causal(far), tmp_path / f"{far}", {**UPDATE, "compression.codec": "eden:1"})
        found.append(made.state["query.weight"])
    assert np.array_equal(*found)


class Later(Causal):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, tokens):
        if self.training:
            self.steps += 1
            if self.steps > 20:
                self.eps.mul_(2)
        return super().forward(tokens)


def test_a_constant_that_a_later_round_changes_ends_the_run_with_its_name_and_the_setting(tmp_path):
    given = {"local_epochs": 9, "rounds": 4}
    with pytest.raises(RunFailed, match=r"training\.send.*buffer eps has changed in a fit.*\[\"\*\", \"eps\"\]"):
        run(Later, tmp_path / "run", {"rounds.backoff": 0.0}, **given)
    made = run(Later, tmp_path / "named", {"training.send": ["*", "eps"]}, **given)
    assert made.state["eps"] > 1e-4 and np.isneginf(made.state["mask"][0, 1])


def by_torch(kind):
    return nn.Sequential(kind(nn.Linear(6, 9)), nn.ReLU(), nn.Linear(9, 3))


class ByHand(nn.Module):
    """A spectral norm as old code has it: a unit vector among the buffers, replaced in each pass."""

    def __init__(self):
        super().__init__()
        self.weight, self.last = nn.Parameter(torch.randn(9, 6)), nn.Linear(9, 3)
        self.register_buffer("weight_u", functional.normalize(torch.randn(9), dim=0))

    def normed(self):
        with torch.no_grad():
            v = functional.normalize(self.weight.T @ self.weight_u, dim=0)
            if self.training:
                self.weight_u = functional.normalize(self.weight @ v, dim=0)
        return self.weight / (self.weight_u @ self.weight @ v)

    def forward(self, x):
        return self.last(functional.relu(x @ self.normed().T))


KINDS = {
    "parametrization": lambda: by_torch(nn.utils.parametrizations.spectral_norm),
    "hook": lambda: by_torch(nn.utils.spectral_norm),
    "by hand": ByHand,
}
ROWS = np.random.default_rng(2).normal(size=(120, 6)).astype(np.float32)


def rows_of_one_class_a_node(model, out, settings, **given):
    labels = ROWS[:, :3].argmax(1)
    data = from_arrays(ROWS + 2 * np.eye(3, 6, dtype=np.float32)[labels], labels, ROWS[:20], labels[:20])
    settings = {"data.classes_per_node": 1, "gate.max_ratio": 0.0, **settings}
    given = {"clients": 6, "rounds": 3, "batch_size": 4, "local_epochs": 3, "lr": 0.3, "engine": "inline", **given}
    given |= {"partition": "pathological", "progress": False}
    return fedlearn.run(model=model, data=data, out=out, settings=settings, **given)


def largest_singular_value(made):
    module = made.model()
    module(torch.zeros(1, 6))
    with torch.no_grad():
        return torch.linalg.matrix_norm(module.normed() if isinstance(module, ByHand) else module[0].weight, 2).item()


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        *thinned(((kind, setting) for kind in KINDS for setting in ("fedavg", "fedadam")), 3),
        *(pytest.param(kind, "eden", marks=pytest.mark.long) for kind in KINDS),
        *thinned((("parametrization", name) for name in ("flower's FedAdam", "secure sums", "downlink", "stacked")), 2),
    ],
)
def test_the_vectors_of_a_spectral_norm_follow_the_weight_of_each_new_state(tmp_path, kind, setting):
    made = rows_of_one_class_a_node(KINDS[kind], tmp_path / "run", SETTINGS[setting])
    vectors = {name: array for name, array in made.state.items() if name.endswith(("_u", "_v"))}
    assert len(vectors) == 1 + (kind != "by hand")
    assert {name: np.linalg.norm(each) for name, each in vectors.items()} == pytest.approx(dict.fromkeys(vectors, 1.0))
    assert largest_singular_value(made) == pytest.approx(1, abs=0.02)


@pytest.mark.long
def test_the_vectors_are_the_same_with_workers_and_after_a_resume(tmp_path):
    kind = KINDS["parametrization"]
    whole = rows_of_one_class_a_node(kind, tmp_path / "whole", {})
    workers = rows_of_one_class_a_node(kind, tmp_path / "workers", {"engine.workers": 2}, engine="embedded")
    half = rows_of_one_class_a_node(kind, tmp_path / "half", {}, rounds=1)
    assert workers.sha256 == whole.sha256
    assert fedlearn.run(resume=half, model=kind, rounds=3, progress=False).sha256 == whole.sha256
