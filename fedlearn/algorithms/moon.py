"""MOON: what the last layer is given shall be like that of the common model, and unlike that of the node's last one.

The loss of a batch is that of the model plus mu * -log(e^(sim(z, z_g)/T) / (e^(sim(z, z_g)/T) + e^(sim(z, z_p)/T))),
where z is the input of the last layer, z_g that of the state that was sent, z_p that of the node's model of its round
before (at first the state), sim the cosine. With mu = 0 it is FedAvg.

Source: Li, He, Song 2021, "Model-contrastive federated learning" (arXiv:2103.16257), eqs. 2 to 4; there mu is 5 for
CIFAR-10 and 1 for the other sets, T 0.5.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, log_softmax

from fedlearn.extend import (
    SGD,
    FedAvg,
    LocalFit,
    LocalTask,
    NonNegative,
    Positive,
    RunConfig,
    State,
    TorchModel,
    last_layer,
)

PREVIOUS = "previous"  # of a node's memory: its model of the round before


class Moon(FedAvg):
    """Averages as `FedAvg` does, over nodes with a contrastive loss."""

    laws = ("off",)
    learner = "moon"


def contrast(z: Tensor, z_global: Tensor, z_previous: Tensor, temperature: float) -> Tensor:
    """Return the mean contrastive loss of a batch of representations, each (B, D); log 2 where all are the same."""
    both = torch.stack([cosine_similarity(z, other, dim=1) for other in (z_global, z_previous)], dim=1)  # (B, 2)
    return -log_softmax(both / temperature, dim=1)[:, 0].mean()


class MoonSGD(SGD):
    """Takes steps on the loss with a contrastive term."""

    def __init__(
        self,
        model: TorchModel,
        config: RunConfig,
        *,
        mu: NonNegative = 1.0,
        temperature: Positive = 0.5,
        **options: Any,
    ) -> None:
        super().__init__(model, config, **options)
        self.mu, self.temperature = mu, temperature

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the fit, and keep its model for the next round."""
        others = (state, {**state, **task.memory.arrays.get(PREVIOUS, {})})
        self._others = [
            {n: torch.from_numpy(np.array(a)).to(self.model.device) for n, a in each.items()} for each in others
        ]
        layer = self.model.module.get_submodule(last_layer(self.model.module))
        hook = layer.register_forward_pre_hook(lambda _, inputs: self._see(inputs))  # a method would be copied with it
        try:
            fit = super().fit(state, task)
        finally:
            hook.remove()
        task.memory.arrays[PREVIOUS] = {name: array.copy() for name, array in fit.arrays.items()}
        return fit

    def _see(self, inputs: tuple[Tensor, ...]) -> None:
        self._seen = inputs[0].flatten(1)

    def loss(self, inputs: Tensor, targets: Tensor, task: LocalTask) -> Tensor:
        """Return the loss of the model plus mu times the contrastive loss."""
        loss = super().loss(inputs, targets, task)
        z, module = self._seen, self.model.module
        if not self.mu:
            return loss
        is_training = module.training  # it is not, where a node has one example alone
        module.eval()
        with torch.no_grad():
            z_global, z_previous = [self._seen_by(module, each, inputs) for each in self._others]
        if is_training:
            self.model.train()
        return loss + self.mu * contrast(z, z_global, z_previous, self.temperature)

    def _seen_by(self, module: nn.Module, state: dict[str, Tensor], inputs: Tensor) -> Tensor:
        passed, named = self.model.passed(inputs)
        torch.func.functional_call(module, state, (passed,), named)
        return self._seen
