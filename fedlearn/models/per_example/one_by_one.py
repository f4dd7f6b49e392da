"""Clipped sums by a forward and a backward pass for each example: slow, and right for every module."""

from __future__ import annotations

import torch
from torch import Tensor

from fedlearn.models.per_example.by_transform import weighted
from fedlearn.models.torch.torch_model import TorchModel


class OneByOne:
    """Clipped sums of any module.

    Parameters
    ----------
    model : TorchModel
        Model whose module is computed.
    places : int
        Number of examples in one batch; only those that are taken are computed.
    """

    def __init__(self, model: TorchModel, places: int) -> None:
        self.model, self.places = model, places
        self.numbers = sum(each.numel() for each in model.parameters)

    def __call__(self, inputs: Tensor, targets: Tensor, taken: Tensor, *, clip: float) -> Tensor:
        """See ClippedSum; an example on which the module raises an error adds nothing."""
        numbers = sum(each.numel() for each in self.model.parameters)
        total = torch.zeros(numbers, dtype=torch.float64, device=taken.device)
        for place in torch.nonzero(taken).flatten().tolist():
            one = slice(place, place + 1)
            try:
                found = self.gradient(inputs[one], targets[one])
            except Exception:  # it must not depend on an example whether a node fails
                continue
            total += weighted([each[None] for each in found], taken[one], clip=clip)
        return total

    def gradient(self, inputs: Tensor, targets: Tensor) -> list[Tensor]:
        """Return the gradient of a batch of one example, of each parameter in the model's order."""
        loss = self.model.objective.loss(self.model.outputs(inputs), targets)
        found = torch.autograd.grad(loss, list(self.model.parameters), materialize_grads=True)
        return [each.to_dense() if each.is_sparse else each for each in found]
