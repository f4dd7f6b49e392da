"""From the examples of a data set to the numbers that a torch module is given.

| an example | dtype | the module is given |
|---|---|---|
| image (H, W, C) | uint8, float32 | (B, C, H, W) float32, in channels_last format |
| row, series (L, C), ... | uint8, float32 | (B, ...) float32 |
| text (L,) | int32 | (B, L) int64: tokens |
| row of a declared table | float64 | (B, F) float32 |

Bytes count as 0 to 1, and are normalised by the mean and deviation of each channel where the data set says them; so
are float32 numbers. Of a table, numbers go from their declared bounds to -1 to 1, categories to a one among zeros;
missing values are zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedlearn.data.base import DataSpec, TableSchema
from fedlearn.models.device import CPU

Inputs = Callable[[Any], Tensor]
"""Of an array, or of a tensor where it lies on the device; of a table, of an array alone."""


def inputs_of(spec: DataSpec, device: torch.device = CPU) -> Inputs:
    """Return what makes a batch of examples (B, ...) the numbers that a module is given; the examples stay as they are.

    They are moved to the device before they are made numbers: bytes are a quarter of those.

    >>> inputs_of(DataSpec("text", (3,), "int32", classes=5, vocabulary=5))(np.array([[1, 2, 4]], np.int32))
    tensor([[1, 2, 4]])
    """
    if spec.table is not None:
        return _of_table(spec.table, device)
    if spec.vocabulary:
        return lambda tokens: _there(tokens, device).to(torch.int64)
    return _of_numbers(spec, device)


def input_shape(spec: DataSpec) -> tuple[int, ...]:
    """Return the shape of one example as a module is given it: (C, H, W) of an image.

    >>> input_shape(DataSpec("grey", (28, 24, 1), "uint8", classes=10))
    (1, 28, 24)
    """
    if spec.table is not None:
        return (len(spec.table.bounds) + sum(len(names) for names in spec.table.categories.values()),)
    return (spec.shape[-1], *spec.shape[:-1]) if spec.is_image else spec.shape


def _of_numbers(spec: DataSpec, device: torch.device) -> Inputs:
    largest = 255 if spec.dtype == "uint8" else 1
    # Repeated over the example: the inner loop of the arithmetic is then long and without a stride.
    mean = (torch.tensor(spec.mean or (0.0,)) * largest).expand(spec.shape).contiguous().to(device)
    scale = (1 / (torch.tensor(spec.std or (1.0,)) * largest)).expand(spec.shape).contiguous().to(device)
    is_image = spec.is_image

    def normalised(examples: NDArray[Any] | Tensor) -> Tensor:
        # A copy, as what comes after it is in place.
        batch = _there(examples, device).to(torch.float32, copy=True).sub_(mean).mul_(scale)
        return batch.permute(0, 3, 1, 2) if is_image else batch

    return normalised


def _there(examples: NDArray[Any] | Tensor, device: torch.device) -> Tensor:
    """Return examples on a device, as they are."""
    return (examples if isinstance(examples, Tensor) else torch.from_numpy(examples)).to(device)


def _of_table(schema: TableSchema, device: torch.device) -> Inputs:
    bounds = list(schema.bounds.values())
    is_log = np.array([len(each) == 3 for each in bounds], bool)
    low, high = np.array([each[:2] for each in bounds], np.float64).reshape(-1, 2).T
    first, last = _on_scale(low, is_log), _on_scale(high, is_log)
    categories = [np.arange(len(names)) for names in schema.categories.values()]

    def encoded(rows: NDArray[Any]) -> Tensor:
        numbers = _on_scale(np.clip(rows[:, : len(bounds)], low, high), is_log)
        parts = [np.nan_to_num(2 * (numbers - first) / (last - first) - 1)]  # NaN, what is missing, becomes 0
        parts += [rows[:, [len(bounds) + place]] == codes for place, codes in enumerate(categories)]
        return torch.from_numpy(np.concatenate(parts, axis=1, dtype=np.float32, casting="unsafe")).to(device)

    return encoded


def _on_scale(values: NDArray[np.float64], is_log: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return features (..., n), the logarithm of those that are declared so."""
    return np.log(values, out=values.copy(), where=is_log)
