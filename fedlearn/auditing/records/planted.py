"""Learners with one mistake each: what an audit must find."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from client.learners.dp_sgd import DPSGD, Rows
from client.learners.learner import LocalFit, LocalTask
from client.learners.poisson_batches import Draws
from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples
from fedlearn.models.per_example.clipped_sum import ClippedSum
from fedlearn.privacy import gaussian
from fedlearn.privacy.accounts import GaussianRounds


class HalfNoise(DPSGD):
    """Adds half the noise."""

    def _noisy(self, total: NDArray[np.float64], draws: Draws) -> NDArray[np.float64]:
        half = self.plan.mechanism.noise_multiplier / 2
        return gaussian(total, clip=self.privacy.clip, noise_multiplier=half, noise=draws.noise)


class NoNoise(DPSGD):
    """Adds no noise."""

    def _noisy(self, total: NDArray[np.float64], draws: Draws) -> NDArray[np.float64]:
        return total


class SameNoise(DPSGD):
    """Adds the noise of the first step in every step."""

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """See DPSGD."""
        self._noise: NDArray[np.float64] | None = None
        return super().fit(state, task)

    def _noisy(self, total: NDArray[np.float64], draws: Draws) -> NDArray[np.float64]:
        if self._noise is None:
            self._noise = super()._noisy(np.zeros_like(total), draws)
        return total + self._noise


class _Unclipped:
    """Clipped sums in which one parameter is left out of the clipping."""

    def __init__(self, ours: ClippedSum) -> None:
        self._ours, self.model, self.places, self.numbers = ours, ours.model, ours.places, ours.numbers
        self._first = self.model.parameters[0].numel()

    def __call__(self, inputs: Tensor, targets: Tensor, taken: Tensor, *, clip: float) -> Tensor:
        free = self._ours(inputs, targets, taken, clip=1e9)
        return torch.cat([free[: self._first], self._ours(inputs, targets, taken, clip=clip)[self._first :]])


class ClipForgotten(DPSGD):
    """Does not clip the first parameter."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._sum = _Unclipped(self._sum)


class ClipAfter(DPSGD):
    """Clips the sum, and no example."""

    def _clipped(self, train: Examples, chunks: list[Rows], *, clip: float) -> NDArray[np.float64]:
        total = super()._clipped(train, chunks, clip=1e9)
        return total * min(1.0, len(np.concatenate([*chunks, []])) * clip / (float(np.linalg.norm(total)) or 1.0))


class TrueNumber(DPSGD):
    """Divides by the size of the batch that was drawn, in place of the expected one."""

    def _divided(self, noisy: NDArray[np.float64], count: int) -> NDArray[np.float64]:
        return noisy / max(count, 1)


class TrueSteps(DPSGD):
    """Takes as many steps as there are records, in place of those that are declared."""

    def _steps(self, task: LocalTask) -> int:
        return max(round(len(task.indices) * self.plan.steps / self.privacy.records), 1)


class FixedBatch(DPSGD):
    """Draws batches of a fixed size in place of a coin for each record."""

    def _taken(self, task: LocalTask, draws: Draws) -> NDArray[np.bool_]:
        coins = draws.coins(len(task.indices), 1.0)  # the right number, the wrong rate
        coins[round(self.plan.expected) :] = False
        return np.roll(coins, len(task.indices) // 2)


class ForgottenRound(DPSGD):
    """Books the steps of a fit less one."""

    def mechanism(self, *, round_number: int = 1) -> GaussianRounds:
        """See DPSGD."""
        whole = self.plan.mechanism
        return GaussianRounds(whole.noise_multiplier, whole.rounds - 1, whole.sampling_rate)


PLANTED: dict[str, Any] = {
    "half the noise": HalfNoise,
    "no noise": NoNoise,
    "noise of the first step in all": SameNoise,
    "clip forgotten for one parameter": ClipForgotten,
    "the sum clipped, no example": ClipAfter,
    "divided by who came": TrueNumber,
    "steps from n, not from declared n": TrueSteps,
    "batches of a fixed size": FixedBatch,
    "a step that is not booked": ForgottenRound,
}
"""Mistake in words -> learner."""
