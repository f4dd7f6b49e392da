"""A tensor that stands for one tensor of each of several nodes: what a module computes with it, it computes for all.

A module that is given such tensors, as parameters and as inputs, runs its own code once. What it calls comes to
`Stacked.__torch_function__`: a rule (`rules.py`) computes it for all nodes in one kernel; without a rule it is computed
for one node after another, with the very bytes that the node alone would have.

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
    """A module does what cannot be done for several nodes together; says what."""


class Layout(Enum):
    """How the tensors of all nodes lie."""

    WHOLE = "whole"  # one tensor (K, ...)
    EACH = "each"  # K tensors
    SIDE = "side"  # one tensor (B, K * C, H, W): images side by side, in channels_last format


class Stacked(Tensor):
    """One tensor of each node, all of one shape.

    Parameters
    ----------
    data
        As `layout` says.
    count
        K, how many nodes there are.
    streams
        The nodes' random numbers.
    """

    rules: ClassVar[dict[Callable[..., Any], Callable[..., Any]]] = {}  # filled by `rules`, which knows this class
    data_: Any
    layout_: Layout
    streams: Sequence[Stream]
    _parts: list[Tensor] | None

    @staticmethod
    def __new__(cls, data: Tensor | list[Tensor], layout: Layout, streams: Sequence[Stream]) -> Stacked:
        """Return an empty tensor, to which the data are hung: torch asks us before it looks at it."""
        made: Stacked = torch.Tensor._make_subclass(cls, torch.empty(0))
        made.data_, made.layout_, made.streams, made._parts = data, layout, streams, None
        return made

    def __init__(self, *_: object) -> None:
        super().__init__()

    def parts(self) -> list[Tensor]:
        """Return the tensor of each node."""
        if self._parts is None:
            count = len(self.streams)
            match self.layout_:
                case Layout.EACH:
                    self._parts = list(self.data_)
                case Layout.WHOLE:
                    self._parts = list(self.data_.unbind(0))
                case Layout.SIDE:
                    self._parts = list(self.data_.chunk(count, 1))
        return self._parts

    def whole(self) -> Tensor:
        """Return (K, ...)."""
        match self.layout_:
            case Layout.WHOLE:
                whole = self.data_
            case Layout.EACH:
                whole = torch.stack(self.data_)
            case Layout.SIDE:
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
        """Compute for all nodes what torch was asked to compute."""
        with torch._C.DisableTorchFunctionSubclass():
            rule = cls.rules.get(function)
            if rule is not None:
                made = rule(function, *arguments, **(named or {}))
                if made is not NotImplemented:
                    return made
            return one_by_one(function, arguments, named or {})


DRAWS = re.compile("dropout|attention|rand|bernoulli|multinomial|normal|poisson|uniform|rrelu|gumbel|fractional_")
"""What stands in the names of functions that draw random numbers: each node's are of its own stream."""


def one_by_one(function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Return what a function makes of each node's tensors."""
    streams = _streams_in((arguments, named))
    draws = DRAWS.search(getattr(function, "__name__", ""))
    results = []
    for k, stream in enumerate(streams):
        mine, mine_named = of_node(arguments, k), of_node(named, k)
        with stream.drawing() if draws else nullcontext():
            results.append(function(*mine, **mine_named))
    return joined(results, streams, function)


def joined(results: list[Any], streams: Sequence[Stream], function: object = None) -> Any:
    """Return what one function has returned for each node as what it returns for all."""
    first = results[0]
    if isinstance(first, Tensor):
        return Stacked(results, Layout.EACH, streams)
    if isinstance(first, (tuple, list)) and any(isinstance(each, Tensor) for each in first):
        columns = [joined(list(each), streams, function) for each in zip(*results, strict=True)]
        # One of torch's named results is made of one sequence, a plain one too.
        return type(first)(columns)
    if not all(_alike(each, first) for each in results[1:]):
        name = getattr(function, "__name__", str(function))
        raise CannotStackError(f"its way depends on the numbers in a batch (by {name!r})")
    return first


def _alike(one: Any, other: Any) -> bool:
    """Return whether two results are the same; arrays are not asked."""
    try:
        return bool(one == other)
    except ValueError:
        return False


def _streams_in(given: Any) -> Sequence[Stream]:
    """Return the streams of the first stacked tensor among arguments."""
    if isinstance(given, Stacked):
        return given.streams
    if isinstance(given, Mapping):
        given = given.values()
    elif not isinstance(given, (tuple, list)):
        return ()
    return next((found for found in map(_streams_in, given) if found), ())


def of_node(given: Any, k: int) -> Any:
    """Return arguments with the node's own tensor in the place of each stacked one."""
    if isinstance(given, Stacked):
        return given.parts()[k]
    if isinstance(given, Mapping):
        return {name: of_node(each, k) for name, each in given.items()}
    if type(given) in (tuple, list):
        return type(given)(of_node(each, k) for each in given)
    return given
