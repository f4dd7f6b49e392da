"""Clipped sums from one forward and one backward pass over all examples, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from fedlearn.models.per_example.clipped_sum import factors, losses_of
from fedlearn.models.per_example.layer_gradients import Apiece, Layer, layer_of
from fedlearn.models.torch.torch_model import TorchModel


class ByLayer:
    """Clipped sums of a module whose trained parameters belong to one layer with a rule each (`layer_gradients.py`).

    Parameters
    ----------
    model : TorchModel
        Model whose module is computed.
    places : int
        Number of examples in one computation.

    Raises
    ------
    NotImplementedError
        For a module with a trained parameter of another layer, or of two layers; in a computation, for one that is
        used outside of its layer, or by a layer that is not called once.
    """

    def __init__(self, model: TorchModel, places: int) -> None:
        self.model, self.places = model, places
        self._layers = _layers(model)
        apiece = [module for module, layer in self._layers if isinstance(layer, Apiece)]
        self.numbers = sum(each.numel() for module in apiece for each in _parameters(module))
        self._is_overwritten = any(getattr(part, "inplace", False) for part in model.module.modules())

    def __call__(self, inputs: Tensor, targets: Tensor, taken: Tensor, *, clip: float) -> Tensor:
        """See ClippedSum."""
        with _instead(self._layers, copies=self._is_overwritten) as called, torch.enable_grad():
            losses = losses_of(self.model, self.model.outputs(inputs), targets)
        if sorted(map(id, called)) != sorted(map(id, (layer for _, layer in self._layers))):
            raise NotImplementedError("a layer that is not called once")
        found = iter(self._gradients(losses, [each for layer in called for each in layer.wanted], taken))
        squares = torch.zeros(self.places, dtype=torch.float64, device=taken.device)
        with torch.no_grad():
            for layer in called:
                squares += layer.take(tuple(next(found) for _ in layer.wanted))
            by, counted = factors(squares, taken, clip=clip)
            sums = {
                id(parameter): each
                for module, layer in self._layers
                for parameter, each in zip(_parameters(module), layer.summed(by, counted), strict=True)
            }
            return torch.cat([sums[id(parameter)].reshape(-1) for parameter in self.model.parameters])

    def _gradients(self, losses: Tensor, wanted: list[Tensor], taken: Tensor) -> list[Tensor]:
        """Return the gradients of the wanted tensors; of places that are not taken the loss is not asked for.

        Rules use parameters without their history, so one that has a gradient is used outside of its layer, too.
        """
        asked, count = [*wanted, *self.model.parameters], len(wanted)
        found = torch.autograd.grad(losses, asked, taken.to(losses.dtype), allow_unused=True)
        if any(each is not None for each in found[count:]):
            raise NotImplementedError("a parameter that is used outside of its layer")
        return [torch.zeros_like(one) if each is None else each for one, each in zip(wanted, found, strict=False)]


def _layers(model: TorchModel) -> list[tuple[nn.Module, Layer]]:
    trained = {id(parameter) for parameter in model.parameters}
    found: list[tuple[nn.Module, Layer]] = []
    for module in model.module.modules():
        mine = [id(parameter) for parameter in module.parameters(recurse=False) if id(parameter) in trained]
        if not mine:
            continue
        layer = layer_of(module)
        if layer is None or len(mine) != len(_parameters(module)):
            raise NotImplementedError(f"{type(module).__name__} has no rule")
        found.append((module, layer))
    places = [id(parameter) for module, _ in found for parameter in _parameters(module)]
    if sorted(places) != sorted(trained):
        raise NotImplementedError("a parameter that belongs to no layer, or to two")
    return found


def _parameters(module: nn.Module) -> list[nn.Parameter]:
    return [each for each in (module.weight, module.bias) if isinstance(each, nn.Parameter)]


@contextmanager
def _instead(layers: list[tuple[nn.Module, Layer]], *, copies: bool) -> Iterator[list[Layer]]:
    """Replace the layers by their rules within the block; yield the list of the called layers, in order.

    Where a module overwrites outputs in place, it gets copies of them.
    """
    called: list[Layer] = []

    def forward(layer: Layer, x: Tensor) -> Tensor:
        called.append(layer)
        output = layer.forward(x)
        return output.clone() if copies else output

    try:
        for module, layer in layers:
            module.__dict__["forward"] = lambda x, layer=layer: forward(layer, x)
        yield called
    finally:
        for module, _ in layers:
            module.__dict__.pop("forward", None)
