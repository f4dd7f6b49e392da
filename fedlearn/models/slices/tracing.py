"""Which units each axis of a module's arrays counts, found by passes of two made-up examples, and a smaller module.

In each pass some outputs of all layers are NaN, by a bit of the number of their unit; the inputs of the next layers
show which units have come there, through whatever code lies between: flattening, residual connections, concatenation.
A layer reads its input without the NaN, so that no unit comes further than one layer. Where several units are mixed
outside of layers, the module is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedlearn.core.errors import SettingError
from fedlearn.models.slices.slicing import Axes, Axis, KeepUnits, Slicing, kept
from fedlearn.models.slices.slicing_rules import Rule, SliceRule, rule_of
from fedlearn.models.torch.making import made_up_examples
from fedlearn.models.torch.torch_model import TorchModel
from fedlearn.plugins.registry import load_plugin

MODEL = "model.name"
OWN = "name a rule for it by strategy.options.rule, or take another model"
Bits = NDArray[np.bool_]


class SlicedModule:
    """A torch module with the units of its axes.

    Parameters
    ----------
    model
        The whole model.
    name
        Of the model, for errors.
    rule
        ``"module:function"`` of a slicing rule of one's own; empty for none.

    Attributes
    ----------
    axes : Axes
        Of all arrays of the module's state that a slice shortens.
    outputs : frozenset of str
        Layers whose outputs are the module's own: all slices have all of their units.
    """

    def __init__(self, model: TorchModel, name: str, rule: str = "") -> None:
        self.model, self._name = model, name
        own: Rule | None = load_plugin("strategy.options.rule", rule) if rule else None
        self.layers = dict(self._ruled(own))
        traced = _Traced(model, self.layers)
        self.outputs = frozenset(traced.outputs())
        self._came = traced.came(self.outputs)
        self._widths = {int(width) for axis in traced.makers.values() for width in axis[0]}
        self.axes: Axes = dict(self._axes())

    def _ruled(self, own: Rule | None) -> Iterator[tuple[str, SliceRule]]:
        """Yield each layer that has arrays with its rule; refuse a layer that has none."""
        module, inner = self.model.module, set[str]()
        for name, layer in module.named_modules():
            if name in inner:
                continue
            fused = _fused(module, name)
            found = (own and own(name, layer)) or rule_of(layer, **fused)
            if found is not None:
                inner |= {f"{name}.{below}" for below, _ in layer.named_modules() if below}
                yield name, found
            elif type(layer).__module__.startswith("torch.nn") and any(True for _ in layer.parameters(recurse=False)):
                raise self._refused(f"there is no slicing rule for {name!r}, a {type(layer).__name__}")

    def _axes(self) -> Iterator[tuple[str, Sequence[Axis | None]]]:
        arrays = self.model.module.state_dict(keep_vars=True)
        ruled = {_within(name, each): (name, each) for name, rule in self.layers.items() for each in rule.axes}
        for array, tensor in arrays.items():
            if array not in ruled:
                is_own = isinstance(tensor, nn.Parameter) and tensor.ndim and tensor.shape[-1] in self._widths - {1}
                if is_own:  # a parameter of the module itself, such as positions
                    yield array, [*[None] * (tensor.ndim - 1), _units(tensor.shape[-1], tensor.shape[-1])]
                continue
            name, each = ruled[array]
            yield (
                array,
                [
                    self._axis(name, counts, size)
                    for counts, size in zip(self.layers[name].axes[each], tensor.shape, strict=True)
                ],
            )

    def _axis(self, name: str, counts: str, size: int) -> Axis | None:
        if counts == "out":
            return None if name in self.outputs else _units(size, size)
        if counts == "heads":
            return _units(size, self.layers[name].head)
        if not counts:
            return None
        if name not in self._came:
            raise self._refused(f"{name!r} is not called")
        if (axis := self._came[name]) is None:
            raise self._refused(f"in the input of {name!r} several units of layers before it are mixed")
        return axis if axis[0].any() else None

    def cut(self, keep: KeepUnits, ratio: float, *, scaler: bool = False) -> nn.Module:
        """Return a new module of the sizes of a slice.

        Parameters
        ----------
        scaler
            Whether the outputs of hidden layers are divided by the ratio in training (`scaled`).
        """
        module = self.model._made.fresh()
        made: dict[int, Any] = {}
        for name, axes in self.axes.items():
            owner, _, last = name.rpartition(".")
            layer = module.get_submodule(owner)
            tensor = getattr(layer, last)
            if id(tensor) not in made:  # a tensor may have several names
                made[id(tensor)] = tensor, _narrowed(tensor, axes, keep, ratio)
            table = layer._parameters if last in layer._parameters else layer._buffers
            table[last] = made[id(tensor)][1]
        for name, rule in self.layers.items():
            try:
                rule.resize(module.get_submodule(name))
            except ValueError as error:
                raise self._refused(f"at ratio {ratio:g} {name!r} has sizes that do not fit: {error}") from None
            if scaler and name not in self.outputs and any(len(axes) > 1 for axes in rule.axes.values()):
                module.get_submodule(name).register_forward_hook(partial(scaled, ratio))
        return module

    def effort(self, slicing: Slicing, ratio: float) -> float:
        """Return the multiplications of a client for an example, relative to those of the whole module.

        Where each step draws its width, it is the mean over the widths.
        """
        widths = [each for each in slicing.levels if each <= ratio] if slicing.draws else [ratio]
        counts = [self._multiplications(self.cut(slicing.keep, each)) for each in widths]
        return sum(counts) / len(counts) / self._whole

    @cached_property
    def _whole(self) -> int:
        return self._multiplications(self.model._made.fresh())

    def _multiplications(self, module: nn.Module) -> int:
        """Return how many multiplications an output of two made-up examples takes, at least 1."""
        from torch.utils.flop_counter import FlopCounterMode

        inputs, named = passed_example(self.model)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            module.eval()(inputs, **named)
        return max(int(counter.get_total_flops()), 1)

    def _refused(self, why: str) -> SettingError:
        return SettingError(MODEL, self._name, f"it cannot be sliced: {why}: {OWN}")


def scaled(ratio: float, layer: nn.Module, given: Any, output: Any) -> Any:
    """Return the outputs of a layer divided by the ratio in training, as HeteroFL's Scaler does."""
    if not layer.training:
        return output
    return (output[0] / ratio, *output[1:]) if isinstance(output, tuple) else output / ratio


def passed_example(model: TorchModel) -> tuple[Any, dict[str, Any]]:
    """Return two made-up examples as a model's module takes them: its argument, and its named arguments."""
    return model.passed(model.inputs(made_up_examples(model.spec, 2, np.random.Generator(np.random.Philox(0)))))


@lru_cache(maxsize=2)
def sliced_module(model: TorchModel, name: str, rule: str = "") -> SlicedModule:
    """Return the module of a model with the units of its axes; it is traced once in a process."""
    if not isinstance(model, TorchModel):
        raise SettingError(MODEL, name, "it is no torch module, and cannot be sliced: take another strategy.name")
    return SlicedModule(model, name, rule)


def _within(layer: str, name: str) -> str:
    return f"{layer}.{name}" if layer else name


def _fused(module: nn.Module, name: str) -> dict[str, int]:
    """Return how many heads a linear layer makes, as the module that has it says by ``makes_heads``."""
    owner, _, last = name.rpartition(".")
    parent = module.get_submodule(owner)
    times = getattr(parent, "makes_heads", {}).get(last, 0) if name else 0
    return {"heads": parent.heads, "times": times} if times else {}  # type: ignore[dict-item]


def _units(size: int, width: int) -> Axis:
    """Return the axis that counts the units of a width, again and again."""
    return np.stack([np.full(size, width), np.arange(size) % width]).astype(np.int64)


def _narrowed(tensor: Tensor, axes: Sequence[Axis | None], keep: KeepUnits, ratio: float) -> Tensor:
    for place, axis in enumerate(axes):
        if axis is not None:
            chosen = torch.from_numpy(np.flatnonzero(kept(axis, keep, ratio, 1)))
            narrow = tensor.detach().index_select(place, chosen)
            tensor = nn.Parameter(narrow, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else narrow
    return tensor


class _Traced:
    """Passes through a module in which some units are NaN."""

    def __init__(self, model: TorchModel, layers: Mapping[str, SliceRule]) -> None:
        self._model, self._layers = model, layers
        self._poison: dict[str, Bits] = {}  # layer -> which outputs are NaN
        self._found: dict[str, list[Bits]] = {}  # layer -> which of its inputs came as NaN, call by call
        self._inputs, self._named = passed_example(model)
        self.makers = dict(self._makers())  # layer -> the units of its outputs

    def outputs(self) -> Iterator[str]:
        """Yield the layers whose units are outputs of the module."""
        for name, axis in self.makers.items():
            self._poison = {name: np.ones(axis.shape[1], bool)}
            if any(bool(each.isnan().any()) for each in _tensors(self._passed())):
                yield name

    def came(self, outputs: Collection[str]) -> dict[str, Axis | None]:
        """Return the units in the inputs of each layer; None where they are mixed, or differ from call to call.

        Parameters
        ----------
        outputs
            Layers of which no unit is followed.
        """
        makers = {name: axis for name, axis in self.makers.items() if name not in outputs}
        widths = sorted({int(width) for axis in makers.values() for width in axis[0]})
        ends = np.cumsum([1, *widths])  # unit j of width k has the number ends[k] + j; 0 is no unit
        numbers = {name: ends[np.searchsorted(widths, axis[0])] + axis[1] for name, axis in makers.items()}
        found: dict[bool, list[dict[str, list[Bits]]]] = {True: [], False: []}
        for bit in range(int(ends[-1]).bit_length()):
            for wanted, passes in found.items():
                self._poison = {name: ((number >> bit) & 1 == 1) == wanted for name, number in numbers.items()}
                for name in self._poison:  # through queries and keys all units would mix
                    self._poison[name][: self._layers[name].values] = False
                self._passed()
                passes.append(self._found)
        return {name: _decoded(name, found, widths, ends) for name in self._found}

    def _makers(self) -> Iterator[tuple[str, Axis]]:
        for name, rule in self._layers.items():
            counted = [(array, axes) for array, axes in rule.axes.items() if "out" in axes or rule.values]
            if counted:
                array, axes = counted[0]
                counts = "out" if "out" in axes else "heads"
                size = self._model.module.get_parameter(_within(name, array)).shape[axes.index(counts)]
                yield name, _units(size, size if counts == "out" else rule.head)

    def _passed(self) -> Any:
        self._found = {}
        model, modes = self._model, [(part, part.training) for part in self._model.module.modules()]
        with ExitStack() as hooks, torch.no_grad():
            for name in self._layers:
                layer = model.module.get_submodule(name)
                hooks.callback(layer.register_forward_pre_hook(self._reader(name), with_kwargs=True).remove)
                hooks.callback(layer.register_forward_hook(self._writer(name)).remove)
            try:
                return model.module.eval()(self._inputs, **self._named)
            finally:
                for part, mode in modes:
                    part.training = mode

    def _reader(self, name: str) -> Any:
        place = self._layers[name].places

        def read(layer: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
            first = next((each for each in (*given, *named.values()) if _is_float(each)), None)
            if first is not None:
                self._found.setdefault(name, []).append(_nan_along(first, place))
            return tuple(map(_clean, given)), {key: _clean(each) for key, each in named.items()}

        return read

    def _writer(self, name: str) -> Any:
        rule = self._layers[name]

        def write(layer: nn.Module, given: Any, output: Any) -> Any:
            poison = self._found[name][-1] if rule.passes else self._poison.get(name)
            if poison is None or not poison.any():
                return output
            made = (output[0] if isinstance(output, tuple) else output).clone()
            made.movedim(rule.places, -1)[..., torch.from_numpy(poison)] = float("nan")
            return (made, *output[1:]) if isinstance(output, tuple) else made

        return write


def _decoded(name: str, passes: dict[bool, Any], widths: list[int], ends: NDArray[np.int64]) -> Axis | None:
    calls = len(passes[True][0][name])
    axes = []
    for call in range(calls):
        ones, zeros = (np.array([each[name][call] for each in passes[wanted]]) for wanted in (True, False))
        is_none = ~(ones | zeros).any(axis=0)
        if not ((ones ^ zeros).all(axis=0) | is_none).all():
            return None
        numbers = (ones.T << np.arange(len(ones))).sum(axis=1)
        place = np.searchsorted(ends, numbers, side="right") - 1
        axis = np.stack([np.array([*widths, 0])[place], numbers - ends[place]])
        axes.append(np.where(is_none, 0, axis).astype(np.int64))
    return axes[0] if all(np.array_equal(axes[0], each) for each in axes) else None


def _nan_along(tensor: Tensor, place: int) -> Bits:
    found: Bits = tensor.isnan().movedim(place, -1).reshape(-1, tensor.shape[place]).any(0).cpu().numpy()
    return found


def _clean(value: Any) -> Any:
    return value.masked_fill(value.isnan(), 0.0) if _is_float(value) else value


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.ndim > 1


def _tensors(outputs: Any) -> list[Tensor]:
    if isinstance(outputs, Tensor):
        return [outputs]
    values = outputs.values() if isinstance(outputs, Mapping) else outputs
    return [each for each in values if isinstance(each, Tensor)]
