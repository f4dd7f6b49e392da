"""Inputs of torch modules, made from the examples of a data set.

| an example | dtype | the module's input |
|---|---|---|
| image (H, W, C) | uint8, float32 | (B, C, H, W) float32, in channels_last format |
| row, series (L, C), ... | uint8, float32 | (B, ...) float32 |
| text (L,) | int32 | (B, L) int64: tokens |
| row of a declared table | float64 | (B, F) float32 |

A module of texts whose forward has a parameter ``attention_mask``, and whose ``config`` says the ``pad_token_id``, as
those of `transformers`, also gets the mask: 1 for each token that is not padding. Where the data have a mask of their
own, it gets that one, whatever its config says; there -1 - t is a token t that is hidden.

A module with an encoder and a decoder also gets ``decoder_input_ids``, which its own method makes of the targets.

Bytes are scaled to 0 to 1. Bytes and float32 numbers are normalised by mean and standard deviation of each channel,
if the data set declares them. In a declared table, numbers are scaled from their bounds to -1 to 1, or by the mean and
deviation of all nodes (``data.scaling``), categories become one-hot vectors, and missing values become zeros.

``data.transform`` changes each example before (`transforming.py`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedlearn.data.data_spec import DataSpec, TableSchema
from fedlearn.models.torch.device import CPU

MASK = "attention_mask"
DECODER = "decoder_input_ids"
Inputs = Callable[[Any], Tensor]
"""Function of an array, or of a tensor on the device, that returns the input; for tables, of an array only."""


def inputs_of(spec: DataSpec, device: torch.device = CPU) -> Inputs:
    """Return the function that turns a batch of examples (B, ...) into a module's input; the batch is not changed.

    Examples are moved to the device before they are converted: bytes are a quarter of the size of float32.

    >>> inputs_of(DataSpec("text", (3,), "int32", classes=5, vocabulary=5))(np.array([[1, 2, 4]], np.int32))
    tensor([[1, 2, 4]])
    """
    if spec.is_made_by_functions:
        from fedlearn.models.transforming import Transformed

        return Transformed(spec, partial(inputs_of, device=device))
    if spec.table is not None:
        return _of_table(spec.table, device, spec.mean, spec.std)
    if spec.vocabulary:
        return lambda tokens: _there(tokens, device).to(torch.int64)
    return _of_numbers(spec, device)


def input_shape(spec: DataSpec) -> tuple[int, ...]:
    """Return the shape of a module's input for one example: (C, H, W) for an image.

    >>> input_shape(DataSpec("grey", (28, 24, 1), "uint8", classes=10))
    (1, 28, 24)
    """
    if spec.table is not None:
        return (len(spec.table.bounds) + sum(len(names) for names in spec.table.categories.values()),)
    return (spec.shape[-1], *spec.shape[:-1]) if spec.is_image else spec.shape


def padding_of(module: object) -> int | None:
    """Return the token that fills texts up, of a module that takes a mask; None of any other module."""
    padding = getattr(getattr(module, "config", None), "pad_token_id", None)
    return padding if takes_mask(module) and isinstance(padding, int) else None


def takes_mask(module: object) -> bool:
    """Return whether a module's forward has a parameter ``attention_mask``."""
    return _takes(module, MASK)


def takes_labels(module: object) -> bool:
    """Return whether a module has a decoder that gets the targets, as sequence-to-sequence models of `transformers`."""
    return hasattr(module, "prepare_decoder_input_ids_from_labels") and _takes(module, DECODER)


def _takes(module: object, name: str) -> bool:
    return name in inspect.signature(getattr(module, "forward", module)).parameters  # type: ignore[arg-type]


def all_shown(tokens: Tensor) -> Tensor:
    """Return the tokens themselves, hidden ones too.

    >>> all_shown(torch.tensor([[3, -1, -6]])).tolist()
    [[3, 0, 5]]
    """
    return torch.where(tokens < 0, -1 - tokens, tokens)


def shown(tokens: Tensor) -> Tensor:
    """Return 1 where a token is not hidden, (B, L) int64; a text that is hidden as a whole is taken whole."""
    return _whole_if_empty(tokens >= 0)


def mask_of(tokens: Tensor, padding: int) -> Tensor:
    """Return 1 where a token is not padding, (B, L) int64; a text of padding alone is taken whole.

    >>> mask_of(torch.tensor([[3, 4, 0], [0, 0, 0]]), 0).tolist()
    [[1, 1, 0], [1, 1, 1]]
    """
    return _whole_if_empty(tokens != padding)


def _whole_if_empty(mask: Tensor) -> Tensor:
    return (mask | ~mask.any(1, keepdim=True)).to(torch.int64)


def _of_numbers(spec: DataSpec, device: torch.device) -> Inputs:
    largest = 255 if spec.dtype == "uint8" else 1
    # Expanded to an example's shape, so that the inner loop of the arithmetic is long and contiguous.
    mean = (torch.tensor(spec.mean or (0.0,)) * largest).expand(spec.shape).contiguous().to(device)
    scale = (1 / (torch.tensor(spec.std or (1.0,)) * largest)).expand(spec.shape).contiguous().to(device)
    is_image = spec.is_image

    def normalised(examples: NDArray[Any] | Tensor) -> Tensor:
        # a copy, as the arithmetic is in place
        batch = _there(examples, device).to(torch.float32, copy=True).sub_(mean).mul_(scale)
        return batch.permute(0, 3, 1, 2) if is_image else batch

    return normalised


def _there(examples: NDArray[Any] | Tensor, device: torch.device) -> Tensor:
    """Return examples as a tensor on a device, without conversion."""
    return (examples if isinstance(examples, Tensor) else torch.from_numpy(examples)).to(device)


def _of_table(schema: TableSchema, device: torch.device, mean: Sequence[float], std: Sequence[float]) -> Inputs:
    bounds = list(schema.bounds.values())
    is_log = np.array([len(each) == 3 for each in bounds], bool)
    low, high = np.array([each[:2] for each in bounds], np.float64).reshape(-1, 2).T
    first, last = _on_scale(low, is_log), _on_scale(high, is_log)
    center, unit = np.array(mean), np.array(std)
    categories = [np.arange(len(names)) for names in schema.categories.values()]

    def encoded(rows: NDArray[Any]) -> Tensor:
        numbers = _on_scale(np.clip(rows[:, : len(bounds)], low, high), is_log)
        scaled = (numbers - center) / unit if mean else 2 * (numbers - first) / (last - first) - 1
        parts = [np.nan_to_num(scaled)]  # NaN, a missing value, becomes 0
        parts += [rows[:, [len(bounds) + place]] == codes for place, codes in enumerate(categories)]
        return torch.from_numpy(np.concatenate(parts, axis=1, dtype=np.float32, casting="unsafe")).to(device)

    return encoded


def _on_scale(values: NDArray[np.float64], is_log: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return features (..., n), with the logarithm of features whose declared scale is logarithmic."""
    return np.log(values, out=values.copy(), where=is_log)
