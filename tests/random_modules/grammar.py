"""Random modules, and what torch.optim makes of them: one round of equal nodes must come to the same.

A module is a chain of parts of width 6 and a head of 3 classes. Each part is one of those that bugs of others and ours
were about: shared gradients, tied and frozen parameters, norms, parametrizations, buffers of every dtype, lazy layers,
parameters that no example reaches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

import fedlearn
from fedlearn.data import from_arrays

WIDTH, CLASSES, ROWS, EPOCHS, LR = 6, 3, 40, 3, 0.1
BITS, CLIP = 8, 4.0  # of an entry that is sent; of a change in a secure sum
DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
)  # fmt: skip


class Summed(nn.Module):
    """A weight that is the sum of two parameters, which get one gradient tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.3)
        self.own = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.shared + self.own)


class Biases(nn.Module):
    """Two biases that are added, and a vector of which only the sum counts."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.many = (nn.Parameter(torch.randn(WIDTH) * 0.1) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return x + (self.one + self.two) + self.many.sum()


class Tied(nn.Module):
    """Two layers of one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x)))


class Frozen(nn.Module):
    """A layer of which the weight is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.layer.weight.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class Experts(nn.Module):
    """Two layers, of which the examples reach the second only if their first number is large."""

    def __init__(self) -> None:
        super().__init__()
        self.usual, self.rare = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x[:, :1] > 1.5, self.rare(x), self.usual(x))


class Holding(nn.Module):
    """Constants of every dtype, among them a mask of -inf and an integer beyond 2^53."""

    def __init__(self) -> None:
        super().__init__()
        for each in DTYPES:
            self.register_buffer(f"held_{str(each).removeprefix('torch.')}", torch.tensor([0, 1, 1]).to(each))
        self.register_buffer("mask", torch.tensor([0.0] * (WIDTH - 1) + [-torch.inf]))
        self.register_buffer("large", torch.tensor(2**60 + 1))
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale * torch.exp(self.mask)


PARTS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(WIDTH, WIDTH),
    "summed": Summed,
    "biases": Biases,
    "tied": Tied,
    "frozen": Frozen,
    "experts": Experts,
    "holding": Holding,
    "lazy": lambda: nn.LazyLinear(WIDTH),
    "spectral norm": lambda: spectral_norm(nn.Linear(WIDTH, WIDTH)),
    "weight norm": lambda: weight_norm(nn.Linear(WIDTH, WIDTH)),
    "batch norm": lambda: nn.BatchNorm1d(WIDTH),
    "layer norm": lambda: nn.LayerNorm(WIDTH),
    "bilinear": lambda: nn.Sequential(nn.Unflatten(1, (2, 3)), nn.Flatten()),
}
OPTIMIZERS: dict[str, dict[str, float | str]] = {
    "plain": {"training.momentum": 0.0},
    "momentum": {"training.momentum": 0.9},
    "decay": {"training.momentum": 0.9, "training.weight_decay": 0.1},
    "clip": {"training.momentum": 0.0, "training.clip_norm": 0.05},
    "pull": {"training.momentum": 0.0, "training.proximal_mu": 1.0},
    "adam": {"training.optimizer": "adam", "training.momentum": 0.0},
}
WAYS: dict[str, dict[str, Any]] = {
    "weights": {},
    "update": {"compression.send": "update"},
    "Flower's FedAvg": {"strategy.name": "flwr.serverapp.strategy:FedAvg"},
    "median": {"strategy.name": "median"},
    "stack": {"training.stack": 2},
    "two workers": {"engine.name": "embedded", "engine.workers": 2},
    "fp16": {"compression.send": "update", "compression.codec": "fp16"},
    "quantize": {"compression.send": "update", "compression.codec": f"quantize:{BITS}"},
    "drop": {"compression.send": "update", "compression.codec": "drop:0.5"},
    "top-k": {"compression.send": "update", "compression.codec": "top-k:0.3"},
    "secure sums": {"secure.sums": "unmasked", "secure.clip": CLIP, "secure.bits": 16, "secure.dropouts": 0.0},
    "masks": {"secure.sums": "masked", "secure.clip": CLIP, "secure.bits": 16, "secure.dropouts": 0.0},
}
"""By which one round of equal nodes is what one node makes, or is as near to it as the way says."""
SELDOM = ("two workers", "masks")  # they take seconds each


def as_near(way: str, found: np.ndarray, right: np.ndarray, start: np.ndarray, far: float) -> bool:
    """Return whether an array is what it must be, up to the stated error of the way in which its change was sent."""
    if way in ("secure sums", "masks") and not np.issubdtype(right.dtype, np.floating):
        return np.array_equal(found, start)  # whole numbers are not summed
    change = right.astype(np.float64) - start
    largest = np.abs(change).max(initial=0.0)
    error: np.ndarray | float = {
        "fp16": np.abs(change) * 2.0**-10 + 2.0**-24,  # a float16 has eleven bits
        "quantize": 2 * largest / (2**BITS - 1),  # one step
        "secure sums": 2 * CLIP / 2**16,
        "masks": 2 * CLIP / 2**16,
    }.get(way, 0.0)
    near = np.abs(found.astype(np.float64) - right) <= far * (1 + np.abs(right)) + error
    moved = found.astype(np.float64) - start
    if way in ("drop", "top-k"):  # an entry that nobody has sent keeps its value
        near |= np.abs(moved) <= 1e-7
    if way == "top-k":  # one that some nodes have not sent counts as zero there: of equal ones, rounding chooses
        near |= (moved * change >= 0) & (np.abs(moved) <= np.abs(change) * (1 + far) + 1e-7)
    return bool(near.all())


@dataclass(frozen=True, slots=True)
class Case:
    """A random module, and how it is trained; all of it follows from a number."""

    number: int
    parts: tuple[str, ...] = field(init=False)
    optimizer: str = field(init=False)
    way: str = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.number)
        ways = [way for way in WAYS if way not in SELDOM or self.number % 20 == 0]
        object.__setattr__(self, "parts", tuple(rng.choice(list(PARTS), rng.integers(1, 5)).tolist()))
        object.__setattr__(self, "optimizer", str(rng.choice(list(OPTIMIZERS))))
        object.__setattr__(self, "way", str(rng.choice(ways)))

    def __str__(self) -> str:
        """Return the number, and what it stands for."""
        return f"{self.number}: {', '.join(self.parts)}; {self.optimizer}; {self.way}"

    def module(self) -> nn.Module:
        """Return the module, the same each time."""
        torch.manual_seed(self.number)
        layers = [nn.Sequential(PARTS[each](), nn.Tanh()) for each in self.parts]
        return nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES))

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the examples of each node: (rows, 6) and (rows,)."""
        rng = np.random.default_rng([self.number, 1])
        X = rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
        return X, (X @ rng.normal(size=(WIDTH, CLASSES))).argmax(1)

    def by_torch(self, start: dict[str, Tensor]) -> dict[str, np.ndarray]:
        """Return the state after one epoch after another on all rows, by torch.optim."""
        settings, module = OPTIMIZERS[self.optimizer], self.module()
        X, y = map(torch.from_numpy, self.rows())
        module.eval()(X)  # a lazy layer has its shape then
        module.load_state_dict(start)
        trained = [each for each in module.parameters() if each.requires_grad]
        before = [each.detach().clone() for each in trained]
        if self.optimizer == "adam":
            optimizer: torch.optim.Optimizer = torch.optim.Adam(trained, lr=LR)
        else:
            momentum, decay = float(settings["training.momentum"]), float(settings.get("training.weight_decay", 0.0))
            optimizer = torch.optim.SGD(trained, lr=LR, momentum=momentum, weight_decay=decay)
        module.train()
        for _ in range(EPOCHS):
            optimizer.zero_grad()
            functional.cross_entropy(module(X), y).backward()
            for each, first in zip(trained, before, strict=True):
                if each.grad is not None and self.optimizer == "pull":
                    each.grad = each.grad + (each.detach() - first)
            if self.optimizer == "clip":
                nn.utils.clip_grad_norm_(trained, float(settings["training.clip_norm"]))
            optimizer.step()
        return {name: each.detach().numpy().copy() for name, each in module.state_dict().items()}

    def wrong(self, folder: Path) -> str:
        """Return what differs from torch.optim after one round of equal nodes; empty if nothing does."""
        start = self.module()
        start.eval()(torch.from_numpy(self.rows()[0]))
        begun = {name: each.clone() for name, each in start.state_dict().items()}
        if "lazy" in self.parts:  # its first values are drawn when its shape is known
            still = self.run(folder / "still", {"training.lr": 1e-30, "training.optimizer": "sgd"}).state
            trained = {name for name, _ in start.named_parameters()}
            begun |= {name: torch.from_numpy(np.array(still[name])) for name in trained}
        found, wanted = self.run(folder / "run", {}).state, self.by_torch(begun)
        far = 1e-3 if self.optimizer == "adam" or "spectral norm" in self.parts else 2e-5
        for name, right in wanted.items():
            if name.endswith(("._u", "._v")):  # the server computes them until they are settled
                if abs(np.linalg.norm(found[name]) - 1) > 1e-5:
                    return f"{name} has the length {np.linalg.norm(found[name])}, not 1"
                continue
            is_held = "held_" in name or name.endswith(("mask", "large"))
            same = np.array_equal(found[name], right) if is_held else self.is_near(found[name], right, begun[name], far)
            if not same:
                return f"{name} is {found[name].reshape(-1)[:3]}, not {right.reshape(-1)[:3]}"
        return ""

    def is_near(self, found: np.ndarray, right: np.ndarray, begun: Tensor, far: float) -> bool:
        """Return whether an array is as near to that of torch.optim as the way allows."""
        return as_near(self.way, found, right, begun.numpy(), far)

    def run(self, folder: Path, more: dict[str, Any]) -> Any:
        """Return a run of one round of equal nodes."""
        X, y = self.rows()
        nodes = 3 + 4 * (self.number % 2)  # seven sevenths of 3 are less than 3, in float64
        groups = np.repeat(range(nodes), ROWS)
        data = from_arrays(np.tile(X, (nodes, 1)), np.tile(y, nodes), X[:8], y[:8], classes=CLASSES, groups=groups)
        settings = {
            "model.name": f"{__name__}:made", "model.options.number": self.number, "data.partition": "natural",
            "training.lr_schedule": "constant", "training.lr": LR, "training.batch_size": ROWS, "rounds.total": 1,
            "training.local_epochs": EPOCHS, "rounds.max_attempts": 1, "gate.max_ratio": 0.0, "gate.max_share": 1.0,
            "engine.name": "inline", **OPTIMIZERS[self.optimizer], **WAYS[self.way], **more,
        }  # fmt: skip
        return fedlearn.run(nodes, data=data, progress=False, out=folder, settings=settings)


def made(number: int) -> nn.Module:
    """Return the module of a number; of every twenty-fifth, compiled, once in two hundred by torch's own compiler."""
    module = Case(number).module()
    if number % 200 == 178:
        return torch.compile(module)  # type: ignore[return-value]
    return torch.compile(module, backend="eager") if number % 25 == 3 else module  # type: ignore[return-value]
