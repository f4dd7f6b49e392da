"""SCAFFOLD: each step of a node is corrected by the direction of the other nodes' steps.

A node steps by g_i(y) - c_i + c, and sends y - x and c_i' - c_i. Server: x += server_lr mean(y - x), c += sum w_i (c_i'
- c_i) / (N w) over those that reported (`over_all_nodes`): w_i is 1 in the paper and with ``strategy.weighting =
"uniform"``, else the node's number of examples. A node's new control variate c_i' is the mean of the raw gradients of
its walk: without momentum it equals option II, c_i - c + (x - y) / (K lr), and it needs no divisor, so it also holds
with momentum, clipping and other optimizers. The change of c_i travels with the mask of the state; c_i moves by what
was counted. The point of rest is the optimum of the mean of the nodes' losses, with the same weights.

Source: Karimireddy et al. 2020, "SCAFFOLD: stochastic controlled averaging for federated learning" (arXiv:1910.06378),
algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fedlearn.algorithms.over_all_nodes import mean_weight
from fedlearn.extend import (
    LIKE_STATE,
    SGD,
    Array,
    Float64,
    LocalFit,
    LocalTask,
    MaskedSum,
    ParcelPlan,
    Positive,
    Progress,
    ServerOptimizer,
    State,
    Step,
    Turn,
    layout_of,
    takes_steps,
)

CONTROL = "control"


def zeros_of(state: State) -> dict[str, Array]:
    """Return zeros for each array of a state that takes steps."""
    return {name: np.zeros_like(array) for name, array in state.items() if takes_steps(name, array)}


class Scaffold(ServerOptimizer):
    """Averages changes, and keeps the mean c of the nodes' control variates; ``server_lr`` is 1 in the paper."""

    laws = ("walk", "unequal steps", "momentum", "optimum", "optimum, unequal sizes", "one node", "nodes alike")
    takes_stale = False
    reads_reports = True
    learner = "scaffold"

    def __init__(self, *, server_lr: Positive = 1.0, uniform: bool = False) -> None:
        super().__init__(server_lr=server_lr, uniform=uniform)

    def parcels(self, state: State) -> Mapping[str, State]:
        """Return c, for every node."""
        c = {name: self.moments.get(f"{CONTROL}/{name}", zero) for name, zero in zeros_of(state).items()}
        return {CONTROL: {name: array.astype(state[name].dtype) for name, array in c.items()}}

    def answers(self, state: State) -> Mapping[str, ParcelPlan]:
        """Ask every node for the change of its c_i, at the entries that it sends of the state."""
        layout = layout_of(zeros_of(state))
        return {CONTROL: ParcelPlan(layout, self.accumulator, uniform=self.uniform, codec=LIKE_STATE)}

    def next_state(self, turn: Turn[MaskedSum]) -> Step:
        """Return x + server_lr * mean(y - x); c moves by the sum of the changes over the weight of all N nodes."""
        changes = turn.parcels[CONTROL]
        assert isinstance(changes, MaskedSum)
        weight, scale = mean_weight(self.moments, changes.reports)
        for name, zero in zeros_of(turn.state).items():
            c = self.moments.get(f"{CONTROL}/{name}", zero.astype(np.float64)) * scale
            total = changes.totals.get(name, np.zeros(c.size)).reshape(c.shape)
            self.moments[f"{CONTROL}/{name}"] = c + total / (turn.clients * weight)
        return super().next_state(turn)

    def direction(self, name: str, change: Float64, sent: Array) -> Float64:
        """Return the mean change."""
        return change


class ScaffoldSGD(SGD):
    """Takes steps by g - c_i + c, and answers with the change of c_i."""

    counted = (CONTROL,)

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the fit of corrected steps."""
        common, own = task.parcels[CONTROL], task.memory.arrays.get(CONTROL) or zeros_of(state)
        self._own = {**zeros_of(state), **own}
        self._correction = self.model.tensors_of({name: common[name] - self._own[name] for name in self.model.names})
        self._walk = [torch.zeros_like(parameter) for parameter in self.model.parameters]
        return super().fit(state, task)

    def gradients(self, gradients: list[Tensor], task: LocalTask) -> None:
        """Add up the raw gradients, clipped where that is asked for, and correct the step."""
        super().gradients(gradients, task)
        torch._foreach_add_(self._walk, gradients)
        torch._foreach_add_(gradients, self._correction)

    def fitted(self, arrays: State, task: LocalTask, progress: Progress) -> LocalFit:
        """Return the fit with the change of the control variate."""
        walk = zip(self.model.names, self._walk, strict=True)
        mean = {name: (total / progress.steps).cpu().numpy() for name, total in walk}
        change = {name: mean[name] - own if name in mean else own for name, own in self._own.items()}
        return super().fitted(arrays, task, progress).answering({CONTROL: change})
