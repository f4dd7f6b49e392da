"""Pictures in files or of Pillow, for a model of pictures: scaled to the run's size, with its number of channels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import UsageError
from fedlearn.data.data_spec import DataSpec
from fedlearn.data.sources.image_folder import pictures_below
from fedlearn.data.sources.images import decoded


def are_pictures(rows: Any, spec: DataSpec) -> bool:
    """Return whether rows are paths, encoded bytes or images of Pillow, and the model one of pictures."""
    is_list = spec.is_image and isinstance(rows, list | tuple) and bool(rows)
    return is_list and all(map(is_picture, rows))


def is_picture(given: Any) -> bool:
    """Return whether an example is a path, encoded bytes or an image of Pillow."""
    return isinstance(given, str | Path | bytes) or hasattr(given, "getexif")


def files_in(folder: Path) -> list[Path]:
    """Return the pictures in a folder at any depth, sorted by their paths; hidden ones are left out.

    Raises
    ------
    UsageError
        If there are none.
    """
    found: Iterator[Path] = pictures_below(folder)
    if not (files := sorted(found)):
        raise UsageError(f"{folder}: there are no pictures in it")
    return files


def decoded_like(spec: DataSpec, given: Sequence[Any]) -> NDArray[np.uint8]:
    """Return pictures as the run's data set holds them, (n, height, width, channels).

    Raises
    ------
    UsageError
        If the run has learned from arrays that no file of pictures gives, or one cannot be read.
    """
    if spec.dtype != "uint8":
        raise UsageError(
            f"the run has learned from {spec.dtype} of shape {spec.shape}: give arrays made as in training"
        )
    pictures = [Path(each) if isinstance(each, str) else each for each in given]
    places = [str(each) if isinstance(each, Path) else f"picture {n}" for n, each in enumerate(pictures)]
    height, width, _ = spec.shape
    return with_channels(
        decoded(pictures, places, (height, width)), spec, places[0] if len(places) == 1 else "the rows"
    )


def with_channels(pictures: NDArray[Any], spec: DataSpec, where: str) -> NDArray[Any]:
    """Return pictures with the run's number of channels: grey ones get three equal ones.

    Raises
    ------
    UsageError
        If the pictures have colors, and those of the run had none.
    """
    channels = spec.shape[-1]
    if pictures.shape[-1] not in (1, channels):
        raise UsageError(f"{where}: pictures in color, and the run has learned from grey ones: convert them first")
    return np.broadcast_to(pictures, (*pictures.shape[:3], channels))
