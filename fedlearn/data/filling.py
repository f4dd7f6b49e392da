"""Examples of several sizes in one array: filled up to the largest, with one more channel that says where they end.

``data.collate`` or ``data.transform`` gets each example in its own size (`fedlearn.models.transforming`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import UsageError

INSIDE = 255  # in the last channel, of bytes; 1 of floats


def padded(examples: Sequence[Any]) -> NDArray[Any]:
    """Return examples in one array, (n, *largest sizes, channels + 1)."""
    arrays = [_with_channels(each, place) for place, each in enumerate(examples)]
    if not arrays:
        raise UsageError("there are no examples")
    first = arrays[0]
    for place, each in enumerate(arrays):
        if (each.dtype, each.ndim, each.shape[-1]) != (first.dtype, first.ndim, first.shape[-1]):
            found = f"{each.dtype} of shape {each.shape}, and example 0 {first.dtype} of shape {first.shape}"
            raise UsageError(f"example {place} is {found}: they must be alike but for their sizes")
    largest = np.max([each.shape[:-1] for each in arrays], axis=0)
    whole = np.zeros((len(arrays), *largest, first.shape[-1] + 1), first.dtype)
    for into, each in zip(whole, arrays, strict=True):
        inside = into[tuple(slice(side) for side in each.shape[:-1])]
        inside[..., :-1] = each
        inside[..., -1] = INSIDE if each.dtype == np.uint8 else 1
    return whole


def cut(example: NDArray[Any]) -> NDArray[Any]:
    """Return an example in its own size, without the last channel; one that ends nowhere is whole.

    >>> cut(padded([np.ones((2, 3)), np.ones((1, 3))])[1]).shape
    (1, 3)
    """
    inside = example[..., -1] != 0
    if not inside.any():
        return example[..., :-1]
    return example[..., :-1][tuple(slice(places.max() + 1) for places in np.nonzero(inside))]


def _with_channels(given: Any, place: int) -> NDArray[Any]:
    """Return an example as bytes (height, width, channels), or floats (length, channels)."""
    array = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
    if hasattr(given, "detach") and array.ndim == 3:
        array = np.moveaxis(array, 0, -1)
    array = array.astype(np.float32) if array.dtype.kind == "f" else array
    axes = {"uint8": 3, "float32": 2}.get(str(array.dtype), 0)
    array = array[..., None] if array.ndim == axes - 1 else array
    if array.ndim != axes or not array.size:
        wanted = "pictures (height, width, channels) of bytes or series (length, channels) of floats"
        raise UsageError(f"example {place}: {array.dtype} of shape {array.shape}: give {wanted}")
    if not np.isfinite(array).all():
        raise UsageError(f"example {place}: it holds NaN or infinity: fill it or leave it out")
    return array
