"""q-FedAvg: nodes with a large loss count more, so that losses are more alike.

With the loss F_i of node i at x on its examples, and L = 1/lr: D_i = F_i^q L (x - y_i), h_i = q F_i^(q-1) L^2
||x - y_i||^2 + L F_i^q, x -= sum p_i D_i / sum p_i h_i. Nodes send x + F_i^q (y_i - x) and h_i / L. p_i is a node's
weight, by ``strategy.weighting``; the paper draws nodes by p_i instead. With q = 0 it is FedAvg.

Source: Li et al. 2020, "Fair resource allocation in federated learning" (arXiv:1905.10497), algorithm 2 and eq. 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedlearn.extend import (
    SGD,
    Array,
    ArraySpec,
    Float64,
    LocalFit,
    LocalTask,
    MaskedSum,
    NonNegative,
    ParcelPlan,
    RunConfig,
    ServerOptimizer,
    State,
    Step,
    TorchModel,
    Turn,
    UpdateKind,
    takes_steps,
)

SLOPE = "slope"  # the parcel and its array: h_i / L
LEAST = 1e-10  # added to a loss, which may be 0


class QFedAvg(ServerOptimizer):
    """Divides the mean of the weighed changes by the mean of the slopes."""

    laws = ("walk", "off")
    accepts = frozenset({UpdateKind.DENSE})
    takes_stale = False
    reads_reports = True
    learner = "qfedavg"

    def __init__(self, *, uniform: bool = False) -> None:
        super().__init__(server_lr=1.0, uniform=uniform)

    def answers(self, state: State) -> Mapping[str, ParcelPlan]:
        """Ask every node for h_i / L."""
        return {SLOPE: ParcelPlan({SLOPE: ArraySpec((1,), "float64")}, self.accumulator, uniform=self.uniform)}

    def next_state(self, turn: Turn[MaskedSum]) -> Step:
        """Return x + mean(F^q (y - x)) / mean(h / L)."""
        slopes = turn.parcels[SLOPE]
        assert isinstance(slopes, MaskedSum)
        self.server_lr = 1 / slopes.mean(otherwise={SLOPE: np.ones(1)})[SLOPE][0]
        return super().next_state(turn)

    def direction(self, name: str, change: Float64, sent: Array) -> Float64:
        """Return the mean of the weighed changes."""
        return change


class QFedAvgSGD(SGD):
    """Weighs a node's change by its loss before training."""

    def __init__(self, model: TorchModel, config: RunConfig, *, q: NonNegative = 1.0, **options: Any) -> None:
        super().__init__(model, config, **options)
        self.q = q

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the fit with the weighed change, and h_i / L."""
        loss = self.loss_on(state, task) + LEAST
        fit = super().fit(state, task)
        change = {name: fit.arrays[name] - array for name, array in state.items() if takes_steps(name, array)}
        square = sum(float(np.square(each, dtype=np.float64).sum()) for each in change.values())
        slope = self.q * loss ** (self.q - 1) * square / self.learning_rate(task.round_number) + loss**self.q
        weighed = {name: (state[name] + loss**self.q * each).astype(each.dtype) for name, each in change.items()}
        return fit.replaced(weighed).answering({SLOPE: {SLOPE: np.array([slope])}})

    def loss_on(self, state: State, task: LocalTask) -> float:
        """Return the mean loss of a state on the node's examples, in batches as of training."""
        import torch

        self.model.load(state)
        self.model.module.eval()
        size, total = self.training.batch_size, 0.0
        with torch.no_grad():
            for start in range(0, len(task.indices), size):
                rows = task.indices[start : start + size]
                total += len(rows) * self.loss(*self.batch(task.train, rows), task).item()
        return total / len(task.indices)
