"""Stacked tensors: one tensor object stands for one tensor of each of several nodes.

A module whose parameters and inputs are stacked tensors runs its own code once. Every torch function that it calls goes
to `Stacked.__torch_function__`. A rule (`rules.py`) computes the function for all nodes in one kernel; without a rule
it is computed for one node after another, with exactly the bytes that the node has alone.

Shapes: K nodes, B batch, C channels, H height, W width.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from enum import Enum
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from fedlearn.models.stacks.streams import Stream


class CannotStackError(Exception):
    """A module cannot be computed for several nodes together; the text says why."""


class Arrangement(Enum):
    """Arrangement of the tensors of all nodes in memory."""

    WHOLE = "whole"  # one tensor (K, ...)
    EACH = "each"  # K tensors
    SIDE = "side"  # one tensor (B, K * C, H, W): images side by side, in channels_last format


class Stacked(Tensor):
    """One tensor of each node, all of one shape.

    Parameters
    ----------
    data
        The tensors, as `arrangement` says.
    arrangement
        How they are arranged in memory.
    streams
        Random numbers of the nodes, one stream each.
    """

    rules: ClassVar[dict[Callable[..., Any], Callable[..., Any]]] = {}  # filled by `stack_rules`, which imports it
    data_: Any
    arrangement_: Arrangement
    streams: Sequence[Stream]
    _parts: list[Tensor] | None

    @staticmethod
    def __new__(cls, data: Tensor | list[Tensor], arrangement: Arrangement, streams: Sequence[Stream]) -> Stacked:
        """Return an empty tensor with the data as attributes: torch calls `__torch_function__` before it reads it."""
        made: Stacked = torch.Tensor._make_subclass(cls, torch.empty(0))
        made.data_, made.arrangement_, made.streams, made._parts = data, arrangement, streams, None
        return made

    def __init__(self, *_: object) -> None:
        super().__init__()

    def parts(self) -> list[Tensor]:
        """Return the tensor of each node."""
        if self._parts is None:
            count = len(self.streams)
            match self.arrangement_:
                case Arrangement.EACH:
                    self._parts = list(self.data_)
                case Arrangement.WHOLE:
                    self._parts = list(self.data_.unbind(0))
                case Arrangement.SIDE:
                    self._parts = list(self.data_.chunk(count, 1))
        return self._parts

    def whole(self) -> Tensor:
        """Return the tensors of all nodes as one tensor, (K, ...)."""
        match self.arrangement_:
            case Arrangement.WHOLE:
                whole = self.data_
            case Arrangement.EACH:
                whole = torch.stack(self.data_)
            case Arrangement.SIDE:
                whole = self.data_.unflatten(1, (len(self.streams), -1)).transpose(0, 1)
        return cast(Tensor, whole)

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        named: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the result of a torch function for all nodes."""
        with torch._C.DisableTorchFunctionSubclass():
            rule = cls.rules.get(function)
            if rule is not None:
                made = rule(function, *arguments, **(named or {}))
                if made is not NotImplemented:
                    return made
            return one_by_one(function, arguments, named or {})


class Exact(Stacked):
    """Stacked tensors of which every number has the bytes that it has where its node is alone.

    Its only rules call the same code for each node; all else is computed for one node after another.
    """

    rules: ClassVar[dict[Callable[..., Any], Callable[..., Any]]] = {}


DRAWS = re.compile("dropout|attention|rand|bernoulli|multinomial|normal|poisson|uniform|rrelu|gumbel|fractional_")
"""Parts of the names of functions that draw random numbers; each node draws them from its own stream."""


def one_by_one(function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Return the result of a function for all nodes, computed for one node after another."""
    like = _first_in((arguments, named))
    draws = DRAWS.search(getattr(function, "__name__", ""))
    results = []
    for k, stream in enumerate(like.streams):
        mine, mine_named = of_node(arguments, k), of_node(named, k)
        with stream.drawing() if draws else nullcontext():
            results.append(function(*mine, **mine_named))
    return joined(results, like, function)


def joined(results: list[Any], like: Stacked, function: object = None) -> Any:
    """Return the results of one function for each node as one result for all nodes, of the kind of its arguments."""
    first = results[0]
    if isinstance(first, Tensor):
        return type(like)(results, Arrangement.EACH, like.streams)
    if isinstance(first, (tuple, list)) and any(isinstance(each, Tensor) for each in first):
        columns = [joined(list(each), like, function) for each in zip(*results, strict=True)]
        # torch's named results are built from one sequence, as plain tuples are
        return type(first)(columns)
    if not all(_alike(each, first) for each in results[1:]):
        name = getattr(function, "__name__", str(function))
        raise CannotStackError(f"its way depends on the numbers in a batch (by {name!r})")
    return first


def _alike(one: Any, other: Any) -> bool:
    """Return whether two results are equal; arrays count as different."""
    try:
        return bool(one == other)
    except ValueError:
        return False


def _first_in(given: Any) -> Any:
    """Return the first stacked tensor among arguments; None without one."""
    if isinstance(given, Stacked):
        return given
    if isinstance(given, Mapping):
        given = given.values()
    elif not isinstance(given, (tuple, list)):
        return None
    return next((found for found in map(_first_in, given) if found is not None), None)


def of_node(given: Any, k: int) -> Any:
    """Return arguments in which each stacked tensor is replaced by that of node `k`."""
    if isinstance(given, Stacked):
        return given.parts()[k]
    if type(given) in (tuple, list):
        return type(given)([of_node(each, k) for each in given])
    if isinstance(given, Mapping):
        return {name: of_node(each, k) for name, each in given.items()}
    return given
