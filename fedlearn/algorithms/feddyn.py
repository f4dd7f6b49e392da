"""FedDyn: each node's loss is changed from round to round, so that all have one point of rest: the common optimum.

A node takes steps on f_i(y) - <g_i, y> + alpha/2 ||y - x||^2, then g_i -= alpha (y - x). Server: h -= alpha sum w_i
(y - x) / (N w) over those that reported, x = mean(y) - h/alpha. Both are kept divided by -alpha, so that only nodes
need alpha: s_i += y - x, H += sum w_i (y - x) / (N w), x = mean(y) + H. alpha is ``training.proximal_mu``.

In the paper, and with ``strategy.weighting = "uniform"``, nodes count alike. Else a node weighs as many as it has
examples, in both means (`over_all_nodes`): this is FedDyn on the losses w_i f_i, with w_i alpha for alpha. The point of
rest is the optimum of the mean of the nodes' losses, with the same weights. s_i moves by what was sent and counted,
entry by entry, so that H stays the mean of all s_i under every codec.

Source: Acar et al. 2021, "Federated learning based on dynamic regularization" (arXiv:2111.04263), algorithm 1.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import torch
from torch import Tensor

from fedlearn.algorithms.over_all_nodes import mean_weight
from fedlearn.extend import (
    SGD,
    STATE,
    Array,
    Float64,
    LocalFit,
    LocalTask,
    MaskedSum,
    RunConfig,
    ServerOptimizer,
    SettingError,
    State,
    Step,
    TorchModel,
    Turn,
)


class FedDyn(ServerOptimizer):
    """Takes the mean, plus H, the mean over all N nodes of what each has changed so far."""

    laws = ("walk", "unequal steps", "weak pull", "optimum, exact steps", "optimum, unequal sizes")
    takes_stale = False
    reads_reports = True
    learner = "feddyn"

    def __init__(self, *, uniform: bool = False) -> None:
        super().__init__(server_lr=1.0, uniform=uniform)

    def next_state(self, turn: Turn[MaskedSum]) -> Step:
        """Return mean(y) + H."""
        weight, self._scale = mean_weight(self.moments, turn.total.reports)
        self._shares = {name: weights / (turn.clients * weight) for name, weights in turn.total.weights.items()}
        return super().next_state(turn)

    def direction(self, name: str, change: Float64, sent: Array) -> Float64:
        """Return the mean change plus H."""
        share = np.broadcast_to(self._shares.get(name, np.zeros(1)), (change.size,)).reshape(change.shape)
        return change + self.move(f"drift/{name}", share * change, decay=self._scale, gain=1.0, sent=np.array(True))


class FedDynSGD(SGD):
    """Takes steps by g + alpha s_i + alpha (y - x)."""

    counted = (STATE,)

    @classmethod
    def from_settings(cls, model: TorchModel, config: RunConfig) -> Self:
        """Return the learner; raise SettingError without a pull."""
        if not config.training.proximal_mu:
            raise SettingError("training.proximal_mu", 0, "it is FedDyn's alpha: use a number above 0, as 0.1")
        return super().from_settings(model, config)

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the fit on the changed loss."""
        kept = {name: np.zeros_like(state[name]) for name in self.model.names} | dict(task.memory.arrays.get(STATE, {}))
        self._kept = self.model.tensors_of(kept)
        return super().fit(state, task)

    def gradients(self, gradients: list[Tensor], task: LocalTask) -> None:
        """Add alpha s_i to the gradients; the pull is added after this."""
        super().gradients(gradients, task)
        torch._foreach_add_(gradients, self._kept, alpha=self.training.proximal_mu)
