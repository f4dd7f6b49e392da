"""One torch module for several nodes, each with parameters of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedlearn.models.stacks.stacked import Layout, Stacked, joined
from fedlearn.models.stacks.streams import Stream
from fedlearn.state import Array, State

ONE_BY_ONE: tuple[type[nn.Module], ...] = (nn.RNNBase, nn.MultiheadAttention)
"""Modules whose own code does not do with stacked tensors: it is run for one node after another."""


class StackedNetwork:
    """The parameters and buffers of several nodes, and what computes with them.

    Parameters
    ----------
    module
        Stays as it is.
    trained
        Names of the parameters that are trained.
    count
        How many nodes there are at most.
    """

    def __init__(self, module: nn.Module, trained: Sequence[str], count: int) -> None:
        self._trained = list(trained)
        held = _held_by(module)
        self._names = {id(each): name for name, each in reversed(held.items())}
        self._own = {name: self._names[id(each)] for name, each in held.items()}  # of two names of one tensor the first
        self._sent = [name for name, each in module.state_dict(keep_vars=True).items() if isinstance(each, Tensor)]
        self._values = {
            name: held[name].detach().unsqueeze(0).repeat(count, *[1] * held[name].ndim)
            for name in dict.fromkeys(self._own.values())
        }
        self._skeleton = _Skeleton(module, self._names)

    def load(self, state: State) -> None:
        """Have every node begin with a state."""
        for name in self._sent:
            self._values[self._own[name]].copy_(torch.from_numpy(np.array(state[name])))

    def parameters_of(self, k: int) -> list[Tensor]:
        """Return the trained parameters of a node; they share memory."""
        return [self._values[name][k] for name in self._trained]

    def arrays_of(self, k: int) -> dict[str, Array]:
        """Return the state of a node."""
        return {name: self._values[self._own[name]][k].cpu().numpy() for name in self._sent}

    def gradients(
        self,
        nodes: Sequence[int],
        inputs: Sequence[Tensor],
        streams: Sequence[Stream],
        losses_of: Callable[[Any], Tensor],
    ) -> tuple[Tensor, list[list[Tensor]]]:
        """Return the losses (K,) of a batch of each of these nodes, and of each node the gradients of its own.

        Parameters
        ----------
        nodes
            Which ones, each once.
        inputs
            A batch of each; all of one shape.
        losses_of
            Makes (K,) losses of the outputs.
        """
        place = _range_or_list(nodes)
        leaves = [self._values[name][place].detach().requires_grad_() for name in self._trained]
        values: dict[str, Any] = dict(zip(self._trained, leaves, strict=True))
        stacked = {name: Stacked(leaf, Layout.WHOLE, streams) for name, leaf in values.items()}
        for name, value in self._values.items():
            if name not in stacked:
                stacked[name] = Stacked([value[k] for k in nodes], Layout.EACH, streams)
        outputs = self._skeleton(stacked, Stacked(list(inputs), Layout.EACH, streams))
        losses = losses_of(outputs)
        gradients = torch.autograd.grad(losses.sum(), leaves, materialize_grads=True)
        return losses.detach(), [list(of_node) for of_node in zip(*(each.unbind(0) for each in gradients), strict=True)]


def _range_or_list(nodes: Sequence[int]) -> slice | list[int]:
    """Return what takes nodes out of a tensor; a view where they stand beside each other."""
    first, last = nodes[0], nodes[-1]
    beside = list(nodes) == list(range(first, last + 1))
    return slice(first, last + 1) if beside else list(nodes)


def _held_by(module: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers by name, also those that no state holds."""
    return dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))


class _Skeleton:
    """A module without parameters of its own: it is given them for each call."""

    def __init__(self, module: nn.Module, names: Mapping[int, str]) -> None:
        self._places: list[tuple[nn.Module, str, str]] = []
        copied: dict[int, Any] = {}
        self._module = deepcopy(module, copied)
        by_id = {id(copied[key]): name for key, name in names.items() if key in copied}
        self._hollow(self._module, by_id)
        self._module.train()

    def _hollow(self, module: nn.Module, names: Mapping[int, str]) -> None:
        for name, child in list(module.named_children()):
            if isinstance(child, ONE_BY_ONE):
                setattr(module, name, _OneByOne(child))
        for child in module.children():
            self._hollow(child, names)
        if isinstance(module, _OneByOne):
            self._places += [(module, place, names[id(each)]) for place, each in module.own.items()]
            return
        for held in (module._parameters, module._buffers):
            for place, tensor in list(held.items()):
                if tensor is not None:
                    del held[place]
                    self._places.append((module, place, names[id(tensor)]))

    def __call__(self, tensors: Mapping[str, Stacked], inputs: Stacked) -> Any:
        for module, place, name in self._places:
            if isinstance(module, _OneByOne):
                module.own[place] = tensors[name]
            else:
                object.__setattr__(module, place, tensors[name])
        return self._module(inputs)


class _OneByOne(nn.Module):
    """A module that is called for one node after another."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = (inner,)  # hidden from torch: its parameters are nobody's
        self.own: dict[str, Any] = _held_by(inner)

    def forward(self, *arguments: Any, **named: Any) -> Any:
        """Return what the module makes of each node's tensors, with the node's parameters and random numbers."""
        streams = next(each for each in (*arguments, *named.values()) if isinstance(each, Stacked)).streams
        results = []
        for k, stream in enumerate(streams):
            mine = {name: each.parts()[k] for name, each in self.own.items()}
            given = [each.parts()[k] if isinstance(each, Stacked) else each for each in arguments]
            given_named = {name: each.parts()[k] if isinstance(each, Stacked) else each for name, each in named.items()}
            with stream.drawing():
                results.append(functional_call(self.inner[0], mine, tuple(given), given_named))
        return joined(results, streams)
