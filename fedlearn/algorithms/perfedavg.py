"""Per-FedAvg, first order: nodes learn a common model from which one step of their own leads far.

A step takes w = y - alpha g(y; B) on the first half of a batch, and y -= lr g(w; B') on its second half. A node is
measured after a step of its own on its first batch of the round (``evaluation.nodes``). A batch whose halves are too
small for a step is used whole, twice. With alpha = 0 a node takes plain steps on half of each batch.

Source: Fallah, Mokhtari, Ozdaglar 2020, "Personalized federated learning: a meta-learning approach" (arXiv:2002.07948),
algorithm 1, without the Hessian (section 5, "FO").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fedlearn.extend import SGD, FedAvg, LocalFit, LocalTask, NodeMemory, NonNegative, RunConfig, State, TorchModel

OWN = "own"  # of a node's memory: its model after a step of its own


class PerFedAvg(FedAvg):
    """Averages as `FedAvg` does, over nodes that learn to learn."""

    laws = ("walk", "momentum")
    learner = "perfedavg"


class PerFedAvgSGD(SGD):
    """Takes steps by the gradient after a step of the node's own."""

    def __init__(self, model: TorchModel, config: RunConfig, *, alpha: NonNegative = 0.01, **options: Any) -> None:
        super().__init__(model, config, **options)
        self.alpha = alpha

    def personal(self, state: State, memory: NodeMemory) -> State:
        """Return the common model after the node's own step."""
        return {**state, **memory.arrays.get(OWN, {})}

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the fit of the common model, and keep the node's own."""
        fit = super().fit(state, task)
        arrays = {name: array.copy() for name, array in fit.arrays.items()}
        self._ahead(*self.batch(task.train, task.indices[: self.training.batch_size]), task)
        task.memory.arrays[OWN] = {name: array.copy() for name, array in self.model.arrays().items()}
        return fit.replaced(arrays)

    def _ahead(self, inputs: Tensor, targets: Tensor, task: LocalTask) -> Tensor:
        """Take the step w = y - alpha g(y), and return the loss before it."""
        loss = self.loss(inputs, targets, task)
        gradients = torch.autograd.grad(loss, self.model.parameters, materialize_grads=True)
        with torch.no_grad():
            torch._foreach_add_(list(self.model.parameters), list(gradients), alpha=-self.alpha)
        return loss.detach()

    def step_for(self, task: LocalTask) -> Callable[[Tensor, Tensor], Tensor]:
        """Return the function that takes a step, and returns the loss of the first half before it."""
        parameters: list[Tensor] = list(self.model.parameters)
        change = self.change_for(parameters, task)
        least = 1 if self.model.takes_one(task.train) else 2

        def step(inputs: Tensor, targets: Tensor) -> Tensor:
            before, half = [parameter.detach().clone() for parameter in parameters], (len(targets) + 1) // 2
            is_cut = len(targets) - half >= least
            first, second = (slice(half), slice(half, None)) if is_cut else (slice(None), slice(None))
            loss = self._ahead(inputs[first], targets[first], task)
            ahead = self.loss(inputs[second], targets[second], task)
            gradients = list(torch.autograd.grad(ahead, parameters, materialize_grads=True))
            with torch.no_grad():
                torch._foreach_copy_(parameters, before)
            change(gradients)
            return loss

        return step
