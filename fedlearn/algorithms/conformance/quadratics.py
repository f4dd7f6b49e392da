"""The problem: each node i has the loss a_i/2 (x - t_i)^2 of one number x, which begins at 0.

An example is (a, t), and a node's examples are all the same, so that a step on any batch is a step on its loss. Numbers
are float64, so that a walk equals its formula to the last digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from fedlearn.data import Dataset, from_arrays
from fedlearn.data.data_spec import DataSpec
from fedlearn.extend import State

HERE = __name__


@dataclass(frozen=True, slots=True)
class Problem:
    """Nodes with quadratics, and how they walk.

    Parameters
    ----------
    a, t
        Curvature and target of each node.
    steps
        Local steps of each node in a round.
    lr, momentum, pull
        Of the local steps: ``training.lr``, ``training.momentum`` and ``training.proximal_mu``.
    rounds
        How many rounds there are; all nodes take part in each.
    by_examples
        Whether a node weighs as many as it has examples, two a step where steps are unequal; else each weighs one.
    is_layered
        Whether x is the sum of two numbers, each a layer: body and head.
    options
        Options of the algorithm itself: setting -> value.
    """

    a: tuple[float, ...] = (1.0, 3.0)
    t: tuple[float, ...] = (0.0, 10.0)
    steps: tuple[int, ...] = (5, 5)
    lr: float = 0.05
    momentum: float = 0.0
    pull: float = 0.0
    rounds: int = 10
    by_examples: bool = False
    is_layered: bool = False
    options: dict[str, object] = field(default_factory=dict)

    @property
    def weights(self) -> list[float]:
        """The weight of each node in means; they sum to 1."""
        parts = self.steps if self.by_examples else [1] * len(self.a)
        return [part / sum(parts) for part in parts]

    @property
    def optimum(self) -> float:
        """The x at which the mean of the nodes' losses is least."""
        curvatures = [weight * a for weight, a in zip(self.weights, self.a, strict=True)]
        return sum(each * t for each, t in zip(curvatures, self.t, strict=True)) / sum(curvatures)

    def losses(self, own: Sequence[float]) -> list[float]:
        """Return the losses of the nodes' own numbers."""
        return [a / 2 * (each - t) ** 2 for a, t, each in zip(self.a, self.t, own, strict=False)]

    @property
    def settings(self) -> dict[str, object]:
        """The settings of a run on this problem, without those of the algorithm: full batches, or one a step."""
        is_even = len(set(self.steps)) == 1
        sizes = [2] * len(self.steps) if is_even else [2 * steps for steps in self.steps]
        return {
            "clients": len(self.a),
            "data.dataset": f"{HERE}:load",
            "data.options": {"a": list(self.a), "t": list(self.t), "sizes": sizes},
            "data.partition": "natural",
            "model.name": f"{HERE}:{'Layered' if self.is_layered else 'Quadratic'}",
            "model.loss": f"{HERE}:mean_of",
            "training.local_epochs": self.steps[0] if is_even else 1,
            "training.batch_size": 2,
            "training.lr": self.lr,
            "training.lr_schedule": "constant",
            "training.momentum": self.momentum,
            "rounds.total": self.rounds,
            "rounds.cohort": 0,
            "rounds.keep_every": 1,
            "rounds.store_every": self.rounds,
            "evaluation.every": self.rounds,
            "strategy.weighting": "examples" if self.by_examples else "uniform",
            "evaluation.nodes": len(self.a),
            "evaluation.where": "none",
            "gate.max_ratio": 0,
            "gate.max_share": 1,
            "engine.name": "inline",
            **({"training.proximal_mu": self.pull} if self.pull else {}),
            **self.options,
        }


def number_in(state: State, personal: str) -> float:
    """Return x of a run's state, of the layer that is shared; `personal` is ``training.personal``."""
    return float(state["head.value" if "!" in personal else "body.value"][0])


def load(data_dir: str, *, a: Sequence[float], t: Sequence[float], sizes: Sequence[int]) -> Dataset:
    """Return the examples of a problem: `sizes` says how many each node has."""
    nodes = np.repeat(np.arange(len(a)), sizes)
    pairs = np.stack([a, t], axis=1)
    count = len(a)
    return from_arrays(
        pairs[nodes], np.zeros(len(nodes)), pairs, np.zeros(count), groups=nodes, groups_test=np.arange(count),
        name="quadratics", mean=0, std=1,
    )  # fmt: skip


class Number(nn.Module):
    """A layer of one number, which it adds to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the input plus the number."""
        return inputs + self.value


class Quadratic(nn.Module):
    """Computes a/2 (x - t)^2 of each example."""

    def __init__(self, spec: DataSpec) -> None:
        super().__init__()
        self.body = Number()

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the losses, shape (B, 1)."""
        a, t = inputs[:, :1].double(), inputs[:, 1:].double()
        losses: Tensor = a / 2 * (self.x(torch.zeros_like(a)) - t) ** 2
        return losses

    def x(self, zeros: Tensor) -> Tensor:
        """Return x for each example."""
        x: Tensor = self.body(zeros)
        return x


class Layered(Quadratic):
    """Computes a/2 (x - t)^2, where x is the sum of a body and a head."""

    def __init__(self, spec: DataSpec) -> None:
        super().__init__(spec)
        self.head = Number()

    def x(self, zeros: Tensor) -> Tensor:
        """Return x for each example."""
        x: Tensor = self.head(self.body(zeros))
        return x


def mean_of(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean loss: the module has computed the losses."""
    return outputs.mean()
