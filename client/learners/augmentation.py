"""Augmentation of training images (``data.augment``): a random crop and a random flip of each image, at each pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedlearn.words.errors import SettingError

PADDING = 4  # pixels, on each side of an image before it is cropped
PLACES = 2 * PADDING + 1  # of a crop, in each direction
FLOAT_BITS = 24  # of a random number that torch makes a float32 of


def augmentation_for(shape: tuple[int, ...]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return the function that changes a batch of examples of this shape; raise SettingError if they are no images."""
    if len(shape) != 3:
        raise SettingError(
            "data.augment", True, f"flips and crops images, and an example has shape {shape}: leave it out"
        )
    return _flipped_and_cropped


def _flipped_and_cropped(images: NDArray[Any]) -> NDArray[Any]:
    """Return images (B, H, W, C) with zeros around them, each cropped at a random place, and flipped by a coin.

    They are those of torchvision's ``RandomCrop(size, padding=4)`` and ``RandomHorizontalFlip()``, called for one image
    after another. Those take the remainder by `PLACES`, twice, and the lowest 24 bits of the next numbers of torch's
    generator; both follow from the remainder by their product, so one call draws for the batch.
    """
    count, height, width, channels = images.shape
    drawn = torch.randint(PLACES << FLOAT_BITS, (count, 3)).numpy()
    top, left = drawn[:, 0] % PLACES, drawn[:, 1] % PLACES
    is_flipped = drawn[:, 2] % (1 << FLOAT_BITS) < 1 << FLOAT_BITS - 1
    left = np.where(is_flipped, 2 * PADDING - left, left)  # a flipped crop is a crop of the flipped image
    around = np.zeros((count, height + 2 * PADDING, width + 2 * PADDING, channels), images.dtype)
    inside = around[:, PADDING:-PADDING, PADDING:-PADDING]
    inside[:] = images
    inside[is_flipped] = torch.from_numpy(images[is_flipped]).flip(2).numpy()  # numpy takes five times as long
    changed = np.empty_like(images)
    for image, into, y, x in zip(around, changed, top.tolist(), left.tolist(), strict=True):
        into[:] = image[y : y + height, x : x + width]
    return changed
