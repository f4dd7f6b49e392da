"""Layers through which one example changes what another one makes of the model, refused by name.

The law of a clipped sum needs a loss of each example by itself. A norm over a batch has none, nor has a module that
keeps something of the examples in its buffers or parameters, such as an embedding with ``max_norm``, which shortens a
row when its token is seen: what is kept would leave the node without noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from fedlearn.models.singly.examples import made_up
from fedlearn.models.torch_model import TorchModel
from fedlearn.words.errors import SettingError

OVER_A_BATCH = nn.modules.batchnorm._NormBase  # with statistics that a training step changes
INSTEAD = "take a norm over one example, as GroupNorm or LayerNorm"
SIZES = (2, 128)  # examples of a batch: the fewest, and as many as training computes at once
LARGE = 1.0
LARGE = 1e4
TOLERANCE = 1e-4  # relative: rounding, as the place in a batch may change the last bits

Values = Mapping[str, Tensor]
"""Name of a parameter or buffer -> its value."""


def check_apart(model: TorchModel, name: str, *, size: int = 2) -> None:
    """Raise SettingError, with the layer's name, for a module that mixes examples, or keeps something of them.

    A batch is computed twice: the second time all examples but the first are others. Nothing of a node's data is read.

    Parameters
    ----------
    model : TorchModel
        Model, which has the same parameters afterwards.
    name : str
        The setting ``model.name``, for the error.
    size : int
        Examples of the batch: a module may mix in larger ones only than in this one.
    """
    for path, layer in model.module.named_modules():
        if isinstance(layer, OVER_A_BATCH) and (layer.track_running_stats or not _is_of_instances(layer)):
            raise _refused(name, f"its layer {_named(path, layer)} mixes examples: none has a gradient of its own")
    inputs, _ = made_up(model, 2 * size - 1)
    before = values_of(model.module)
    model.train()
    try:
        first, second = (_outputs(model, torch.cat([inputs[:1], rest])) for rest in inputs[1:].split(size - 1))
        kept = _changed(model, before) or _changed_where_large(model, inputs[:size])
    finally:
        put_back(model.module, before)
        model.beside.put_back()
    if kept:
        raise _refused(name, f"its {kept} keeps something of the examples, and would leave without noise")
    if not _are_close(first[""], second[""]):
        layers = dict(model.module.named_modules())  # of inner ones the first axis may be none of examples
        differ = (path for path in first if path not in second or not _are_close(first[path], second[path]))
        path = next(differ)
        raise _refused(name, f"its layer {_named(path, layers[path])} makes of one example what depends on another one")


def values_of(module: nn.Module) -> Values:
    """Return copies of all parameters and buffers, frozen ones, too."""
    return {path: each.detach().clone() for path, each in _tensors_of(module)}


def put_back(module: nn.Module, values: Values) -> None:
    """Give parameters and buffers their values again."""
    with torch.no_grad():
        for path, each in _tensors_of(module):
            each.copy_(values[path])


def _tensors_of(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def _changed(model: TorchModel, before: Values) -> str:
    """Return which parameter or buffer has another value than before; empty if none has."""
    parameters = dict(model.module.named_parameters())
    for path, each in _tensors_of(model.module):
        if not _is_same(each, before[path]):
            return f"{'parameter' if path in parameters else 'buffer'} {path!r}"
    return ""


def _changed_where_large(model: TorchModel, inputs: Tensor) -> str:
    """Return which parameter a forward pass changes where all are large, as a module may bound them from there on."""
    with torch.no_grad():
        for each in model.module.parameters():
            each.mul_(LARGE)
    before = values_of(model.module)
    _outputs(model, inputs)
    return _changed(model, before)


def _refused(name: str, why: str) -> SettingError:
    return SettingError("model.name", name, f"{why}: {INSTEAD}")


def _named(path: str, layer: nn.Module) -> str:
    return f"{path!r} ({type(layer).__name__})" if path else f"{type(layer).__name__} itself"


def _is_of_instances(layer: nn.Module) -> bool:
    return isinstance(layer, nn.modules.instancenorm._InstanceNorm)


def _outputs(model: TorchModel, inputs: Tensor) -> dict[str, Tensor]:
    """Return what each layer makes of the first example, inner layers first, in the order of their calls."""
    found: dict[str, Tensor] = {}
    with _watched(model.module, found), torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        outputs = model.outputs(inputs)
    return {**found, "": _first(outputs)}


@contextmanager
def _watched(module: nn.Module, found: dict[str, Tensor]) -> Iterator[None]:
    def watch(path: str) -> Any:
        def keep(_: nn.Module, __: Any, output: Any) -> None:
            found[path] = _first(output)

        return keep

    handles = [part.register_forward_hook(watch(path)) for path, part in module.named_modules()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _first(outputs: Any) -> Tensor:
    """Return all numbers of the first example, as far as the first axis is that of examples."""
    leaves = [each[0] for each in tree_leaves(outputs) if isinstance(each, Tensor) and each.ndim]
    return torch.cat([each.detach().double().flatten() for each in leaves] or [torch.zeros(0, dtype=torch.float64)])


def _is_same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(((one == other) | (one != one) & (other != other)).all())


def _are_close(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    gap = (one.double() - other.double()).abs().max() if one.numel() else torch.zeros(())
    size = one.double().abs().max() if one.numel() else torch.zeros(())
    return bool(gap <= TOLERANCE * size) or bool(torch.equal(one, other))
