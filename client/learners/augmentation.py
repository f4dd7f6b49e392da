"""Augmentation of training images (``data.augment``): a random crop and a random flip of each image, at each pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedlearn.words.errors import SettingError

PADDING = 4  # pixels, on each side of an image before it is cropped


def augmentation_for(shape: tuple[int, ...]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return the function that changes a batch of examples of this shape; raise SettingError if they are no images."""
    if len(shape) != 3:
        raise SettingError(
            "data.augment", True, f"flips and crops images, and an example has shape {shape}: leave it out"
        )
    return _flipped_and_cropped


def _flipped_and_cropped(images: NDArray[Any]) -> NDArray[Any]:
    """Return images (B, H, W, C) with zeros around them, each cropped at a random place, and flipped by a coin.

    They are those of torchvision's ``RandomCrop(size, padding=4)`` and ``RandomHorizontalFlip()``, which are called
    for one image at a time and take five times as long: three draws an image, from the same generator in the same
    order.
    """
    height, width = images.shape[1:3]
    around = np.pad(images, ((0, 0), (PADDING, PADDING), (PADDING, PADDING), (0, 0)))
    changed = np.empty_like(images)
    for image, into in zip(around, changed, strict=True):
        top, left = torch.randint(2 * PADDING + 1, ()).item(), torch.randint(2 * PADDING + 1, ()).item()
        crop = image[top : top + height, left : left + width]
        into[:] = crop[:, ::-1] if torch.rand(()).item() < 0.5 else crop
    return changed
