"""Own functions of one example: ``data.transform``, before every use of an example, and ``data.augment``.

A function gets one example as a tensor: a picture as (C, H, W) bytes, as transforms of torchvision do; a row, a series
or tokens as they are. Bytes that it returns are scaled and normalized as usual; floats are taken as they are.

It is called for each example by itself: one record changes no other. So it must keep nothing from call to call, which
is tried on made-up examples; and a transform must draw no random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedlearn.data.base import DataSpec
from fedlearn.models.making import made_up_examples
from fedlearn.plugging.generators import restored_globals, seed_globals
from fedlearn.plugging.registry import load_plugin
from fedlearn.plugging.tracebacks import shortened
from fedlearn.words.errors import SettingError, said

Function = Callable[[Tensor], Tensor]
TRANSFORM, AUGMENT = "data.transform", "data.augment"
IMAGE = 3  # axes of an example that has channels
COINS = 12  # seeds under which a transform is tried: it may do something with a probability of a half


def own_function(setting: str, reference: str, spec: DataSpec) -> Function:
    """Return the function that a setting names, tried on made-up examples; its errors name the setting.

    Raises
    ------
    SettingError
        If it cannot be loaded or called, keeps something from example to example, or is a random transform.
    """
    if spec.table is not None:
        why = "a declared table is prepared by its declaration: leave it out, or give the columns as numbers"
        raise SettingError(setting, reference, why)
    given = load_plugin(setting, reference)
    made = given() if isinstance(given, type) else given
    if not callable(made):
        raise SettingError(setting, reference, "it must be a function of one example, a tensor")

    def called(example: Tensor) -> Tensor:
        try:
            found = torch.as_tensor(made(example)).detach().as_subclass(Tensor)
        except Exception as error:  # of the user's own code
            raise SettingError(setting, reference, f"of one example it fails: {said(shortened(error))}") from error
        if found.is_floating_point():
            return found.float()
        if found.dtype != torch.uint8 and not spec.vocabulary:
            raise SettingError(setting, reference, f"it returns {found.dtype}: return bytes (uint8) or floats")
        return found

    _try(called, setting, reference, spec)
    return called


def _try(function: Function, setting: str, reference: str, spec: DataSpec) -> None:
    first, second = examples_of(spec, made_up_examples(spec, 2, np.random.Generator(np.random.Philox(1))))

    def at(seed: int, example: Tensor) -> Tensor:
        seed_globals(seed)
        return function(example.clone())

    with restored_globals():
        result = at(0, first)
        at(0, second)
        if not _same(at(0, first), result):
            raise SettingError(setting, reference, "it keeps something from example to example: use each by itself")
        if setting == TRANSFORM and not all(_same(at(seed, first), result) for seed in range(1, COINS)):
            why = f"it draws random numbers, and would change what is measured and predicted: name it in {AUGMENT}"
            raise SettingError(setting, reference, why)


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())


def examples_of(spec: DataSpec, batch: NDArray[Any]) -> list[Tensor]:
    """Return the examples of a batch, each as a tensor of its own: pictures as (C, H, W)."""
    tensors = torch.from_numpy(np.array(batch)).unbind()
    return [each.permute(2, 0, 1).contiguous() if spec.is_image else each for each in tensors]


def as_batch(examples: Sequence[Tensor]) -> NDArray[Any]:
    """Return tensors of one shape as a batch, as a data set holds it: channels last."""
    batch = torch.stack(list(examples))
    return (batch.permute(0, 2, 3, 1) if batch.ndim == 1 + IMAGE else batch).contiguous().numpy()


class Transformed:
    """Turns examples into a module's input by ``data.transform``.

    Parameters
    ----------
    spec
        Facts of the examples as they are before; `transform` names the function.
    inputs_of
        Returns the function that turns a batch into the input, of the facts of examples as they are afterwards.
    """

    def __init__(self, spec: DataSpec, inputs_of: Callable[[DataSpec], Callable[[Any], Tensor]]) -> None:
        self._spec = spec
        self._transform = own_function(TRANSFORM, spec.transform, spec)
        example = examples_of(spec, made_up_examples(spec, 1, np.random.Generator(np.random.Philox(1))))[0]
        self.spec = _facts_of(spec, self._transform(example))
        self._inputs = inputs_of(self.spec)

    def __call__(self, examples: Any) -> Tensor:
        """Return the input of a batch, an array or a list of examples as tensors."""
        each = examples if isinstance(examples, list) else examples_of(self._spec, np.asarray(examples))
        if not each:
            return self._inputs(np.zeros((0, *self.spec.shape), self.spec.dtype))
        transformed = [self._transform(example) for example in each]
        shapes = {tuple(example.shape) for example in transformed}
        if len(shapes) > 1:
            found = f"examples get shapes {sorted(shapes)[0]} and {sorted(shapes)[1]}: return one shape"
            raise SettingError(TRANSFORM, self._spec.transform, found)
        return self._inputs(as_batch(transformed))


def _facts_of(spec: DataSpec, example: Tensor) -> DataSpec:
    """Return the facts of examples after the transform, of which `example` is one."""
    shape = (*example.shape[1:], example.shape[0]) if example.ndim == IMAGE else tuple(example.shape)
    if example.is_floating_point():
        return replace(spec, shape=shape, dtype="float32", mean=(), std=(), vocabulary=0, transform="")
    if len(spec.mean) not in (0, 1, shape[-1]):
        why = f"it makes {shape[-1]} channels of bytes, and the data declare mean and deviation of {len(spec.mean)}"
        raise SettingError(TRANSFORM, spec.transform, f"{why}: return floats")
    return replace(spec, shape=shape, transform="")
