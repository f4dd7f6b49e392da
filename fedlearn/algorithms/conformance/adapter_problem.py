"""The problem of rules for adapters: node i has the loss ||W + s B A - T_i||^2 / 2 of the factors A and B.

W and T_i are 5 x 5: there a transposed product has the right shape. As in `quadratics`, a node's examples are all the
same, and numbers are float64. Nodes have 2, 4, 6 and 8 examples, and weigh .1, .2, .3 and .4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from fedlearn.algorithms.conformance import quadratics
from fedlearn.data import Dataset, from_arrays
from fedlearn.data.data_spec import DataSpec
from fedlearn.extend import Float64, State

HERE = __name__
SIDE = 5
SCALE = 0.5  # s


@dataclass(frozen=True, slots=True)
class LowRank:
    """Nodes with targets, and how they walk.

    Parameters
    ----------
    rank
        That of the module's factors.
    ranks
        Of the nodes' own factors; empty: that of the module.
    lr, momentum
        Of the local steps.
    rounds
        How many rounds there are; all nodes take part in each.
    options
        Options of the algorithm itself: setting -> value.
    """

    rank: int = 3
    ranks: tuple[int, ...] = ()
    lr: float = 0.05
    momentum: float = 0.0
    rounds: int = 4
    steps: tuple[int, ...] = (1, 2, 3, 4)
    options: dict[str, object] = field(default_factory=dict)

    @property
    def weights(self) -> list[float]:
        """The weight of each node in means; they sum to 1."""
        return [steps / sum(self.steps) for steps in self.steps]

    def rank_of(self, i: int) -> int:
        """Return the rank of node i."""
        return self.ranks[i % len(self.ranks)] if self.ranks else self.rank

    @property
    def settings(self) -> dict[str, object]:
        """The settings of a run on this problem, without those of the algorithm: two examples a step, one pass."""
        ranks: dict[str, object] = {"strategy.options.ranks": list(self.ranks)} if self.ranks else {}
        return {
            **quadratics.Problem(momentum=self.momentum, lr=self.lr, rounds=self.rounds).settings,
            "clients": len(self.steps),
            "data.dataset": f"{HERE}:load",
            "data.options": {"sizes": [2 * steps for steps in self.steps]},
            "model.name": f"{HERE}:Adapted",
            "model.options": {"rank": self.rank},
            "training.local_epochs": 1,
            "strategy.weighting": "examples",
            "evaluation.nodes": len(self.steps),
            **ranks,
            **self.options,
        }

    def losses(self, own: Sequence[float]) -> list[float]:
        """Return the losses of the nodes' own models, which their walk holds."""
        return list(own)


def matrix(seed: float, rows: int, columns: int) -> Float64:
    """Return a matrix of numbers that float32 holds."""
    numbers = np.cos(seed + 2.3 * np.arange(rows * columns) ** 1.1)
    return np.asarray(np.round(64 * numbers).reshape(rows, columns) / 64)


def weight() -> Float64:
    """Return W."""
    return matrix(1.0, SIDE, SIDE)


def target(i: int) -> Float64:
    """Return T_i."""
    return matrix(10.0 + i, SIDE, SIDE)


def first(rank: int) -> tuple[Float64, Float64]:
    """Return A and B before round 1."""
    return matrix(3.0, rank, SIDE), np.zeros((SIDE, rank))


def probe(down: Float64, up: Float64 | None) -> float:
    """Return one number of a product B A, to which all its entries add; of A alone, where B is not shared."""
    numbers = down if up is None else up @ down
    return float((np.cos(1 + np.arange(numbers.size)) * numbers.ravel()).sum())


def number_in(state: State, personal: str) -> float:
    """Return the number of a run's state; `personal` is ``training.personal``."""
    return probe(state["lora_A.default"], None if personal else state["lora_B.default"])


def load(data_dir: str, *, sizes: Sequence[int]) -> Dataset:
    """Return the examples of the nodes: targets."""
    nodes, count = np.repeat(np.arange(len(sizes)), sizes), len(sizes)
    targets = np.stack([target(i).ravel() for i in range(count)])
    return from_arrays(
        targets[nodes], np.zeros(len(nodes)), targets, np.zeros(count), groups=nodes, groups_test=np.arange(count),
        name="low-rank", mean=0, std=1,
    )  # fmt: skip


class Adapted(nn.Module):
    """Computes ||W + s B A - T||^2 / 2 of each example T."""

    def __init__(self, spec: DataSpec, *, rank: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.from_numpy(weight()))
        down, up = first(rank)
        self.lora_A = nn.ParameterDict({"default": nn.Parameter(torch.from_numpy(down))})
        self.lora_B = nn.ParameterDict({"default": nn.Parameter(torch.from_numpy(up))})

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the losses, shape (B, 1)."""
        adapted = self.weight + SCALE * self.lora_B["default"] @ self.lora_A["default"]
        losses: Tensor = (adapted.ravel() - inputs.double()).square().sum(1, keepdim=True) / 2
        return losses
