"""FedNova: the mean of normalized changes, so that a node with more steps counts no more.

Node i sends d_i = (x - y_i) / a_i, where a_i is how far K_i steps with a gradient of 1 and lr of 1 go: K_i without
momentum and pull. Server: x -= tau_eff sum(p_i d_i), tau_eff = sum(p_i a_i), p_i by ``strategy.weighting``. It removes
the bias of unequal numbers of steps, not the drift of several steps. With equal steps it is FedAvg.

Source: Wang et al. 2020, "Tackling the objective inconsistency problem" (arXiv:2007.07481), eqs. 8 to 11, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np

from fedlearn.extend import (
    SGD,
    ArraySpec,
    FedAvg,
    LocalFit,
    LocalTask,
    MaskedSum,
    ParcelPlan,
    Progress,
    RunConfig,
    SettingError,
    State,
    Step,
    TorchModel,
    Turn,
    UpdateKind,
    change_of,
    takes_steps,
)

LENGTH = "length"  # the parcel and its array: a_i


class FedNova(FedAvg):
    """Takes tau_eff times the mean of the normalized changes; of whole reports only, as a_i is one number a node."""

    laws = ("walk", "unequal steps", "momentum", "one node", "nodes alike")
    accepts = frozenset({UpdateKind.DENSE})
    takes_stale = False
    reads_reports = True
    learner = "fednova"

    def __init__(self, *, uniform: bool = False) -> None:
        super().__init__(uniform=uniform)

    def answers(self, state: State) -> Mapping[str, ParcelPlan]:
        """Ask every node for a_i."""
        return {LENGTH: ParcelPlan({LENGTH: ArraySpec((1,), "float64")}, self.accumulator, uniform=self.uniform)}

    def next_state(self, turn: Turn[MaskedSum]) -> Step:
        """Return x - tau_eff mean(d); whole numbers and running statistics are averaged."""
        lengths = turn.parcels[LENGTH]
        assert isinstance(lengths, MaskedSum)
        effective = lengths.mean(otherwise={LENGTH: np.zeros(1)})[LENGTH][0]
        after = dict(super().next_state(turn).state)
        for name, array in turn.state.items():
            if takes_steps(name, array):
                change, _ = change_of(name, turn, self.decoder)
                after[name] = (array + effective * change.astype(np.float64)).astype(array.dtype)
        return Step(after)


class FedNovaSGD(SGD):
    """Reports x - d_i in place of y_i, and a_i beside it."""

    @classmethod
    def from_settings(cls, model: TorchModel, config: RunConfig) -> Self:
        """Return the learner; raise SettingError for an optimizer whose steps have no a_i."""
        if config.training.optimizer != "sgd":
            raise SettingError(
                "training.optimizer", config.training.optimizer, "FedNova is defined for 'sgd': use that"
            )
        return super().from_settings(model, config)

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the fit, its change normalized."""
        self._start = state
        return super().fit(state, task)

    def length(self, steps: int, lr: float) -> float:
        """Return a_i of `steps` steps: with momentum m and pull mu, v = m v + 1 - lr mu d, d += v."""
        length = velocity = 0.0
        for _ in range(steps):
            velocity = self.training.momentum * velocity + 1 - lr * self.training.proximal_mu * length
            length += velocity
        return length

    def fitted(self, arrays: State, task: LocalTask, progress: Progress) -> LocalFit:
        """Return x + (y - x) / a_i, and a_i."""
        length = self.length(progress.steps, self.learning_rate(task.round_number))
        normal = {name: x + (arrays[name] - x) / length for name, x in self._start.items() if takes_steps(name, x)}
        fit = super().fitted({**arrays, **normal}, task, progress)
        return fit.answering({LENGTH: {LENGTH: np.array([length])}})
