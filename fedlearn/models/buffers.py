"""Buffers of a module by what a forward pass does to them.

A buffer that a forward pass changes is *running*: its nodes' values are averaged, as those of batch normalization are.
One that no forward pass changes is a *constant*, such as a causal mask, a table of sinusoids or an epsilon: nobody
trains it, so it stays as the module makes it. Parameters are not looked at: what requires a gradient is trained, even
if no made-up example reaches it.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import torch
from torch import Tensor, nn

from fedlearn.models.making import Making
from fedlearn.models.parts import NORMS, names_of
from fedlearn.plugging.generators import seeded_globals
from fedlearn.words.errors import SettingError

SEED = 21  # of made-up examples, the same in every process
PASSES = 3
EXAMPLES = 4  # batch normalization needs more than one
OF_TORCH = NORMS[0]  # its buffers are running, untried
CHANGED = (
    "buffer {name} has changed in a fit, though no forward pass of the trial before round 1 changed it, so that it was "
    'taken for a constant, which is not sent: name it, as training.send = ["*", "{name}"], to have it sent and averaged'
)


def constants_of(module: nn.Module, made: Making) -> frozenset[str]:
    """Return the names of the buffers of a module's state that no forward pass in training mode changes.

    The passes are made on another module, so that they leave no trace; none are made where all buffers are those of
    torch's own norms. A module that fails has no constants here: the trial step before round 1 says why it fails.
    """
    names = _untried(module)
    if not names:
        return frozenset()
    with seeded_globals(SEED), suppress(Exception), torch.no_grad():
        tried = made.fresh().train()
        before = _copied(tried, names)
        rng = np.random.Generator(np.random.Philox(SEED))
        for _ in range(PASSES):
            tried(made.made_up(EXAMPLES, rng))
        after = _copied(tried, names)
        return frozenset(name for name in names if is_same_tensor(before[name], after[name]))
    return frozenset()


def check_unchanged(name: str, now: Tensor | None, first: Tensor) -> None:
    """Raise SettingError where a fit has changed a constant."""
    if now is None or not is_same_tensor(now, first.to(now.device)):
        raise SettingError("training.send", "", CHANGED.format(name=name))


def is_same_tensor(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same type, shape and numbers; NaN is the same as NaN."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())


def _untried(module: nn.Module) -> list[str]:
    """Return the names of the buffers in a module's state that are not those of torch's norms."""
    known = {
        id(each) for part in module.modules() if isinstance(part, OF_TORCH) for each in part.buffers(recurse=False)
    }
    stored = module.state_dict(keep_vars=True)
    return [
        name for name in names_of(module) if not (isinstance(stored[name], nn.Parameter) or id(stored[name]) in known)
    ]


def _copied(module: nn.Module, names: list[str]) -> dict[str, Tensor]:
    stored = module.state_dict(keep_vars=True)
    return {name: stored[name].detach().clone() for name in names}
