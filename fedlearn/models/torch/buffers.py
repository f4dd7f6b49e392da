"""Buffers of a module by what a forward pass does to them.

- A buffer that no forward pass changes is a *constant*, such as a causal mask, a table of sinusoids or an epsilon:
  nobody trains it, so it stays as the module makes it.
- One that passes change to the same numbers whatever the examples are, and that is a unit vector or lies within a
  parametrization, is *auxiliary*: it follows from a weight, as the singular vectors of a spectral norm do. A mean of
  such vectors is none, so the module itself computes them anew from each new state.
- Any other one is *running*: its nodes' values are averaged, as those of batch normalization are.

Parameters are not looked at: what requires a gradient is trained, even if no made-up example reaches it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils.parametrize import ParametrizationList

from fedlearn.core.errors import SettingError
from fedlearn.models.torch.making import Making
from fedlearn.models.torch.parts import NORMS, names_of
from fedlearn.plugins.generators import seeded_globals

SEED = 21  # of made-up examples, the same in every process
PASSES = 3
EXAMPLES = 4  # batch normalization needs more than one
UNIT = 1e-3  # tolerance of the length of a unit vector
OF_TORCH = NORMS[0]  # its buffers are running, untried
CHANGED = (
    "buffer {name} has changed in a fit, though no forward pass of the trial before round 1 changed it, so that it was "
    'taken for a constant, which is not sent: name it, as training.send = ["*", "{name}"], to have it sent and averaged'
)


class Kinds(NamedTuple):
    """The buffers of a state by kind, as names; the others are running."""

    constant: frozenset[str] = frozenset()
    auxiliary: frozenset[str] = frozenset()


def kinds_of(module: nn.Module, made: Making) -> Kinds:
    """Return the kinds of the buffers of a module's state, by forward passes in training mode.

    The passes are made on other modules, so that they leave no trace; none are made where all buffers are those of
    torch's own norms. Of a module that fails all buffers are running: the trial step before round 1 says why it fails.
    """
    if names := own_buffers(module):
        with suppress(Exception):
            before, after = _tried(made, names, SEED)
            constant = {name for name in names if is_same_tensor(before[name], after[name])}
            found = [n for n in names if n not in constant and _may_follow(n, module, before[n], after[n])]
            other = _tried(made, found, SEED + 1)[1] if found else {}
            auxiliary = {name for name in found if is_same_tensor(after[name], other[name])}
            return Kinds(frozenset(constant), frozenset(auxiliary))
    return Kinds()


def _tried(made: Making, names: Sequence[str], seed: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return buffers of a new module before and after passes on made-up examples, which the seed draws.

    Parameters move between the passes, the same whatever the seed, as a vector that follows from a weight may have
    come to rest already.
    """
    rng, moves = np.random.Generator(np.random.Philox(seed)), torch.Generator().manual_seed(SEED)
    with seeded_globals(SEED), torch.no_grad():
        module = made.fresh().train()
        before = _copied(module, names)
        for _ in range(PASSES):
            module(made.made_up(EXAMPLES, rng))
            for each in filter(_is_trained, module.parameters()):
                each.add_(torch.randn(each.shape, generator=moves).to(each) * each.abs().mean())
        return before, _copied(module, names)


def _is_trained(parameter: nn.Parameter) -> bool:
    return parameter.requires_grad and not isinstance(parameter, UninitializedParameter)


def _may_follow(name: str, module: nn.Module, before: Tensor, after: Tensor) -> bool:
    """Return whether a buffer may follow from a weight: it is a unit vector, or a parametrization has it."""
    if not before.is_floating_point() or before.shape != after.shape:
        return False
    layers = (module.get_submodule(path) for path in accumulate(name.split(".")[:-1], "{}.{}".format))
    is_unit = before.numel() > 1 and all(abs(float(each.norm()) - 1) < UNIT for each in (before, after))
    return is_unit or any(isinstance(each, ParametrizationList) for each in layers)


def check_unchanged(name: str, now: Tensor | None, first: Tensor) -> None:
    """Raise SettingError where a fit has changed a constant."""
    if now is None or not is_same_tensor(now, first.to(now.device)):
        raise SettingError("training.send", "", CHANGED.format(name=name))


def is_same_tensor(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same type, shape and numbers; NaN is the same as NaN."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())


def own_buffers(module: nn.Module) -> list[str]:
    """Return the names of the buffers in a module's state that are not those of torch's norms."""
    known = {
        id(each) for part in module.modules() if isinstance(part, OF_TORCH) for each in part.buffers(recurse=False)
    }
    stored = module.state_dict(keep_vars=True)
    return [
        name for name in names_of(module) if not (isinstance(stored[name], nn.Parameter) or id(stored[name]) in known)
    ]


def _copied(module: nn.Module, names: Sequence[str]) -> dict[str, Tensor]:
    stored = module.state_dict(keep_vars=True)
    return {name: stored[name].detach().clone() for name in names}
