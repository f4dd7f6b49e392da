"""Computation of a torch module in the numbers that ``training.precision`` names; states stay float32."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedlearn.config.tables.learning_settings import Precision

NORMS = (nn.modules.batchnorm._BatchNorm, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)


def outputs_in(
    precision: Precision,
    module: nn.Module,
    inputs: Tensor,
    rounded: Mapping[str, nn.Parameter],
    named: Mapping[str, Tensor] = MappingProxyType({}),
) -> Any:
    """Return the outputs of a module that is computed in a precision; an output tensor is float32.

    Parameters
    ----------
    rounded
        Parameters that ``bfloat16`` rounds, by name: those of `all_but_of_norms`.
    named
        What the module gets beside its inputs, by keyword.
    """
    if precision == "float32":
        return module(inputs, **named)
    if precision == "bfloat16":
        outputs = _all_in_bfloat16(module, inputs, rounded, named)
    else:
        with torch.autocast(inputs.device.type, torch.bfloat16):
            outputs = module(inputs, **named)
    return outputs.float() if isinstance(outputs, Tensor) else outputs


def _all_in_bfloat16(
    module: nn.Module, inputs: Tensor, parameters: Mapping[str, nn.Parameter], named: Mapping[str, Tensor]
) -> Any:
    """Return the module's outputs of rounded weights and inputs; gradients go to the weights themselves."""
    rounded = {name: each.to(torch.bfloat16) for name, each in parameters.items()}
    inputs = inputs.to(torch.bfloat16) if inputs.is_floating_point() else inputs
    return functional_call(module, rounded, (inputs,), dict(named))


def all_but_of_norms(module: nn.Module) -> dict[str, nn.Parameter]:
    """Return the float32 parameters by name, without scales and shifts of norms: these are few, and rounding harms."""
    of_norms = {id(each) for part in module.modules() if isinstance(part, NORMS) for each in part.parameters()}
    named = module.named_parameters()
    return {name: each for name, each in named if each.dtype is torch.float32 and id(each) not in of_norms}
