"""Making of torch modules: new ones, and those whose numbers follow from a seed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from fedlearn.core.seeding import seed_for
from fedlearn.core.state import COMPILED
from fedlearn.data.data_spec import DataSpec
from fedlearn.models.torch.device import CPU, seed_torch
from fedlearn.models.torch.inputs import inputs_of
from fedlearn.plugins.generators import seeded_globals


class Making:
    """The making of modules of one model.

    Parameters
    ----------
    build
        Function without arguments that returns a new module.
    spec
        Shape, classes and bounds of the data.
    """

    def __init__(self, build: Callable[[], nn.Module], spec: DataSpec) -> None:
        self._build = build
        self._spec = spec

    def fresh(self) -> nn.Module:
        """Return a new module without wrappers.

        Lazy layers, such as `nn.LazyLinear`, get their sizes from two examples of zeros. That pass is one of an
        evaluation, and leaves no trace in buffers: no norm learns from the zeros.
        """
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Lazy modules")
            module = without_wrappers(self._build())
        if any(is_lazy(each) for each in (*module.parameters(), *module.buffers())):
            _size(module, self.zeros())
        return module

    def initialized(self, seed: int) -> dict[str, Tensor]:
        """Return the tensors of a new module, initialized by itself under a seed."""
        with seeded_globals(seed_for(seed, purpose="initial state, not by torch")):
            seed_torch(CPU, seed_for(seed, purpose="initial state"))
            return self.fresh().state_dict()

    def made_up(self, count: int, rng: np.random.Generator) -> Tensor:
        """Return the module's input for made-up examples."""
        return inputs_of(self._spec)(made_up_examples(self._spec, count, rng))

    def zeros(self) -> Tensor:
        """Return the module's input for two examples of zeros."""
        return inputs_of(self._spec)(np.zeros((2, *self._spec.shape), self._spec.dtype))


def without_wrappers(module: Any) -> nn.Module:
    """Return a module in which no part stands in a wrapper, so that its state has plain names.

    A part that `torch.compile` has wrapped is compiled in place, as by its own ``compile()``. `nn.DataParallel` is left
    out, as a process computes on one device.
    """
    for name, part in module._modules.items():
        if part is not None:
            module._modules[name] = without_wrappers(part)
    if isinstance(module, nn.DataParallel):
        module = module.module
    elif (inner := module._modules.get(COMPILED)) is not None and hasattr(module, "dynamo_ctx"):
        inner._compiled_call_impl = module.dynamo_ctx(inner._call_impl)  # as nn.Module.compile sets it
        module = inner
    plain: nn.Module = module
    return plain


def _size(module: nn.Module, zeros: Tensor) -> None:
    """Let lazy layers take their sizes from an input."""
    modes = {part: part.training for part in module.modules()}
    known = [each for each in module.buffers() if not is_lazy(each)]
    before = [each.clone() for each in known]
    with torch.no_grad():
        module.eval()(zeros)
        for each, value in zip(known, before, strict=True):
            each.copy_(value)
    for part, mode in modes.items():
        part.training = mode


def made_up_examples(spec: DataSpec, count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return made-up examples of a data set's shape, different from one another."""
    shape = (count, *spec.shape)
    if spec.vocabulary:
        return rng.integers(1, spec.vocabulary, shape).astype(spec.dtype)
    if spec.table is not None:  # numbers within their bounds, then codes of categories
        numbers = [low + (high - low) * rng.random(count) for low, high, *_ in spec.table.bounds.values()]
        codes = [rng.integers(0, len(names), count) for names in spec.table.categories.values()]
        return np.stack([*numbers, *codes], axis=1).astype(spec.dtype)
    if np.dtype(spec.dtype).kind in "iu":
        return rng.integers(0, 256 if spec.dtype == "uint8" else 2, shape).astype(spec.dtype)
    return rng.standard_normal(shape).astype(spec.dtype)
