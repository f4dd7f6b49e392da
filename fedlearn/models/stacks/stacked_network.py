"""Stacked networks: one torch module with parameters of several nodes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from fedlearn.core.state import Array, State, is_never_negative
from fedlearn.models.stacks.stacked import Arrangement, CannotStackError, Exact, Stacked, joined, of_node
from fedlearn.models.stacks.streams import Stream
from fedlearn.models.torch.buffers import check_unchanged
from fedlearn.models.torch.hidden_state import Beside
from fedlearn.models.torch.parts import Parts

LossOf = Callable[[Any, Tensor], Tensor]
ONE_BY_ONE: tuple[type[nn.Module], ...] = (nn.RNNBase, nn.MultiheadAttention)
"""Modules whose code does not work with stacked tensors; they run for one node after another."""


class StackedNetwork:
    """Parameters and buffers of several nodes, with which a module computes losses and gradients.

    Parameters
    ----------
    module
        Module of a node; it is not changed.
    trained
        Names of the trained parameters.
    count
        Largest number of nodes.
    parts
        Which arrays are sent; frozen parameters stand in memory once for all nodes.
    """

    kind: ClassVar[type[Stacked]] = Stacked

    def __init__(self, module: nn.Module, trained: Sequence[str], count: int, parts: Parts) -> None:
        self._trained = list(trained)
        held = _held_by(module)
        self._names = {id(each): name for name, each in reversed(held.items())}
        self._own = {name: self._names[id(each)] for name, each in held.items()}  # the first name of a tensor
        self._sent = [name for name in parts.shared if self._own[name] == name]
        frozen = {name for name in parts.frozen if isinstance(held[name], nn.Parameter)}
        self._values = {
            name: _for_each(held[name].detach(), count, is_common=name in frozen)
            for name in dict.fromkeys(self._own.values())
        }
        kept = self._values.keys() - {*self._sent, *frozen}
        self._kept = {name: self._values[name].clone() for name in sorted(kept)}  # buffers that are in no state
        self._frozen = frozen
        self._constant = parts.constant
        self._skeleton = _Skeleton(module, self._names, parts)
        self._beside = Beside({"": self._skeleton.module})

    def load(self, state: State) -> None:
        """Set every node to a state, and everything outside of it to its first value."""
        self._beside.put_back()
        for name, value in self._kept.items():
            self._values[name].copy_(value)
        for name in self._sent:
            value = self._values[name].copy_(torch.from_numpy(np.array(state[name])))
            if is_never_negative(name):
                value.clamp_(min=0)

    def parameters_of(self, k: int) -> list[Tensor]:
        """Return the trained parameters of node `k`; they share memory with the stack."""
        return [self._values[name][k] for name in self._trained]

    def arrays_of(self, k: int) -> dict[str, Array]:
        """Return the state of node `k`; raise SettingError where its fit has changed a constant."""
        for name in self._constant:
            check_unchanged(name, self._values[name][k], self._kept[name][k])
        return {name: self._values[name][k].cpu().numpy() for name in self._sent}

    def parameters(self, count: int) -> list[Tensor]:
        """Return the trained parameters of the first nodes, (count, ...) each; they share memory with the stack."""
        return [self._values[name][:count] for name in self._trained]

    def gradients(
        self, nodes: Sequence[int], inputs: Tensor, targets: Tensor, streams: Sequence[Stream], loss_of: LossOf
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the losses (K,) of a batch of each node, and the gradients (K, ...) of the trained parameters.

        Parameters
        ----------
        nodes
            Places of the nodes, each once.
        inputs
            One batch of each node after the other, (K * B, ...).
        targets
            Their targets, (K, B, ...).
        streams
            Random numbers of the nodes.
        loss_of
            Function of the outputs and targets of one node that returns its loss.
        """
        place = _range_or_list(nodes)
        leaves = [self._values[name][place].detach().requires_grad_() for name in self._trained]
        stacked = {
            name: self.kind(leaf, Arrangement.WHOLE, streams) for name, leaf in zip(self._trained, leaves, strict=True)
        }
        for name, value in self._values.items():
            if name not in stacked:
                stacked[name] = self.kind([value[k] for k in nodes], Arrangement.EACH, streams)
        outputs = self._skeleton(stacked, self._inputs(inputs, streams))
        losses = torch.stack([loss_of(of_node(outputs, k), each) for k, each in enumerate(targets)])
        return losses.detach(), list(torch.autograd.grad(losses.sum(), leaves, materialize_grads=True))

    def _inputs(self, inputs: Tensor, streams: Sequence[Stream]) -> Stacked:
        """Return the batches (K * B, ...) as one stacked tensor."""
        return self.kind(inputs.unflatten(0, (len(streams), -1)), Arrangement.WHOLE, streams)


class ExactNetwork(StackedNetwork):
    """A stacked network whose every number has the bytes of a node alone: for modules of which all code is ours."""

    kind = Exact

    def _inputs(self, inputs: Tensor, streams: Sequence[Stream]) -> Stacked:
        """Return the batches as one stacked tensor; each batch has the strides that it has outside of a stack."""
        made = super()._inputs(inputs, streams)
        made._parts = list(inputs.tensor_split(len(streams)))
        return made


class FunctionalNetwork(StackedNetwork):
    """A stacked network by `torch.func.vmap`: every function of a module is one kernel for all nodes.

    A GPU needs this: a step of a small network takes as long there as it has kernels. On a CPU it is slower than one
    node after another. Modules that draw random numbers are refused, as all nodes would share one stream.
    """

    def __init__(self, module: nn.Module, trained: Sequence[str], count: int, parts: Parts) -> None:
        super().__init__(module, trained, count, parts)
        self._module = module

    def gradients(
        self, nodes: Sequence[int], inputs: Tensor, targets: Tensor, streams: Sequence[Stream], loss_of: LossOf
    ) -> tuple[Tensor, list[Tensor]]:
        """Return losses and gradients, as `StackedNetwork.gradients` does."""
        place = _range_or_list(nodes)
        trained = {name: self._values[name][place] for name in self._trained}
        others = {name: value[place] for name, value in self._values.items() if name not in trained}

        def loss(trained: dict[str, Tensor], others: dict[str, Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
            return loss_of(functional_call(self._module, {**others, **trained}, (inputs,)), targets)

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")  # of a function without a batching rule
            batches = inputs.unflatten(0, (len(nodes), -1))
            gradients, losses = vmap(grad_and_value(loss))(trained, others, batches, targets)
        for name, value in others.items():  # running means, where they are no views
            if name not in self._frozen:
                self._values[name][place] = value
        return losses.detach(), [gradients[name] for name in self._trained]


def _for_each(tensor: Tensor, count: int, *, is_common: bool) -> Tensor:
    """Return a tensor of each of `count` nodes, (count, ...); common ones share memory."""
    one = tensor.unsqueeze(0)
    return one.expand(count, *tensor.shape) if is_common else one.repeat(count, *[1] * tensor.ndim)


def _range_or_list(nodes: Sequence[int]) -> slice | list[int]:
    """Return the index of these nodes in a tensor: a slice, which gives a view, where they are adjacent."""
    first, last = nodes[0], nodes[-1]
    beside = list(nodes) == list(range(first, last + 1))
    return slice(first, last + 1) if beside else list(nodes)


def _held_by(module: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers by name, with those that no state holds."""
    return dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))


class _Skeleton:
    """A module without its own parameters: each call passes them."""

    def __init__(self, module: nn.Module, names: Mapping[int, str], parts: Parts) -> None:
        self._places: list[tuple[nn.Module, str, str]] = []
        copied: dict[int, Any] = {}
        self.module = deepcopy(module, copied)
        by_id = {id(copied[key]): name for key, name in names.items() if key in copied}
        parts.train(self.module)
        self._hollow(self.module, by_id)

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
        outputs = self.module(inputs)
        for module, place, name in self._places:
            if not isinstance(module, _OneByOne) and getattr(module, place) is not tensors[name]:
                raise CannotStackError(f"it replaces the tensor {name} by another one")
        return outputs


class _OneByOne(nn.Module):
    """A module that runs for one node after another."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = (inner,)  # in a tuple, so that torch does not find its parameters
        self.own: dict[str, Any] = _held_by(inner)

    def forward(self, *arguments: Any, **named: Any) -> Any:
        """Return the module's outputs for all nodes, each with its own parameters and random numbers."""
        like = next(each for each in (*arguments, *named.values()) if isinstance(each, Stacked))
        results = []
        for k, stream in enumerate(like.streams):
            mine = {name: each.parts()[k] for name, each in self.own.items()}
            given = [each.parts()[k] if isinstance(each, Stacked) else each for each in arguments]
            given_named = {name: each.parts()[k] if isinstance(each, Stacked) else each for name, each in named.items()}
            with stream.drawing():
                results.append(functional_call(self.inner[0], mine, tuple(given), given_named))
        return joined(results, like)
