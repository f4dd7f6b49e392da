"""Augmentation (``data.augment``), at each pass: a random crop and flip of each image, or an own function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import DataSpec
from fedlearn.models.torch.making import made_up_examples
from fedlearn.models.transforming import AUGMENT, as_batch, examples_of, own_function
from fedlearn.plugins.generators import restored_globals, seed_globals

PADDING = 4  # pixels, on each side of an image before it is cropped
PLACES = 2 * PADDING + 1  # of a crop, in each direction
FLOAT_BITS = 24  # of a random number that torch makes a float32 of


def augmentation_for(given: bool | str, spec: DataSpec) -> Callable[[NDArray[Any]], Any]:
    """Return the function that changes a batch of examples; raise SettingError where it cannot.

    Parameters
    ----------
    given
        The setting: true, or ``module:name`` of a function of one example.
    """
    if isinstance(given, str):
        return _own(given, spec)
    if len(spec.shape) != 3 or spec.mixed:
        found = "examples have several sizes" if spec.mixed else f"an example has shape {spec.shape}"
        raise SettingError("data.augment", True, f"flips and crops images of one size, and {found}: leave it out")
    return _flipped_and_cropped


def _own(reference: str, spec: DataSpec) -> Callable[[NDArray[Any]], Any]:
    """Return what changes each example of a batch by itself, with random numbers of its own.

    A number of torch's generator for each place seeds the process's generators, so that a function may draw from any of
    them, and as many numbers as it likes: the numbers of another place do not depend on it.
    """
    function = own_function(AUGMENT, reference, spec)

    def augmented(batch: NDArray[Any]) -> Any:
        seeds = torch.randint(2**62, (len(batch),)).tolist()
        changed = []
        with restored_globals():
            for example, seed in zip(examples_of(spec, batch), seeds, strict=True):
                seed_globals(seed)
                changed.append(function(example))
        if spec.is_made_by_functions:
            return changed  # may still have several shapes
        if any(each.shape != example.shape or each.dtype != example.dtype for each in changed):
            found = f"an example {example.dtype} of shape {tuple(example.shape)} becomes another: keep shape and kind"
            raise SettingError(AUGMENT, reference, f"{found}, or name what makes them alike in data.transform")
        return as_batch(torch.stack(changed))

    with restored_globals():
        augmented(made_up_examples(spec, 2, np.random.Generator(np.random.Philox(1))))
    return augmented


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
