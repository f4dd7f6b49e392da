"""Own functions of an example, ``data.transform`` and ``data.augment``, and of a batch, ``data.collate``.

A function of an example gets one example as a tensor: a picture as (C, H, W) bytes, as transforms of torchvision do; a
row, a series or tokens as they are. Bytes that it returns are scaled and normalized as usual; floats are taken as they
are.

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

from fedlearn.core.errors import SettingError, said
from fedlearn.data.data_spec import DataSpec
from fedlearn.data.filling import cut
from fedlearn.models.torch.making import made_up_examples
from fedlearn.plugins.generators import restored_globals, seed_globals
from fedlearn.plugins.registry import load_plugin
from fedlearn.plugins.tracebacks import shortened

Function = Callable[[Tensor], Tensor]
TRANSFORM, AUGMENT, COLLATE = "data.transform", "data.augment", "data.collate"
IMAGE = 3  # axes of an example that has channels
COINS = 12  # seeds under which a transform is tried: it may do something with a probability of a half


def own_function(setting: str, reference: str, spec: DataSpec) -> Function:
    """Return the function of one example that a setting names, tried on made-up examples.

    Raises
    ------
    SettingError
        If it cannot be loaded or called, keeps something from example to example, or is a random transform.
    """
    called = _called(setting, reference, spec)
    _try(called, setting, reference, spec)
    return called


def _called(setting: str, reference: str, spec: DataSpec) -> Callable[[Any], Tensor]:
    """Return the function that a setting names; its errors name the setting, and its result is a tensor."""
    if spec.table is not None:
        why = "a declared table is prepared by its declaration: leave it out, or give the columns as numbers"
        raise SettingError(setting, reference, why)
    given = load_plugin(setting, reference)
    made = given() if isinstance(given, type) else given
    if not callable(made):
        raise SettingError(setting, reference, "it must be a function of one example, a tensor")

    def called(examples: Any) -> Tensor:
        try:
            found = torch.as_tensor(made(examples)).detach().as_subclass(Tensor)
        except Exception as error:  # of the user's own code
            raise SettingError(setting, reference, f"of an example it fails: {said(shortened(error))}") from error
        if found.is_floating_point():
            return found.float()
        if found.dtype != torch.uint8 and not spec.vocabulary:
            raise SettingError(setting, reference, f"it returns {found.dtype}: return bytes (uint8) or floats")
        return found

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
    """Return the examples of a batch, each as a tensor of its own, in its own size: pictures as (C, H, W)."""
    if spec.mixed:
        each_cut = [torch.from_numpy(np.array(cut(example))) for example in batch]
        return [each.permute(2, 0, 1).contiguous() if each.ndim == IMAGE else each for each in each_cut]
    tensors = torch.from_numpy(np.array(batch)).unbind()
    return [each.permute(2, 0, 1).contiguous() if spec.is_image else each for each in tensors]


def as_batch(batch: Tensor) -> NDArray[Any]:
    """Return examples (B, ...) as a data set holds them: channels last."""
    return (batch.permute(0, 2, 3, 1) if batch.ndim == 1 + IMAGE else batch).contiguous().numpy()


class Transformed:
    """Turns examples into a module's input by ``data.transform``, then ``data.collate``.

    Parameters
    ----------
    spec
        Facts of the examples as they are before; it names the functions.
    inputs_of
        Returns the function that turns a batch into the input, of the facts of examples as they are afterwards.
    """

    def __init__(self, spec: DataSpec, inputs_of: Callable[[DataSpec], Callable[[Any], Tensor]]) -> None:
        if not (spec.transform or spec.collate):
            why = "the examples have several sizes: name what makes a batch of them, or a data.transform, as Resize"
            raise SettingError(COLLATE, "", why)
        self._spec = spec
        self._transform = own_function(TRANSFORM, spec.transform, spec) if spec.transform else None
        self._collate = _called(COLLATE, spec.collate, spec) if spec.collate else None
        made_up = made_up_examples(spec, 2, np.random.Generator(np.random.Philox(1)))
        batches = [self._tried(examples_of(spec, made_up), seed) for seed in range(COINS if spec.collate else 1)]
        if not all(_same(batch, batches[0]) for batch in batches):
            why = "of the same examples it makes batches that differ: it must draw no random numbers, and keep nothing"
            raise SettingError(COLLATE, spec.collate, why)
        self.spec = replace(_facts_of(spec, batches[0][0]), transform="", collate="", mixed=False)
        self._inputs = inputs_of(self.spec)

    def __call__(self, examples: Any) -> Tensor:
        """Return the input of a batch, an array or a list of examples as tensors."""
        each = examples if isinstance(examples, list) else examples_of(self._spec, np.asarray(examples))
        if not each:
            return self._inputs(np.zeros((0, *self.spec.shape), self.spec.dtype))
        batch = self._batch(each)
        return self._inputs(as_batch(batch)) if self._collate is None else self._as_it_is(batch)

    def _tried(self, examples: Sequence[Tensor], seed: int) -> Tensor:
        with restored_globals():
            seed_globals(seed)
            return self._batch([example.clone() for example in examples])

    def _batch(self, examples: Sequence[Tensor]) -> Tensor:
        """Return examples in one tensor, (B, ...)."""
        each = [self._transform(example) for example in examples] if self._transform else list(examples)
        if self._collate is not None:
            batch = self._collate(each)
            if not batch.ndim or len(batch) != len(each):
                found = f"of {len(each)} examples it makes a tensor of shape {tuple(batch.shape)}"
                raise SettingError(COLLATE, self._spec.collate, f"{found}: return one row for each example")
            return batch
        shapes = sorted({tuple(example.shape) for example in each})
        if len(shapes) > 1:
            found = f"examples get shapes {shapes[0]} and {shapes[1]}"
            raise SettingError(TRANSFORM, self._spec.transform, f"{found}: return one shape, or name a data.collate")
        return torch.stack(each)

    def _as_it_is(self, batch: Tensor) -> Tensor:
        """Return a batch of any size as a module's input: floats as they are, bytes from 0 to 1, tokens as integers."""
        if batch.is_floating_point() or batch.dtype != torch.uint8:
            return batch if batch.is_floating_point() else batch.to(torch.int64)
        return batch.float() / 255


def _facts_of(spec: DataSpec, example: Tensor) -> DataSpec:
    """Return the facts of examples after the transform, of which `example` is one."""
    shape = (*example.shape[1:], example.shape[0]) if example.ndim == IMAGE else tuple(example.shape)
    if example.is_floating_point():
        return replace(spec, shape=shape, dtype="float32", mean=(), std=(), vocabulary=0)
    mean, std = (each[:1] if len({*each}) == 1 else each for each in (spec.mean, spec.std))
    if len(mean) not in (0, 1, shape[-1]):
        why = f"it makes {shape[-1]} channels of bytes, and the data declare mean and deviation of {len(mean)}"
        raise SettingError(TRANSFORM, spec.transform, f"{why}: return floats")
    return replace(spec, shape=shape, mean=mean, std=std)
