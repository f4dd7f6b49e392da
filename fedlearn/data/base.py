"""What a data set is: labelled images, already split into training and test examples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Labelled images; usually mapped from a file and then read-only.

    Parameters
    ----------
    images
        uint8, shape (n, height, width, channels).
    labels
        int64, shape (n,), from 0.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Check what the types cannot say."""
        if self.images.dtype != np.uint8 or self.images.ndim != 4:
            found = f"{self.images.dtype} of shape {self.images.shape}"
            raise ValueError(f"images must be uint8 of shape (n, height, width, channels): {found}")
        if self.labels.dtype != np.int64 or self.labels.shape != self.images.shape[:1]:
            found = f"{self.labels.dtype} of shape {self.labels.shape}"
            raise ValueError(f"labels must be int64 of shape ({len(self.images)},): {found}")

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.labels)


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """A data set as it was loaded.

    Parameters
    ----------
    name
        What was really loaded, as ``"digits"`` where ``auto`` was asked for.
    train, test
        The examples that are spread over the nodes, and the held-out ones.
    num_classes
        Labels are 0 to ``num_classes - 1``.
    mean, std
        Of each channel, over the training images scaled to [0, 1]; constants, never learned from
        what a node has.
    fingerprint
        Hash of all images and labels: the same examples have the same fingerprint on every machine.
    notice
        One line that the user must see, or empty.
    """

    name: str
    train: Examples
    test: Examples
    num_classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fingerprint: str
    notice: str = ""
