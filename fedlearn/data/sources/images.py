"""Pictures decoded with Pillow into one array, all of one size and kind."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import FedlearnError, UsageError
from fedlearn.data.data_folder import one_line
from fedlearn.data.reading import opened

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM", "JPEG2000")  # EPS, say, would start a program
MOST_PIXELS = 89_478_485  # of a picture; for more, Pillow warns of a decompression bomb
GREY = ("1", "L", "LA", "La")  # transparency is left out, as everywhere
DEEP = ("I;16", "I;16L", "I;16B", "I;16N")  # 16 bits
COLOURED = ("P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV")
COLOURS = 3  # channels of a picture that is not grey
READING = 3  # version of what modes mean: a new number makes every cached picture unknown

Size = tuple[int, int]
"""Height and width, pixels."""


def decoded(pictures: Sequence[Any], places: Sequence[str], size: Size | None) -> NDArray[np.uint8]:
    """Return pictures as one array (n, height, width, channels), with one channel if all are grey, else three.

    Parameters
    ----------
    pictures
        For each picture its path, its encoded bytes, or a Pillow image.
    places
        Place of each picture, for messages: a path, or a file and a row.
    size
        (height, width) to which pictures are scaled; without it all must be of one size.

    Raises
    ------
    UsageError
        With the place of the first picture that cannot be read, is of another size, has too many pixels, or a mode
        whose range is not known (32-bit integers and floats, CIELAB).
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


def readable(
    pictures: Sequence[Path], labels: NDArray[Any], size: Size | None
) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Return the pictures that can be read, with three channels, and their labels; of the size, or of the first's.

    So what one picture holds, or that it is broken, changes no other one: where records are private.
    """
    arrays: list[NDArray[np.uint8]] = []
    read = []
    for place, picture in enumerate(pictures):
        with suppress(UsageError):
            found = _pixels(picture, str(picture), size)
            if found.shape[:2] == (size or (arrays[0] if arrays else found).shape[:2]):
                arrays.append(np.broadcast_to(found, (*found.shape[:2], COLOURS)))
                read.append(place)
    shape = (0, *(size or (1, 1)), COLOURS)
    return np.stack(arrays) if arrays else np.empty(shape, np.uint8), labels[read]


def _pixels(picture: Any, place: str, size: Size | None) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        if isinstance(picture, Image.Image):
            return _as_bytes(picture, place, size)
        with opened(picture) if isinstance(picture, Path) else io.BytesIO(picture) as file:
            return _as_bytes(Image.open(file, formats=FORMATS), place, size)
    except FedlearnError:
        raise
    except Exception as error:  # Pillow raises anything on broken pictures
        raise UsageError(f"{place}: no picture that can be read: {one_line(error)}") from error


def _as_bytes(image: Any, place: str, size: Size | None) -> NDArray[np.uint8]:
    """Return the pixels of an image, scaled to 0 to 255 from the range of its mode; its size is checked first."""
    from PIL import Image, ImageOps

    width, height = image.size
    if width * height > MOST_PIXELS:
        raise UsageError(f"{place}: {height} x {width} pixels: a picture may have {MOST_PIXELS}; scale it first")
    if (frames := getattr(image, "n_frames", 1)) > 1:
        raise UsageError(f"{place}: {frames} frames, of which none is more than another: store each as a picture")
    mode, file = image.mode, image.format
    image = ImageOps.exif_transpose(image)  # upright, as the camera was held
    if mode in DEEP or (mode == "I" and file in ("PNG", "PPM")):  # mode "I": 16 bits in older Pillows
        deep = np.asarray(image).astype(np.float64) / 257  # 65535 is 255
        image = Image.fromarray(np.rint(np.clip(deep, 0, 255)).astype(np.uint8))
    elif mode in GREY:
        image = image.convert("LA").convert("L") if mode == "La" else image.convert("L")
    elif mode in COLOURED:
        through = {"P": "RGBA", "PA": "RGBA", "RGBa": "RGBA"}.get(mode)
        image = (image.convert(through) if through else image).convert("RGB")
    else:
        raise UsageError(f"{place}: a picture of mode {mode!r} has no range that is known: store it in 8 or 16 bits")
    if size is not None and image.size != size[::-1]:
        image = image.resize(size[::-1], Image.Resampling.BILINEAR)
    return np.atleast_3d(np.asarray(image, np.uint8))
