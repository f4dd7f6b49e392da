"""Ditto: each node has a model of its own beside the common one, and keeps it near.

A node takes steps on f_i(v) + pull/2 ||v - x||^2 for its own v, and plain steps from x, whose result is averaged as in
FedAvg, to the same bytes. With a pull of 0 each node trains alone. Nodes are measured with v (``evaluation.nodes``).

Source: Li et al. 2021, "Ditto: fair and robust federated learning through personalization" (arXiv:2012.04221),
algorithm 1; there the pull, lambda, is 0.05 to 2.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedlearn.extend import SGD, FedAvg, LocalFit, LocalTask, NodeMemory, NonNegative, RunConfig, State, TorchModel

OWN = "own"  # of a node's memory: v


class Ditto(FedAvg):
    """Averages as `FedAvg` does; nodes keep models of their own."""

    laws = ("walk", "unequal steps", "momentum", "one node", "nodes alike")
    learner = "ditto"


class DittoSGD(SGD):
    """Trains a node's own model, then the common one."""

    def __init__(self, model: TorchModel, config: RunConfig, *, pull: NonNegative = 0.1, **options: Any) -> None:
        super().__init__(model, config, **options)
        self.pull = pull
        self._common: list[Tensor] = []

    def personal(self, state: State, memory: NodeMemory) -> State:
        """Return the node's own model."""
        return {**state, **memory.arrays.get(OWN, {})}

    def gradients(self, gradients: list[Tensor], task: LocalTask) -> None:
        """Add the pull to the common model, where the node's own is trained."""
        super().gradients(gradients, task)
        if self._common:
            torch._foreach_add_(gradients, list(self.model.parameters), alpha=self.pull)
            torch._foreach_add_(gradients, self._common, alpha=-self.pull)

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the fit of the common model."""
        self._common = self.model.tensors_of({name: state[name].copy() for name in self.model.names})
        own = super().fit(self.personal(state, task.memory), task)
        task.memory.arrays[OWN] = {name: array.copy() for name, array in own.arrays.items()}
        self._common = []
        return super().fit(state, task)
