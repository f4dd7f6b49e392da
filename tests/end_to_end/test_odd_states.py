"""States that hold more than float arrays: counters and scales without a dimension, masks, no array at all."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import fedlearn

GIVEN = {
    "clients": 10, "data": "writers:load", "cohort": 5, "local_epochs": 1, "lr": 0.05, "engine": "inline",
    "progress": False,
}  # fmt: skip
UPDATE = {"compression.send": "update"}


class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(28 * 28)  # counts its batches in an array without a dimension
        self.layer = nn.Linear(28 * 28, 62)
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.nothing = nn.Parameter(torch.zeros(0))
        self.register_buffer("mask", torch.arange(62) % 2 == 0)
        self.register_buffer("is_on", torch.tensor(True))

    def forward(self, images):
        return self.layer(self.norm(images.flatten(1))) * self.scale * (1 + self.mask)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="weights", marks=pytest.mark.long),
        pytest.param(UPDATE, id="update", marks=pytest.mark.long),
        pytest.param({**UPDATE, "compression.codec": "residual,top-k:0.1"}, id="residual", marks=pytest.mark.long),
        pytest.param({"strategy.name": "fedadam"}, id="optimizer", marks=pytest.mark.long),
        pytest.param({**UPDATE, "strategy.name": "median"}, id="median", marks=pytest.mark.long),
        pytest.param({"strategy.name": "flwr.serverapp.strategy:FedAdam"}, id="flower", marks=pytest.mark.long),
        pytest.param({**UPDATE, "rounds.schedule": "buffered", "devices.name": "half-normal"}, id="buffered"),
    ],
)
def test_trained_killed_and_resumed_they_are_the_same(tmp_path, settings):
    settings = {"rounds.backoff": 0.0, "gate.max_ratio": 100.0, **settings}
    whole = fedlearn.run(model=Odd, rounds=3, out=tmp_path / "whole", settings=settings, **GIVEN)
    first = fedlearn.run(model=Odd, rounds=2, out=tmp_path / "first", settings=settings, **GIVEN)
    resumed = fedlearn.run(resume=first, model=Odd, rounds=3, progress=False)
    assert resumed.sha256 == whole.sha256
    shapes = {name: tuple(tensor.shape) for name, tensor in Odd().state_dict().items()}
    assert {name: array.shape for name, array in resumed.state.items()} == shapes
    assert resumed.state["mask"].tolist() == [True, False] * 31
    assert resumed.state["is_on"].item() is True
    assert np.isfinite(resumed.state["scale"]).all()
    assert resumed.state["scale"] != 1.0
