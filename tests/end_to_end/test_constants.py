"""Runs of modules with constants: whatever averages, codes, masks or steps, they stay to the bit, and are not sent."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import fedlearn
from fedlearn.data import from_arrays
from fedlearn.words.errors import RunFailed

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
