"""Which changes of fedlearn's arithmetic concern a run (`fedlearn.runs.arithmetic` lists them)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch

from fedlearn.config import RunConfig, from_flower
from fedlearn.core.state import State
from fedlearn.models.loaded import loaded
from fedlearn.models.per_example.made_up_examples import made_up
from fedlearn.models.torch.gradients import owned
from fedlearn.models.torch.torch_model import TorchModel

TRIED = 2  # made-up examples: batch normalisation needs more than one


def concerning(settings: Mapping[str, Any], state: State) -> tuple[str, ...]:
    """Return the names of the changes that concern a run, in the order of their names here."""
    config = from_flower(settings)
    model = loaded(config)[1]
    if not isinstance(model, TorchModel):
        return ()
    return tuple(name for name, concerns in CONCERNS.items() if concerns(config, model))


def _shares_gradients(config: RunConfig, model: TorchModel) -> bool:
    """Return whether two trained parameters get one tensor as their gradients, on made-up examples."""
    with suppress(Exception), torch.random.fork_rng(devices=[]):  # of the user's module: the trial step names it
        inputs, targets = made_up(model, TRIED)
        loss = model.objective.loss(model.outputs(inputs), targets)
        found = torch.autograd.grad(loss, list(model.parameters), materialize_grads=True)
        dense = [each for each in found if not each.is_sparse]
        return any(own is not each for own, each in zip(owned(dense), dense, strict=True))
    return False


def _has_constants(config: RunConfig, model: TorchModel) -> bool:
    return bool(model.parts.constant or model.parts.auxiliary)


def _has_whole_numbers(config: RunConfig, model: TorchModel) -> bool:
    is_flowers = config.strategy.name.startswith("flwr.")
    return is_flowers and any(not array.is_floating_point() for array in model.module.state_dict().values())


def _ignores_targets(config: RunConfig, model: TorchModel) -> bool:
    return bool(getattr(model.objective, "ignores", False))


CONCERNS = {
    "shared gradients": _shares_gradients,
    "constants": _has_constants,
    "whole numbers": _has_whole_numbers,
    "targets": _ignores_targets,
}
