"""FedSAM: each step of a node takes its gradient where the loss of the batch is worst nearby, so it seeks flat places.

y -= lr g(y + rho g(y) / ||g(y)||): two gradients a step, on the same batch. With rho = 0 it is FedAvg.

Source: Qu et al. 2022, "Generalized federated learning via sharpness aware minimization" (arXiv:2206.02618),
algorithm 1; Foret et al. 2021 (arXiv:2010.01412), eq. 2, where rho is 0.05.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fedlearn.extend import NOT_ZERO, SGD, FedAvg, LocalTask, NonNegative, RunConfig, TorchModel, owned


class FedSAM(FedAvg):
    """Averages as `FedAvg` does, over nodes that seek flat places."""

    laws = ("walk", "unequal steps", "momentum", "off")
    learner = "fedsam"


class FedSAMSGD(SGD):
    """Takes steps by the gradient at the worst place nearby."""

    def __init__(self, model: TorchModel, config: RunConfig, *, rho: NonNegative = 0.05, **options: Any) -> None:
        super().__init__(model, config, **options)
        self.rho = rho

    def step_for(self, task: LocalTask) -> Callable[[Tensor, Tensor], Tensor]:
        """Return the function that takes a step, and returns the loss before it."""
        parameters: list[Tensor] = list(self.model.parameters)
        change = self.change_for(parameters, task)

        def step(inputs: Tensor, targets: Tensor) -> Tensor:
            before = [parameter.detach().clone() for parameter in parameters]
            loss = self.loss(inputs, targets, task)
            uphill = owned(torch.autograd.grad(loss, parameters, materialize_grads=True))
            length = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(uphill)))
            with torch.no_grad():
                torch._foreach_mul_(uphill, self.rho / (length + NOT_ZERO))
                torch._foreach_add_(parameters, uphill)
            worst = self.loss(inputs, targets, task)
            gradients = list(torch.autograd.grad(worst, parameters, materialize_grads=True))
            with torch.no_grad():
                torch._foreach_copy_(parameters, before)
            change(gradients)
            return loss.detach()

        return step
