"""Nodes that are trained together by ``training.stack = 0`` have the bytes that each has alone, on any processor."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.kernels import PooledConv2d
from fedlearn.kernels.pooled_convolution import has_vectors
from fedlearn.models.stacks import ExactNetwork
from fedlearn.models.torch.torch_model import TorchModel
from tests.contracts.test_learners import model_and_data
from tests.oracles.images import Small, WithDropout, dataset
from tests.unit.client.learners.test_stack import (
    NETWORKS,
    OPTIONS,
    STEP_TAKES,
    Attentive,
    Nets,
    copied,
    learner_of,
    made,
    tasks_of,
)

PROCESSORS = {
    "without": {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "its own": {},
}
"""Instructions that a process is left with -> its environment; a library that knows none of these uses its own."""


def bytes_of(fit):
    arrays, examples, metrics = copied(fit)
    return {name: array.tobytes() for name, array in arrays.items()}, examples, metrics


def check(model, train, sizes, **training):
    learner = learner_of(model, stack=0, **training)
    if not has_vectors():  # there sums depend on where memory begins
        assert "not shown" in learner.why_not_stacked(train)
        return
    assert learner.why_not_stacked(train) == ""
    state = model.initial_state(seed=1)
    tasks = tasks_of(train, sizes)
    assert list(map(bytes_of, learner.fit_many(state, tasks))) == [bytes_of(learner.fit(state, each)) for each in tasks]
    assert isinstance(learner._stack._network, ExactNetwork)


@settings(max_examples=15)
@given(
    sizes=st.lists(st.integers(2, 9), min_size=2, max_size=5),
    features=st.integers(1, 40),
    width=st.integers(1, 40),
    options=st.fixed_dictionaries(OPTIONS),
)
def test_any_sizes_and_options(sizes, features, width, options):
    rng = np.random.default_rng(0)
    train = Examples(rng.normal(size=(40, features)).astype(np.float32), rng.integers(0, 3, 40))
    torch.manual_seed(1)
    layers = [nn.Linear(features, width), nn.Sigmoid(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3)]
    model = TorchModel(lambda: nn.Sequential(*layers), DataSpec("made", (features,), "float32", classes=3))
    check(model, train, sizes, **options)


@pytest.mark.parametrize("name", [pytest.param(n, marks=STEP_TAKES.get(n, ())) for n in NETWORKS])
def test_every_built_in_network(name):
    model, data = model_and_data(name)
    check(model, data.train, (8, 5, 8), batch_size=4)


class Branches(nn.Module):
    """Two ways through our convolution, and one past it, that are added up."""

    def __init__(self):
        super().__init__()
        self.conv = PooledConv2d(3, 7, 3, padding=1, relu=True)
        self.past = nn.Linear(3, 7)
        self.out = nn.Linear(7, 10)

    def forward(self, x):
        """Return logits."""
        once, twice = self.conv(x), self.conv(x.flip(3))
        past = self.past(x.mean((2, 3)))
        return self.out(once.mean((2, 3)) + twice.amax((2, 3)) + past)


@pytest.mark.parametrize("kind", [Small, WithDropout, Nets, Attentive, Branches])
def test_running_means_random_numbers_and_layers_that_meet_again(kind):
    check(made(kind), dataset().train, (7, 4, 7), momentum=0.9)


@pytest.mark.skipif(not has_vectors(), reason="without AVX2 the default trains one by one, as they do depend on it")
def test_products_do_not_depend_on_where_memory_begins():
    """The nodes of a stack lie side by side, so that not each begins where torch would begin a tensor."""
    rng = np.random.default_rng(0)

    def moved_by(tensor, places):
        room = torch.empty(tensor.numel() + places)[places:].view(tensor.shape)
        return room.copy_(tensor)

    def products(x, weight, bias, gradient):
        return nn.functional.linear(x, weight, bias), gradient.mm(weight), gradient.t().mm(x)

    for _ in range(300):
        rows, inside, outside = (int(rng.choice([1, 2, 3, 7, 10, 13, 32, 50, 84, 100, 120, 400])) for _ in range(3))
        given = [torch.randn(shape) for shape in ((rows, inside), (outside, inside), (outside,), (rows, outside))]
        moved = [moved_by(tensor, int(rng.integers(1, 16))) for tensor in given]
        assert all(map(torch.equal, products(*given), products(*moved))), (rows, inside, outside)


IN_A_PROCESS = """
import numpy as np
from tests.unit.client.learners.test_exact_stack import DataSpec, Examples, check, has_vectors
from fedlearn.models import load_model

spec = DataSpec("images", (32, 32, 3), "uint8", classes=10)
train = Examples(np.random.default_rng(0).integers(0, 256, (150, 32, 32, 3)).astype(np.uint8), np.arange(150) % 10)
for name in ("cnn", "mlp", "linear"):
    for size, batch in ((3, 1), (50, 7), (50, 50)):
        check(load_model(name, spec), train, (size,) * 3, batch_size=batch, local_epochs=1)
print(has_vectors())
"""


@pytest.mark.slow
@pytest.mark.parametrize("processor", PROCESSORS)
def test_other_processors(processor):
    command, environment = [sys.executable, "-c", IN_A_PROCESS], {**os.environ, **PROCESSORS[processor]}
    printed = subprocess.run(
        command, env=environment, check=True, timeout=120, stdout=subprocess.PIPE, text=True
    ).stdout
    assert printed.split()[-1] == ("False" if processor == "without" else str(has_vectors()))
