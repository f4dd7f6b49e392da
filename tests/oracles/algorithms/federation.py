"""A small federation: four nodes of unequal sizes and classes, a body and a head, all numbers float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedlearn.data import from_arrays

SIZES, CLASSES, FEATURES = (6, 9, 12, 5), 4, 3
Params = dict[str, Tensor]


def examples(*, alike: bool = False):
    """Return inputs, classes and nodes of all examples; node k lacks class k; those of one node may be all alike."""
    rng = np.random.default_rng(4)
    nodes = np.repeat(np.arange(4), SIZES)
    y = np.array([rng.choice([c for c in range(CLASSES) if c != node]) for node in nodes])
    X = rng.normal(size=(len(y), FEATURES)) + 0.5 * y[:, None]
    first = np.searchsorted(nodes, nodes) if alike else np.arange(len(y))
    return X[first], y[first], nodes


def load(data_dir, *, alike: bool = False):
    X, y, nodes = examples(alike=alike)
    return from_arrays(X, y, X, y, groups=nodes, groups_test=nodes, name="federation", classes=CLASSES, mean=0, std=1)


def load_odd(data_dir):
    """Return examples of which nodes have 1, 12, 39 and 20: in batches of ten one and two are left over."""
    rng = np.random.default_rng(5)
    nodes = np.repeat(np.arange(4), (1, 12, 39, 20))
    y = rng.integers(0, CLASSES, len(nodes))
    X = rng.normal(size=(len(y), FEATURES)) + 0.5 * y[:, None]
    return from_arrays(X, y, X, y, groups=nodes, groups_test=nodes, name="odd", classes=CLASSES, mean=0, std=1)


def load_places(data_dir):
    """Return examples with a label at each of two places."""
    X, y, nodes = examples()
    both = np.stack([y, y[::-1]], axis=1)
    return from_arrays(X, both, X, both, groups=nodes, groups_test=nodes, name="places", classes=CLASSES, mean=0, std=1)


class Net(nn.Module):
    def __init__(self, spec=None):
        super().__init__()
        self.body = nn.Linear(FEATURES, 5, dtype=torch.float64)
        self.head = nn.Linear(5, CLASSES, dtype=torch.float64)

    def forward(self, inputs):
        return self.head(torch.tanh(self.body(inputs.double())))


class Places(Net):
    """Has one logit more than there are classes, at each of two places."""

    def __init__(self, spec=None):
        super().__init__()
        self.norm = nn.LayerNorm(5, dtype=torch.float64)
        self.head = nn.Linear(5, 2 * (CLASSES + 1), dtype=torch.float64)

    def forward(self, inputs):
        return self.head(torch.tanh(self.norm(self.body(inputs.double())))).reshape(-1, CLASSES + 1, 2)


class Normed(Net):
    def __init__(self, spec=None):
        super().__init__()
        self.norm = nn.BatchNorm1d(5, dtype=torch.float64)
        self.head = nn.Linear(5, CLASSES, dtype=torch.float64)

    def forward(self, inputs):
        return self.head(torch.tanh(self.norm(self.body(inputs.double()))))


def represent(params: Params, X: Tensor) -> Tensor:
    return torch.tanh(X @ params["body.weight"].T + params["body.bias"])


def logits_of(params: Params, X: Tensor) -> Tensor:
    return represent(params, X) @ params["head.weight"].T + params["head.bias"]


def loss(params: Params, X: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(logits_of(params, X), y)


Loss = Callable[[Params, Tensor, Tensor], Tensor]


def gradient(params: Params, of: Callable[[Params], Tensor]) -> Params:
    leaves = {name: each.detach().clone().requires_grad_() for name, each in params.items()}
    found = torch.autograd.grad(of(leaves), list(leaves.values()), allow_unused=True)
    return {name: torch.zeros_like(params[name]) if g is None else g for name, g in zip(leaves, found, strict=True)}


def mean(several: Sequence[Params], weights: Sequence[float]) -> Params:
    total = sum(weights)
    return {name: sum(w * p[name] for w, p in zip(weights, several, strict=True)) / total for name in several[0]}


def moved(params: Params, by: Params, scale: float = 1.0) -> Params:
    return {name: params[name] + scale * by[name] if name in by else params[name] for name in params}


def minus(one: Params, other: Params) -> Params:
    return {name: one[name] - other[name] for name in one}


def only(params: Params, part: str) -> Params:
    return {name: each for name, each in params.items() if name.startswith(part)}


@dataclass
class Federation:
    """The nodes' examples, and how they train: full batches, SGD with momentum from zero in each round."""

    start: Params
    who: Sequence[Sequence[int]]
    steps: int = 3
    lr: float = 0.2
    momentum: float = 0.0
    alike: bool = False

    def __post_init__(self):
        X, y, nodes = examples(alike=self.alike)
        inputs = torch.from_numpy(X.astype(np.float32)).double()
        self.nodes = [(inputs[nodes == k], torch.from_numpy(y)[nodes == k]) for k in range(4)]
        self.sizes = [len(y) for _, y in self.nodes]

    def local(self, params: Params, k: int, *, of: Loss = loss, more=None, part: str = "", steps: int = 0) -> Params:
        """Return the parameters after a node's steps; `more(y)` is added to the gradient, `part` is what is changed."""
        X, y = self.nodes[k]
        velocity = {name: torch.zeros_like(each) for name, each in params.items()}
        for _ in range(steps or self.steps):
            g = gradient(params, lambda leaves: of(leaves, X, y))
            g = moved(g, more(params)) if more else g
            velocity = {name: self.momentum * velocity[name] + g[name] for name in g}
            params = moved(params, only(velocity, part), -self.lr)
        return params

    def averaged(self, node, server=None) -> Params:
        """Return the end of an algorithm without memory: x' = server(x, nodes, models), else their mean by examples."""
        x = self.start
        for who in self.who:
            ys = [node(x, k) for k in who]
            weights = [self.sizes[k] for k in who]
            x = mean(ys, weights) if server is None else server(x, who, ys)
        return x


class Images(nn.Module):
    """A network of two layers for images."""

    norm: type[nn.Module] = nn.Identity

    def __init__(self, spec):
        super().__init__()
        size = int(np.prod(spec.shape))
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(size, 64), self.norm(64), nn.ReLU())
        self.head = nn.Linear(64, spec.classes)

    def forward(self, inputs):
        return self.head(self.layers(inputs))


class NormedImages(Images):
    norm = nn.BatchNorm1d
