"""The 1,797 handwritten digits, 8 x 8 grey pixels, that scikit-learn brings along: no network.

Images are scaled to 32 x 32 pixels and three equal channels, so that every model for CIFAR-10 takes
the images. There is no official split: the test split here is every fifth example of each class, in
scikit-learn's order (355 examples; 1,442 are for training). The same writers are in both splits,
which makes the task easy: the data set is for tests and first runs.

Source: Alpaydin and Kaynak 1998, "Optical recognition of handwritten digits", UCI (its test part).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedlearn.data.cache import cached
from fedlearn.data.data_spec import Examples
from fedlearn.data.dataset import Dataset
from fedlearn.data.entries import Arrays

SIDE = 32  # pixels
BITS = 22  # after the point, of Pillow's whole numbers
HALF = 1 << (BITS - 1)
TEST_EVERY = 5
MEAN = (0.3054, 0.3054, 0.3054)  # of the training images, measured once
STD = (0.3237, 0.3237, 0.3237)


def load(data_dir: str = "") -> Dataset:
    """Return the digits; `data_dir` is not used, and is there because every data set has it."""
    entry = cached("digits", "scikit-learn digits, bilinear, every 5th of a class for test", _make)
    return Dataset(
        name="digits",
        train=Examples(entry.arrays["train_images"], entry.arrays["train_labels"]),
        test=Examples(entry.arrays["test_images"], entry.arrays["test_labels"]),
        num_classes=10,
        mean=MEAN,
        std=STD,
        fingerprint=entry.content,
    )


def _make() -> Arrays:
    from sklearn.datasets import load_digits  # type: ignore[import-untyped, unused-ignore]

    digits = load_digits()
    images = enlarged(digits.images)  # (1797, 32, 32, 3)
    labels = digits.target.astype(np.int64)
    test = held_out(labels)
    return {
        "train_images": images[~test],
        "train_labels": labels[~test],
        "test_images": images[test],
        "test_labels": labels[test],
    }


def held_out(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the mask of the test split: every fifth example of each class."""
    test = np.zeros(len(labels), dtype=np.bool_)
    for label in np.unique(labels):
        test[np.flatnonzero(labels == label)[TEST_EVERY - 1 :: TEST_EVERY]] = True
    return test


def enlarged(images: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return images (n, 32, 32, 3) of grey levels 0 to 16 of shape (n, 8, 8), by Pillow's bilinear filter to the bit.

    Pillow scales rows, rounds to bytes, and then scales columns, in whole numbers of 2^-22. To have it here saves who
    tries the first lines from installing it.
    """
    grey = np.rint(images * (255 / 16)).astype(np.int64)
    weights = _bilinear(images.shape[-1])
    rows = (grey @ weights.T + HALF) >> BITS
    both = (weights @ rows + HALF) >> BITS
    return np.repeat(both.astype(np.uint8)[..., np.newaxis], 3, axis=-1)


def _bilinear(pixels: int) -> NDArray[np.int64]:
    """Return what each old pixel (columns) counts in each new one (rows), times 2^22."""
    centers = (np.arange(SIDE) + 0.5) * (pixels / SIDE)
    distances = np.abs(np.arange(pixels) + 0.5 - centers[:, np.newaxis])
    weights = np.maximum(0.0, 1.0 - distances)
    parts: NDArray[np.int64] = np.floor(weights / weights.sum(axis=1, keepdims=True) * 2**BITS + 0.5).astype(np.int64)
    return parts
