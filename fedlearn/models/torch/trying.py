"""Trials of a torch module: what it can be trained on."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedlearn.data.data_spec import Examples
from fedlearn.models.objectives import Objective
from fedlearn.models.torch.hidden_state import Beside
from fedlearn.models.torch.parts import Parts
from fedlearn.plugins.generators import seeded_globals

OVER_A_BATCH = nn.modules.batchnorm._NormBase
SEED = 0


class Computing(Protocol):
    """What is tried: a module with its objective, as `fedlearn.models.torch.torch_model.TorchModel` holds them."""

    module: nn.Module
    beside: Beside
    parts: Parts

    @property
    def objective(self) -> Objective:
        """The loss and the metrics."""
        ...

    def outputs(self, inputs: Tensor) -> Any:
        """Return the module's outputs for a batch."""
        ...

    def inputs_at(self, examples: Examples, rows: NDArray[np.integer[Any]]) -> Tensor:
        """Return the module's input for some rows."""
        ...

    def targets(self, targets: NDArray[Any]) -> Tensor:
        """Return the targets of a batch as a tensor."""
        ...


def takes_one(model: Computing, examples: Examples) -> bool:
    """Return whether a step on a single example works; a norm over a batch needs two."""
    may_need_two = model.beside.is_foreign or any(isinstance(part, OVER_A_BATCH) for part in model.module.modules())
    works = not may_need_two or _works_on(model, examples, 1) or not _works_on(model, examples, 2)
    model.beside.put_back()
    return works


def _works_on(model: Computing, examples: Examples, count: int) -> bool:
    """Return whether a copy of the module in training mode has a finite loss on `count` examples."""
    rows = np.arange(count) % len(examples)
    module = model.module
    try:
        model.module = deepcopy(module)
        model.parts.train(model.module)
        with seeded_globals(SEED), torch.no_grad():
            outputs = model.outputs(model.inputs_at(examples, rows))
            loss = model.objective.loss(outputs, model.targets(examples.targets[rows]))
        return bool(torch.isfinite(loss))
    except Exception:  # raised by the user's module; a real step raises it again
        return False
    finally:
        model.module = module
