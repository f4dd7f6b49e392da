"""Clipped sums by `torch.func`: the gradient of one example, mapped over all places."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from fedlearn.models.per_example.clipped_sum import factors
from fedlearn.models.torch.torch_model import TorchModel

SLOW = "There is a performance drop"  # of a function that torch maps one by one: it is right all the same


class ByTransform:
    """Clipped sums of any module that `torch.func` takes; the gradients of all places are in memory at once.

    Parameters
    ----------
    model : TorchModel
        Model whose module is computed.
    places : int
        Number of examples in one computation.
    """

    def __init__(self, model: TorchModel, places: int) -> None:
        self.model, self.places = model, places
        self.numbers = sum(each.numel() for each in model.parameters)
        self._names = _own_names(model)

    def __call__(self, inputs: Tensor, targets: Tensor, taken: Tensor, *, clip: float) -> Tensor:
        """See ClippedSum."""
        return weighted(self.gradients(inputs, targets), taken, clip=clip)

    def gradients(self, inputs: Tensor, targets: Tensor) -> list[Tensor]:
        """Return the gradient of each example, (K, ...), of each parameter in the model's order."""
        held = {name: each.detach() for name, each in zip(self._names, self.model.parameters, strict=True)}
        mapped = torch.func.vmap(torch.func.grad(self._loss), in_dims=(None, 0, 0), randomness="different")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=SLOW)
            found = mapped(held, inputs, targets)
        return [found[name] for name in self._names]

    def _loss(self, parameters: dict[str, Tensor], one: Tensor, target: Tensor) -> Tensor:
        outputs = computed_with(self.model, parameters, one[None])
        return self.model.objective.loss(outputs, target[None])


def weighted(gradients: list[Tensor], taken: Tensor, *, clip: float) -> Tensor:
    """Return the clipped sum of the gradients of all places, each (K, ...): (P,) float64."""
    rows = [each.detach().reshape(len(taken), -1).double() for each in gradients]
    none = torch.zeros(len(taken), dtype=torch.float64, device=taken.device)
    squares = sum((each.square().sum(1) for each in rows), none)
    by, counted = factors(squares, taken, clip=clip)
    return torch.cat([by @ each.masked_fill_(~counted[:, None], 0.0) for each in rows])


def computed_with(model: TorchModel, parameters: dict[str, Tensor], inputs: Tensor) -> Any:
    """Return the outputs of the module with other tensors in the place of its trained parameters."""
    passed, named = model.passed(inputs)
    return torch.func.functional_call(model.module, parameters, (passed,), named)


def _own_names(model: TorchModel) -> list[str]:
    """Return the module's own names of the trained parameters, in their order."""
    names = {id(parameter): name for name, parameter in model.module.named_parameters()}
    return [names[id(parameter)] for parameter in model.parameters]
