"""A run that was begun before a change of fedlearn's arithmetic opens; its resume names one that concerns it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

import fedlearn
from fedlearn.core.errors import UsageError
from fedlearn.data import from_arrays
from fedlearn.models.concerning_changes import CONCERNS
from fedlearn.runs.arithmetic import CHANGES
from fedlearn.runs.manifest import Manifest
from tests.marked import thinned

RNG = np.random.default_rng(1)
DATA = from_arrays(RNG.random((40, 4), np.float32), np.arange(40) % 3)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Parameter(torch.zeros(4, 3)), nn.Parameter(torch.zeros(4, 3))

    def forward(self, x):
        return x @ (self.first + self.second)


class Scaled(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x):
        return super().forward(x) * self.scale


class Counted(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))


FLOWERS = {"strategy": "flwr.serverapp.strategy:FedAvg"}
CONCERNED = {
    "shared gradients": (Shared, {}, "shared gradients"),
    "a constant": (Scaled, {}, "constants"),
    "auxiliary vectors": (lambda: nn.Sequential(spectral_norm(nn.Linear(4, 3))), {}, "constants"),
    "Flower's strategy": (Counted, FLOWERS, "whole numbers"),
    "a class that does not count": (
        lambda: nn.Linear(4, 3), {"loss": nn.CrossEntropyLoss(ignore_index=2)}, "targets"),
    "nothing": (lambda: nn.Linear(4, 3), {}, ""),
    "counters, averaged by us": (Counted, {}, ""),
    "another strategy of Flower's": (lambda: nn.Linear(4, 3), FLOWERS, ""),
}  # fmt: skip


def test_each_change_says_whom_it_concerns():
    assert list(CONCERNS) == list(CHANGES)


def run_of(out, build, others, **more):
    return fedlearn.run(
        clients=2, data=DATA, model=build, rounds=2, engine="inline", out=out, progress=False, **others, **more
    )


def as_before(folder):
    path = folder / "checkpoint.json"
    path.write_bytes(replace(Manifest.read(path), arithmetic=0).packed())


@pytest.mark.parametrize("kind", thinned(CONCERNED, 3))
def test_a_resume_names_the_change_that_concerns_it_and_goes_on_where_it_is_accepted(kind, tmp_path):
    build, others, name = CONCERNED[kind]
    run = run_of(tmp_path / "run", build, others)
    as_before(run.folder)
    assert fedlearn.load(run.folder).evaluate()["accuracy"] == run.summary["accuracy"]
    if not name:
        assert fedlearn.run(resume=run.folder, rounds=3, progress=False).summary["rounds"] == 3
        return
    with pytest.raises(UsageError) as caught:
        fedlearn.run(resume=run.folder, rounds=3, progress=False)
    assert CHANGES[name] in str(caught.value) and "accept_code=True" in str(caught.value)
    assert not any(text in str(caught.value) for other, text in CHANGES.items() if other != name)
    resumed = fedlearn.run(resume=run.folder, rounds=3, progress=False, accept_code=True)
    assert f"fedlearn's {name}" in resumed.summary["notices"][-1]
    assert json.loads((run.folder / "summary.json").read_text())["notices"] == resumed.summary["notices"]
    assert fedlearn.run(resume=run.folder, rounds=4, progress=False).summary["rounds"] == 4


def test_a_run_of_today_is_gone_on_with(tmp_path):
    run = run_of(tmp_path / "run", Shared, {})
    assert Manifest.read(run.folder / "checkpoint.json").arithmetic == len(CHANGES)
    assert fedlearn.run(resume=run.folder, rounds=3, progress=False).summary["rounds"] == 3
