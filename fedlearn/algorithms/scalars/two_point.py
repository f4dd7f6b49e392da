"""The learner of directional derivatives: two losses along each direction, and no gradient.

The derivative of the loss f along z is (f(x + step z) - f(x - step z)) / (2 step). All K directions of a round see one
batch of the client's examples, in evaluation mode, so that no dropout differs between the two losses.

Source: Malladi et al. 2023, MeZO (arXiv:2305.17333), definition 1.
"""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
import torch
from pydantic import Field

from fedlearn.algorithms.scalars.decomfl import DIRECTIONS
from fedlearn.algorithms.scalars.scalar_history import ScalarHistory
from fedlearn.core.metric import TOKENS
from fedlearn.extend import (
    TRAIN_LOSS,
    Learner,
    LocalFit,
    LocalTask,
    RunConfig,
    SettingError,
    State,
    TorchModel,
    rng_for,
)
from fedlearn.plugins.options import options_for

NEEDS = "training.learner = 'two-point' needs"


class TwoPoint(Learner):
    """Measures derivatives of the loss along directions that the seed draws.

    Parameters
    ----------
    model
        The module, whose state is the history of derivatives.
    config
        Settings of the run.
    directions : int, default=10
        K: number of directions in each round.
    step : float, default=0.001
        Distance from the weights to both points of a direction, in standard deviations of the direction.
    """

    def __init__(
        self,
        model: ScalarHistory,
        config: RunConfig,
        *,
        directions: Annotated[int, Field(ge=1, le=10_000)] = DIRECTIONS,
        step: Annotated[float, Field(gt=0)] = 1e-3,
    ) -> None:
        self.model = model
        self.batch_size = config.training.batch_size
        self.is_uniform = config.strategy.weighting == "uniform"
        self.directions = directions
        self.step = np.float32(step)

    @classmethod
    def from_settings(cls, model: ScalarHistory, config: RunConfig) -> Self:
        """Return the learner of a run; its options are ``training.options``."""
        return cls(model, config, **options_for(
            cls, config.training.options, setting="training.options", reserved=("model", "config")
        ))  # fmt: skip

    def draws(self, rows: int) -> bool:
        """Return whether a round sees some of the client's examples only."""
        return rows > self.batch_size

    def check(self, state: State) -> None:
        """Raise `Refused` for a state that no honest server sends."""
        self.model.check_state(state)

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the derivatives along the directions of the next round, weighed by the client's examples."""
        self.check(state)
        weights, number = self.model.weights_of(state), self.model.rounds_in(state) + 1
        rows = task.indices
        if self.draws(len(rows)):
            shuffle = rng_for(task.seed, purpose="shuffle", round_number=task.round_number, node=task.partition_id)
            rows = rows[shuffle.permutation(len(rows))[: self.batch_size]]
        inputs, targets = self.model.inputs_at(task.train, rows), self.model.targets(task.train.targets[rows])
        found, losses = np.zeros(self.directions), np.zeros(2)
        for index in range(self.directions):
            direction = self.model.direction(number, index)
            for side, sign in enumerate((self.step, -self.step)):
                self.model.load({n: array + sign * direction[n] if n in direction else array
                                 for n, array in weights.items()})  # fmt: skip
                losses[side] = self._loss(inputs, targets)
            found[index] = (losses[0] - losses[1]) / (2 * float(self.step))
        seen = self.model.tokens_in(task.train, rows) * 2 * self.directions
        return LocalFit(
            self.model.report_of(found, 1 if self.is_uniform else len(task.indices)),
            len(task.indices),
            {TRAIN_LOSS.name: float(losses.mean()), **({TOKENS.name: seen} if seen else {})},
        )

    def _loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> float:
        self.model.module.eval()
        with torch.inference_mode():
            return float(self.model.objective.loss(self.model.outputs(inputs), targets))


def by_scalars(model: object, config: RunConfig) -> ScalarHistory:
    """Return a run's model with the history of derivatives as its state.

    Raises
    ------
    SettingError
        For a model that is no torch module, and settings that have no meaning for it.
    """
    name, training = config.model.name, config.training
    if not isinstance(model, TorchModel):
        raise SettingError("model.name", name, f"{NEEDS} a torch module: take one, or another strategy.name")
    for setting, given, usual in (
        ("model.initial", config.model.initial, ""),
        ("training.personal", training.personal, ""),
        ("training.optimizer", training.optimizer, "sgd"),
        ("training.momentum", training.momentum, 0.0),
        ("training.weight_decay", training.weight_decay, 0.0),
        ("training.clip_norm", training.clip_norm, 0.0),
        ("training.proximal_mu", training.proximal_mu, 0.0),
        ("evaluation.nodes", config.evaluation.nodes, 0),
        ("training.micro_batch", training.micro_batch, 0),
        ("training.local_epochs", training.local_epochs, 1),
        ("data.augment", config.data.augment, False),
    ):
        if given != usual:
            raise SettingError(setting, given, f"{NEEDS} {usual!r} here, as clients measure losses at one point")
    options = options_for(TwoPoint, training.options, setting="training.options", reserved=("model", "config"))
    return ScalarHistory.of(model, config, directions=options.get("directions", DIRECTIONS))
