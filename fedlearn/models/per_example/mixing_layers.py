"""Layers through which one example changes what another one makes of the model, refused by name.

The law of a clipped sum needs a loss of each example by itself. A norm over a batch has none, nor has a module that
keeps something of the examples in its buffers or parameters, as ``nn.Embedding(max_norm=1)`` shortens the rows that it
looks up: what is kept would leave the node without noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from fedlearn.core.errors import SettingError
from fedlearn.models.per_example.made_up_examples import made_up
from fedlearn.models.torch.torch_model import TorchModel

OVER_A_BATCH = nn.modules.batchnorm._NormBase  # with statistics that a training step changes
INSTEAD = "take a norm over one example, as GroupNorm or LayerNorm"
TOLERANCE = 1e-4  # relative: rounding, as the place in a batch may change the last bits
LARGER = 10_000.0  # times the parameters: what is written beyond some size only is written then


def check_apart(model: TorchModel, name: str, *, count: int = 2) -> None:
    """Raise SettingError, with the layer's name, for a module that mixes examples, or keeps something of them.

    A batch of examples is computed twice: the second time all but the first are others. Nothing of a node's data is
    read.

    Parameters
    ----------
    model : TorchModel
        Model, which has the same parameters afterwards.
    name : str
        The setting ``model.name``, for the error.
    count : int, default=2
        Number of examples in the batch: a module may mix those of large batches alone.
    """
    for path, layer in model.module.named_modules():
        if isinstance(layer, OVER_A_BATCH) and (layer.track_running_stats or not _is_of_instances(layer)):
            raise _refused(name, f"its layer {_named(path, layer)} mixes examples: none has a gradient of its own")
    inputs, _ = made_up(model, 2 * count - 1)
    batches = [inputs[[0, *others]] for others in (range(1, count), range(count, 2 * count - 1))]
    model.train()
    with _remembered(model) as written:
        first, second = (_outputs(model, batch) for batch in batches)
    if not written:
        with _remembered(model, times=LARGER) as written, suppress(Exception):  # numbers may become too large
            _outputs(model, batches[0])
    model.beside.put_back()
    if written:
        kind = "parameter" if written[0] in dict(model.module.named_parameters()) else "buffer"
        raise _refused(
            name, f"its {kind} {written[0]!r} keeps something of the examples, and would leave without noise"
        )
    if not _are_close(first[""], second[""]):
        layers = dict(model.module.named_modules())  # of inner ones the first axis may be none of examples
        differ = (path for path in first if path not in second or not _are_close(first[path], second[path]))
        path = next(differ)
        raise _refused(name, f"its layer {_named(path, layers[path])} makes of one example what depends on another one")


@contextmanager
def _remembered(model: TorchModel, *, times: float = 1.0) -> Iterator[list[str]]:
    """Restore parameters and buffers after the block; yield a list that receives the names of those it has written.

    Parameters
    ----------
    times
        By what parameters are multiplied for the block.
    """
    held: list[tuple[str, Tensor]] = [*model.module.named_parameters(), *model.module.named_buffers()]
    before = {path: each.detach().clone() for path, each in held}
    written: list[str] = []
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(times)
        begun = {path: each.detach().clone() for path, each in held}
        try:
            yield written
            written += [path for path, each in held if not _are_close(each, begun[path])]
        finally:
            for path, each in held:
                each.copy_(before[path])


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


def _are_close(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    gap = (one.double() - other.double()).abs().max() if one.numel() else torch.zeros(())
    size = one.double().abs().max() if one.numel() else torch.zeros(())
    return bool(gap <= TOLERANCE * size) or bool(torch.equal(one, other))
