"""The laws of strategies that slice: which units a client has, who is counted in a mean, what a slice computes.

They are checked on a small network with two widths, whose slices are written down here once more, as the papers have
them: with masks on all units, not with smaller arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedlearn.algorithms.conformance.quadratics import Problem
from fedlearn.algorithms.conformance.walking import Walk
from fedlearn.config import RunConfig
from fedlearn.core.cohort import At
from fedlearn.core.state import Entries, Sends, State, layout_of
from fedlearn.data.data_spec import DataSpec
from fedlearn.extend import MaskedSum, Turn
from fedlearn.models.slices.slicing import Slices, Slicing
from fedlearn.models.slices.tracing import SlicedModule, sliced_module
from fedlearn.models.torch.torch_model import TorchModel
from fedlearn.plugins.registry import load_plugin
from fedlearn.plugins.tables import ALGORITHMS, LEARNERS
from strategies import load_strategy

Run = Callable[[Mapping[str, object]], Walk]
CHANNELS, HIDDEN, CLASSES = 6, 10, 3  # HIDDEN * 0.25 and 0.55 are no whole numbers
RATIOS = (1.0, 0.55, 0.25)
SPEC = DataSpec("slices", (4, 4, 1), "float32", classes=CLASSES)
NEAR = 1e-5


class Network(nn.Module):
    """Convolutions with norms and a residual connection, and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(1, CHANNELS, 3, padding=1), nn.BatchNorm2d(CHANNELS)
        self.second, self.norm2 = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.BatchNorm2d(CHANNELS)
        self.hidden, self.out = nn.Linear(CHANNELS * 4, HIDDEN), nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (B, K) of images (B, 1, 4, 4)."""
        x = torch.relu(self.norm1(self.first(x)))
        x = torch.relu(self.norm2(self.second(x)) + x)
        return self.out(torch.relu(self.hidden(functional.max_pool2d(x, 2).flatten(1))))  # type: ignore[no-any-return]

    def masked(self, x: Tensor, channels: Tensor, hidden: Tensor, scale: float) -> Tensor:
        """Return the logits of the units of a slice: all others are zero, and outputs are divided by `scale`."""
        images = channels[:, None, None]
        x = torch.relu(self.norm1(self.first(x) / scale)) * images
        x = torch.relu(self.norm2(self.second(x) / scale) + x) * images
        x = torch.relu(self.hidden(functional.max_pool2d(x, 2).flatten(1)) / scale) * hidden
        return self.out(x)  # type: ignore[no-any-return]


def units_of(algorithm: str, width: int, ratio: float, round_number: int) -> list[int]:
    """Return the units of a width that a client has, as the paper of the algorithm says."""
    if algorithm != "fedrolex":
        return list(range(math.ceil(ratio * width)))
    start = (round_number - 1) % width
    return sorted((start + place) % width for place in range(max(math.floor(ratio * width), 1)))


class Sliced:
    """What a strategy makes of the small network.

    Parameters
    ----------
    algorithm
        Which it claims to be.
    name
        The strategy, as in ``strategy.name``.
    """

    def __init__(self, algorithm: str, name: str) -> None:
        settings: dict[str, Any] = {"strategy": {"name": name, "options": {"ratios": list(RATIOS)}}}
        self.algorithm, self.config = algorithm, RunConfig(clients=len(RATIOS), **settings)
        self.strategy = load_strategy(self.config.strategy)
        self.slicing: Slicing = self.strategy.slicing  # type: ignore[attr-defined]
        self.model = TorchModel(Network, SPEC)
        self.module: SlicedModule = sliced_module(self.model, name)
        rng = np.random.default_rng(1)
        first = self.model.initial_state(seed=1)
        self.state: State = {  # no weight of a norm is 1, no mean 0
            each: (rng.uniform(0.2, 1, array.shape) if array.dtype.kind == "f" else array).astype(array.dtype)
            for each, array in first.items()
        }
        self.slices = Slices(self.slicing.keep, self.module.axes, layout_of(self.state))

    def has(self, name: str, ratio: float, round_number: int) -> NDArray[np.bool_]:
        """Return which entries of an array a client has, by the paper."""
        channels = np.isin(np.arange(CHANNELS), units_of(self.algorithm, CHANNELS, ratio, round_number))
        hidden = np.isin(np.arange(HIDDEN), units_of(self.algorithm, HIDDEN, ratio, round_number))
        layer, _, array = name.partition(".")
        rows = {"hidden": hidden, "out": np.ones(CLASSES, bool)}.get(layer, channels)
        if array == "num_batches_tracked":
            return np.array(True)
        if array != "weight" or layer.startswith("norm"):
            return rows
        columns = {"first": np.ones(1, bool), "second": channels, "hidden": np.repeat(channels, 4), "out": hidden}[
            layer
        ]
        mask = rows[:, None] & columns[None]
        return np.broadcast_to(mask[..., None, None], self.state[name].shape) if layer in ("first", "second") else mask


def ratio_1(algorithm: str, name: str, run: Run) -> str:
    """Return how the walk of slices of ratio 1 differs from FedAvg's; empty if it is the same in every digit."""
    settings = {**Problem().settings, "evaluation.nodes": 0}
    own = run({**settings, **ALGORITHMS.get(algorithm, {}), "strategy.name": name, "strategy.options.ratios": [1.0]})
    plain = run({**settings, "strategy.name": "fedavg"})
    return "" if own.states == plain.states else "with ratio 1 for all clients it is not FedAvg, digit by digit"


def weights(algorithm: str, name: str, run: Run) -> str:
    """Return the entry whose mean is not over the clients that have it; empty if there is none."""
    sliced, number = Sliced(algorithm, name), 3
    total = MaskedSum.empty(layout_of(sliced.state))
    for place, ratio in enumerate(RATIOS):
        sent = {
            each: Entries(np.full(array.size, place + 1, array.dtype))
            for each, array in sliced.slices.of(sliced.state, ratio, number).items()
        }
        update = sliced.slices.back(sent, ratio, number)
        total.add([(place + 2.0, update)])
    after = sliced.strategy.next_state(Turn(sliced.state, total, Sends.WEIGHTS, at=At(number, 1))).state
    for each, array in sliced.state.items():
        weight, product = np.zeros(array.shape), np.zeros(array.shape)
        for place, ratio in enumerate(RATIOS):
            has = sliced.has(each, ratio, number)
            weight, product = weight + (place + 2.0) * has, product + (place + 2.0) * (place + 1) * has
        mean = np.where(weight > 0, product / np.maximum(weight, 1), array)
        if not np.allclose(after[each], mean if array.dtype.kind == "f" else np.rint(mean), rtol=0, atol=NEAR):
            return f"a mean of {each} is not over the clients that have the entry"
    return ""


def units(algorithm: str, name: str, run: Run) -> str:
    """Return where the units of a client are not the paper's in one of 2 K rounds; empty if they are everywhere."""
    keep = Sliced(algorithm, name).slicing.keep
    for width in (CHANNELS, HIDDEN):
        for ratio in RATIOS:
            for number in range(1, 2 * width + 1):
                found = np.flatnonzero(keep(width, ratio, number)).tolist()
                if found != (exact := units_of(algorithm, width, ratio, number)):
                    return f"in round {number} a client of ratio {ratio:g} has units {found} of {width}, not {exact}"
    return ""


def masked_module(algorithm: str, name: str, run: Run) -> str:
    """Return where a slice computes something else than the masked whole module; empty if it does nowhere."""
    sliced = Sliced(algorithm, name)
    learner: Any = _learner(algorithm, name).from_settings(sliced.model, sliced.config)
    images = torch.from_numpy(np.random.default_rng(2).uniform(0, 1, (5, 1, 4, 4)).astype(np.float32))
    whole = Network()
    for ratio in RATIOS:
        keeps = (units_of(algorithm, width, ratio, 1) for width in (CHANNELS, HIDDEN))
        both = zip((CHANNELS, HIDDEN), keeps, strict=True)
        masks = [torch.zeros(width).index_fill(0, torch.tensor(kept), 1.0) for width, kept in both]
        for training in (False, True):
            model = learner.at(ratio).model
            model.load(sliced.slices.of(sliced.state, ratio, 1))
            whole.load_state_dict({each: torch.from_numpy(array.copy()) for each, array in sliced.state.items()})
            scale = ratio if training and algorithm == "heterofl" else 1.0
            with torch.no_grad():
                found = model.module.train(training)(images)
                exact = whole.train(training).masked(images, masks[0], masks[1], scale)
            if not torch.allclose(found, exact, rtol=NEAR, atol=NEAR):
                when = "in training" if training else "when it is measured"
                return f"at ratio {ratio:g} the slice computes something else than the masked whole module, {when}"
    return ""


def _learner(algorithm: str, name: str) -> Any:
    own = getattr(load_plugin("check", name), "learner", "") if ":" in name else ""
    return load_plugin("check", LEARNERS.get(own or algorithm, own))


SLICE_LAWS: dict[str, Callable[[str, str, Run], str]] = {
    "ratio 1": ratio_1, "weights": weights, "units": units, "masked module": masked_module,
}  # fmt: skip
"""Law -> what returns why it fails, of an algorithm and a strategy; empty where it holds."""
