"""What a data set is: labelled images, or rows of a table, already split into training and test examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.integer[Any]] | slice

QUANTILES = 10  # classes into which the targets of a regression are sorted, for partitioners that skew labels


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

    def at(self, rows: Rows) -> Examples:
        """Return some of the examples."""
        return Examples(self.images[rows], self.labels[rows])


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


@dataclass(frozen=True, slots=True, eq=False)
class TableExamples:
    """Rows of a table; usually mapped from a file and then read-only.

    Parameters
    ----------
    features
        float64, shape (n, features), raw; NaN = missing; a category is its place among the declared ones.
    targets
        Shape (n,): float64, raw, in a regression; int64 from 0, the place among the declared classes, else.
    """

    features: NDArray[np.float64]
    targets: NDArray[np.float64] | NDArray[np.int64]

    def __post_init__(self) -> None:
        """Check what the types cannot say."""
        if self.features.dtype != np.float64 or self.features.ndim != 2:
            found = f"{self.features.dtype} of shape {self.features.shape}"
            raise ValueError(f"features must be float64 of shape (n, features): {found}")
        if self.targets.dtype not in (np.float64, np.int64) or self.targets.shape != self.features.shape[:1]:
            found = f"{self.targets.dtype} of shape {self.targets.shape}"
            raise ValueError(f"targets must be float64 or int64 of shape ({len(self.features)},): {found}")

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.targets)

    @property
    def labels(self) -> NDArray[np.int64]:
        """What partitioners look at, shape (n,): the class, or in a regression the tenth of the targets it is in.

        >>> TableExamples(np.zeros((4, 1)), np.array([7.0, 1.0, 5.0, 5.0])).labels
        array([2, 0, 1, 1])
        """
        if self.targets.dtype == np.int64:
            return self.targets.astype(np.int64, copy=False)
        inner = np.quantile(self.targets, np.arange(1, QUANTILES) / QUANTILES)
        return np.unique(np.searchsorted(inner, self.targets, side="right"), return_inverse=True)[1].astype(np.int64)

    def at(self, rows: Rows) -> TableExamples:
        """Return some of the examples."""
        return TableExamples(self.features[rows], self.targets[rows])


Bound = tuple[float, float] | tuple[float, float, str]


@dataclass(frozen=True, slots=True)
class TableSchema:
    """What is declared about a table: public knowledge, never read from the data.

    Parameters
    ----------
    target
        Name of the column that is predicted.
    bounds
        Numeric feature -> (low, high), or (low, high, "log") for features with heavy tails.
    categories
        Categorical feature -> its categories, as text.
    target_bounds
        (low, high) of a regression target; None in a classification.
    classes
        Of a classification target, as text; empty in a regression.
    """

    target: str
    bounds: Mapping[str, Bound] = field(default_factory=dict)
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    target_bounds: tuple[float, float] | None = None
    classes: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features, in the order of the columns: numeric ones, then categorical ones."""
        return (*self.bounds, *self.categories)


@dataclass(frozen=True, slots=True, eq=False)
class TableDataset:
    """A table as it was loaded; for names see `Dataset`."""

    name: str
    train: TableExamples
    test: TableExamples
    schema: TableSchema
    fingerprint: str
    notice: str = ""


AnyDataset = Dataset | TableDataset
AnyExamples = Examples | TableExamples
