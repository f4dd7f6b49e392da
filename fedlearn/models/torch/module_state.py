"""The state of a torch module: its parameters and buffers as named arrays, and back.

All float32 parameters are views of one flat buffer. On the CPU arrays share the module's memory; from another device
(``engine.device``) a state is copied: what is stored and sent are arrays of this machine's memory.

NumPy has no bfloat16: a frozen tensor of it stands in arrays by its bits, as int16. None is ever sent or averaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedlearn.core.errors import Refused
from fedlearn.core.state import Array, State, is_never_negative, layout_of
from fedlearn.models.torch.buffers import check_unchanged
from fedlearn.models.torch.device import CPU
from fedlearn.models.torch.parts import Parts

NUMBERS = {
    torch.float16, torch.float32, torch.float64, torch.bool,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
}  # fmt: skip
BITS = {torch.bfloat16: torch.int16}  # dtypes that NumPy lacks -> one that holds their bits
NO_BITS = "{name} is bfloat16, and nothing that is sent is: freeze it (requires_grad=False), or make it .float()"


class ModuleState:
    """Parameters and buffers of a module that has been moved to its device.

    Parameters
    ----------
    module
        Its parameters become views of one buffer for each dtype.
    device
        Device of the module.
    parts
        What of the state is sent, kept by a node, or frozen. Frozen parameters no longer require gradients.
    kept
        Id of a frozen tensor -> one with its numbers, which stands in `first` in place of a copy.

    Attributes
    ----------
    parameters, names
        Trained parameters, and their names in the state.
    tied
        Further names of a tensor -> the name by which the state holds it.
    tensors
        Name -> tensor that is not frozen, without gradient; views of the module's memory.
    stored
        Parameters and buffers that are not frozen, as the module has them.
    first
        Name -> first value of each array that is never sent: of frozen and of personal ones.
    """

    def __init__(
        self, module: nn.Module, device: torch.device, parts: Parts, kept: Mapping[int, Tensor] = MappingProxyType({})
    ) -> None:
        stored = module.state_dict(keep_vars=True)
        frozen = set(parts.frozen)
        for name in parts.left_out:
            stored[name].requires_grad_(False)
        own = {id(each): name for name, each in reversed(stored.items())}  # the first of several names of one tensor
        sent = set(parts.shared)
        self.first = {
            name: array_of(kept[id(each)]) if id(each) in kept else array_of(each.detach().cpu()).copy()
            for name, each in stored.items()
            if own[id(each)] == name and name not in sent
        }
        self._unsent = {name: stored[name].detach() for name in self.first}
        self._personal = {name: self.first[name] for name in parts.personal}
        self.stored = tuple(each for each in stored.values() if own[id(each)] not in frozen)
        trained = [each for each in module.named_parameters() if each[1].requires_grad]
        self.names = [own.get(id(each), name) for name, each in trained]
        self.tied = {name: own[id(each)] for name, each in stored.items() if name != own[id(each)]}
        self.parameters = [each for _, each in trained]
        for dtype in {each.dtype for each in self.parameters}:
            _flatten([each for each in self.parameters if each.dtype is dtype])
        held = {name: each for name, each in stored.items() if name not in frozen}
        self.tensors = {name: each.detach() for name, each in held.items() if name not in self.tied}
        self._views = {name: array_of(tensor) for name, tensor in self.tensors.items()} if device == CPU else {}
        self._signed = [name for name in self.tensors if is_never_negative(name)]
        ids = {id(each) for each in self.stored}
        owners: list[dict[str, Any]] = [each for part in module.modules() for each in (part._parameters, part._buffers)]
        self._places = [(owner, name, each) for owner in owners for name, each in owner.items() if id(each) in ids]
        constant = {id(stored[name]): name for name in parts.constant}
        self._constants = [
            (owner, place, each, constant[id(each)])
            for owner in owners
            for place, each in owner.items()
            if id(each) in constant
        ]

    def load(self, state: State) -> None:
        """Copy a state into the module.

        A tensor with several names is stored by the first; where a state has further names, the last of them counts.
        A state without personal arrays gets the first ones.
        """
        if self._personal:
            state = {**self._personal, **state}
        for name, view in self._views.items():
            np.copyto(view, state[name])
        if not self._views:
            for name, tensor in self.tensors.items():
                tensor.copy_(torch.from_numpy(np.array(state[name])))
        for name, first in self.tied.items():
            if name in state and first in self.tensors:
                self.tensors[first].copy_(torch.from_numpy(np.array(state[name])))
        for name in self._signed:
            self.tensors[name].clamp_(min=0)
        for parameter in self.parameters:
            parameter.grad = None  # a learner may have added gradients up there

    def hold(self, first: State) -> None:
        """Take other values of the arrays that are never sent."""
        for name, array in first.items():
            np.copyto(self.first[name], array)
            self._unsent[name].copy_(_tensor_of(self.first[name], self._unsent[name].dtype))

    def arrays(self) -> State:
        """Return what is not frozen of the module's state as arrays; on the CPU they share its memory.

        Raises
        ------
        TypeError
            If a tensor was replaced by one of another shape or dtype.
        SettingError
            If a constant was changed.
        """
        for owner, name, tensor in self._places:
            if owner[name] is not tensor:  # the module has put another tensor in its place
                _take_over(tensor, owner[name], name)
                owner[name] = tensor
        for owner, place, tensor, name in self._constants:
            now, owner[place] = owner[place], tensor
            check_unchanged(name, now, _tensor_of(self.first[name], tensor.dtype))
        return self._views or {name: tensor.cpu().numpy() for name, tensor in self.tensors.items()}


def array_of(tensor: Tensor) -> Array:
    """Return a tensor of this machine's memory as an array that shares it; bfloat16 by its bits.

    >>> array_of(torch.tensor([1.0, -2.0], dtype=torch.bfloat16))
    array([ 16256, -16384], dtype=int16)
    """
    return np.asarray((tensor.view(BITS[tensor.dtype]) if tensor.dtype in BITS else tensor).numpy())


def _tensor_of(array: Array, dtype: torch.dtype) -> Tensor:
    """Return an array as the tensor that it stands for, which shares its memory."""
    return torch.from_numpy(array).view(dtype) if dtype in BITS else torch.from_numpy(array)


def fill(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy the tensors of another module of the same kind into a module."""
    for name, tensor in module.state_dict().items():
        tensor.copy_(tensors[name])


def check_alike(arrays: State, own: State) -> None:
    """Raise Refused where arrays that another process has sent could not be those of a module in place of `own`.

    Infinity is refused but where the module itself has it, as in a causal mask.
    """
    if layout_of(arrays) != layout_of(own):
        raise Refused("undecodable", "the unsent arrays have other names, types or shapes than the model's")
    for name, array in arrays.items():
        odd = ~np.isfinite(array)
        if not np.array_equal(array[odd], own[name][odd], equal_nan=True):
            raise Refused("not-finite", f"{name} holds NaN or infinity")


def check_numbers(module: nn.Module) -> None:
    """Raise TypeError where a module holds anything but real numbers of up to 64 bits, or trains bfloat16."""
    for name, each in module.state_dict(keep_vars=True).items():
        if not isinstance(each, Tensor) or each.dtype not in NUMBERS | BITS.keys():
            kind = each.dtype if isinstance(each, Tensor) else type(each).__name__
            raise TypeError(f"{name} is {kind}: a state holds arrays of real numbers of up to 64 bits")
        if each.dtype in BITS and each.requires_grad:
            raise TypeError(NO_BITS.format(name=name))


def check_memory(module: nn.Module) -> None:
    """Raise TypeError where two parameters share memory: each would be trained, sent and averaged by itself."""
    begun: dict[int, str] = {}
    for name, each in module.named_parameters():
        if not each.requires_grad:
            continue
        other = begun.setdefault(each.data_ptr(), name) if each.numel() else name
        if other != name:
            raise TypeError(
                f"{name} and {other} share memory, but are two parameters: make them one, by assigning the parameter "
                "itself and not its .data"
            )


def _take_over(tensor: Tensor, other: Tensor | None, name: str) -> None:
    """Copy the tensor that a module put in a state tensor's place; raise TypeError for another shape or dtype."""
    if other is None or other.shape != tensor.shape or not torch.can_cast(other.dtype, tensor.dtype):
        now = "None" if other is None else f"{other.dtype} of shape {tuple(other.shape)}"
        raise TypeError(
            f"{name} was {tensor.dtype} of shape {tuple(tensor.shape)}, and is {now} after a fit: tensors of the "
            "state must keep shape and dtype"
        )
    tensor.copy_(other.detach())


def _flatten(parameters: list[nn.Parameter]) -> None:
    """Make all parameters of one dtype views of one flat buffer."""
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
    start = 0
    for parameter in parameters:
        stop = start + parameter.numel()
        parameter.data = flat[start:stop].view_as(parameter)
        start = stop
