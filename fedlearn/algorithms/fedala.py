"""FedALA: a node begins each round between its own model and the common one, entry by entry, where its loss is least.

With own v and common x a node begins at v + (x - v) W. Below the last layer W is 1; of the last layer it is learned
on a share of the node's examples: W -= eta g (x - v), clipped to [0, 1], over passes until the loss is steady the
first time, and one pass in each later round. W is kept. What the node sends is its trained v, which it is measured
with, too.

Source: Zhang et al. 2023, "FedALA: adaptive local aggregation for personalized federated learning"
(arXiv:2212.01197), eqs. 4 to 6, algorithm 1; there eta is 1, the share 80 %, and the last layer alone is learned.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field

from fedlearn.extend import (
    SGD,
    FedAvg,
    LocalFit,
    LocalTask,
    NodeMemory,
    Positive,
    RunConfig,
    State,
    TorchModel,
    last_layer,
)

OWN, WEIGHTS = "own", "aggregation"  # of a node's memory: v and W
FIRST, STEADY, LOOK = 20, 0.1, 5  # passes of the first time at most; deviation of so many last losses


class FedALA(FedAvg):
    """Averages as `FedAvg` does, over nodes that begin between their own model and the common one."""

    laws = ()
    learner = "fedala"


class FedALASGD(SGD):
    """Learns where to begin, then trains."""

    def __init__(
        self, model: TorchModel, config: RunConfig, *, eta: Positive = 1.0,
        share: Annotated[float, Field(gt=0, le=1)] = 0.8, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(model, config, **options)
        self.eta, self.share = eta, share

    def personal(self, state: State, memory: NodeMemory) -> State:
        """Return the node's own model."""
        return {**state, **memory.arrays.get(OWN, {})}

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the fit of the node's own model."""
        start = self._between(state, task) if OWN in task.memory.arrays else state
        fit = super().fit(start, task)
        task.memory.arrays[OWN] = {name: array.copy() for name, array in fit.arrays.items()}
        return fit

    def _between(self, state: State, task: LocalTask) -> State:
        """Learn the weights W in evaluation mode, and return the node's start v + (x - v) W."""
        self.model.module.eval()
        own, kept = task.memory.arrays[OWN], task.memory.arrays.get(WEIGHTS, {})
        layer = last_layer(self.model.module) + "."
        learned = [n for n in self.model.names if n.startswith(layer)]
        weights = {n: kept.get(n, np.ones_like(state[n])).copy() for n in learned}
        begun = {**state, **{n: own[n] + (state[n] - own[n]) * weights[n] for n in learned}}
        rows = task.indices[: max(1, round(self.share * len(task.indices)))]
        losses: list[float] = []
        for _ in range(1 if kept else FIRST):
            for start in range(0, len(rows), self.training.batch_size):
                self.model.load(begun)
                loss = self.loss(*self.batch(task.train, rows[start : start + self.training.batch_size]), task)
                gradients = torch.autograd.grad(loss, self.model.parameters, materialize_grads=True)
                for n, gradient in zip(self.model.names, gradients, strict=True):
                    if n in weights:
                        step = self.eta * gradient.cpu().numpy() * (state[n] - own[n])
                        weights[n] = np.clip(weights[n] - step, 0, 1).astype(state[n].dtype)
                        begun[n] = own[n] + (state[n] - own[n]) * weights[n]
                losses.append(loss.item())
            if len(losses) > LOOK and np.std(losses[-LOOK:]) < STEADY:
                break
        task.memory.arrays[WEIGHTS] = weights
        return begun
