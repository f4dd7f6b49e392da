"""Sizes of a network's inputs and outputs, as the data set asks for them."""

from __future__ import annotations

from math import prod

from torch import nn

from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import DataSpec
from fedlearn.models.output_axes import are_labels, target_shape
from fedlearn.models.torch.inputs import input_shape


def flat_size(spec: DataSpec) -> int:
    """Return the number of inputs for one example; raise SettingError where it consists of tokens."""
    if spec.vocabulary:
        raise SettingError("data.dataset", spec.name, "its examples are texts: take model.name lstm or transformer")
    return prod(input_shape(spec))


def num_outputs(spec: DataSpec) -> int:
    """Return the number of outputs for one example: one logit a class or label, or the numbers of a regression.

    Raises
    ------
    SettingError
        If an example has classes at several places.
    """
    if are_labels(spec):
        return spec.target_shape[0]
    if spec.classes and spec.target_shape:
        several = f"an example has classes at {' x '.join(map(str, spec.target_shape))} places"
        ways = "for sequences take model.name lstm or transformer, else a module of yours"
        numbers = "; if they are numbers, give them as floats (regression = true)"
        raise SettingError("data.dataset", spec.name, f"{several}: {ways}{numbers}")
    return spec.classes or prod(spec.target_shape)


def in_shape(spec: DataSpec) -> list[nn.Module]:
    """Return the layer that reshapes the (B, n) outputs of a regression to the targets' shape; no layer if they fit."""
    shape = target_shape(spec)
    return [nn.Unflatten(1, shape)] if len(shape) > 1 and not spec.classes else []


def sequence_shape(spec: DataSpec) -> tuple[int, int]:
    """Return length and channels of one example; 0 channels where it consists of tokens.

    Raises
    ------
    SettingError
        If an example is no sequence of tokens (L,) or of numbers (L, C).
    """
    if spec.vocabulary and len(spec.shape) == 1:
        return spec.shape[0], 0
    if len(spec.shape) == 2 and not spec.vocabulary and spec.table is None:
        return spec.shape[0], spec.shape[1]
    found = f"its examples have shape {spec.shape} {spec.dtype}"
    raise SettingError(
        "data.dataset", spec.name, f"{found}, and the model takes texts and series: use another model.name"
    )
