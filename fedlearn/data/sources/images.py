"""Pictures in files: decoded with Pillow, all of one size and kind."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.data.folder import one_line
from fedlearn.errors import UsageError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
GREY = ("1", "L", "I;16")

Size = tuple[int, int]
"""Height and width, pixels."""


def decoded(pictures: Sequence[Any], places: Sequence[str], size: Size | None) -> NDArray[np.uint8]:
    """Return pictures as one array (n, height, width, channels): one channel if all are grey, else three.

    Parameters
    ----------
    pictures
        Of each, a path, the encoded bytes, or a Pillow image.
    places
        Where each stands, for messages: a path, or a file and a row.
    size
        To which they are scaled; without it all must be alike.

    Raises
    ------
    UsageError
        With the place of the first that cannot be read, or is of another size.
    """
    arrays = []
    for picture, place in zip(pictures, places, strict=True):
        arrays.append(_pixels(picture, place, size))
        if arrays[-1].shape[:2] != arrays[0].shape[:2]:
            (height, width), (first_height, first_width) = arrays[-1].shape[:2], arrays[0].shape[:2]
            raise UsageError(
                f"{place}: {height} x {width} pixels, and {places[0]} has {first_height} x {first_width}: "
                "give size=[HEIGHT, WIDTH] to scale all of them"
            )
    channels = max(array.shape[2] for array in arrays)
    return np.stack([np.broadcast_to(array, (*array.shape[:2], channels)) for array in arrays])


def _pixels(picture: Any, place: str, size: Size | None) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        if isinstance(picture, Image.Image):
            image = picture
        else:
            image = Image.open(picture if isinstance(picture, Path) else io.BytesIO(picture))
        image = image.convert("L" if image.mode in GREY else "RGB")
        if size is not None and image.size != size[::-1]:
            image = image.resize(size[::-1], Image.Resampling.BILINEAR)
        return np.atleast_3d(np.asarray(image, np.uint8))
    except (OSError, ValueError, SyntaxError, TypeError) as error:  # SyntaxError: Pillow on broken PNG
        raise UsageError(f"{place}: no picture that can be read: {one_line(error)}") from error
