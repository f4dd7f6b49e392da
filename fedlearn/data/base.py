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
    images : array of uint8
        Shape (n, height, width, channels).
    labels : array of int64
        Shape (n,), from 0.
    groups : array of int64, optional
        Shape (n,), from 0: whose example it is, as the writer of a digit; None where the data do not say.

    Examples
    --------
    >>> two = Examples(np.zeros((2, 8, 8, 1), np.uint8), np.array([3, 7]), groups=np.array([0, 4]))
    >>> len(two), two.at(slice(1, 2)).labels
    (2, array([7]))
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    groups: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        """Check what the types cannot say."""
        if self.images.dtype != np.uint8 or self.images.ndim != 4:
            found = f"{self.images.dtype} of shape {self.images.shape}"
            raise ValueError(f"images must be uint8 of shape (n, height, width, channels): {found}")
        if self.labels.dtype != np.int64 or self.labels.shape != self.images.shape[:1]:
            found = f"{self.labels.dtype} of shape {self.labels.shape}"
            raise ValueError(f"labels must be int64 of shape ({len(self.images)},): {found}")
        if self.groups is not None and (self.groups.dtype != np.int64 or self.groups.shape != self.labels.shape):
            found = f"{self.groups.dtype} of shape {self.groups.shape}"
            raise ValueError(f"groups must be int64 of shape ({len(self.images)},): {found}")

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.labels)

    def at(self, rows: Rows) -> Examples:
        """Return some of the examples."""
        return Examples(self.images[rows], self.labels[rows], None if self.groups is None else self.groups[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """A data set as it was loaded.

    Parameters
    ----------
    name : str
        What was really loaded, as ``"digits"`` where ``auto`` was asked for.
    train, test : Examples
        The examples that are spread over the nodes, and the held-out ones.
    num_classes : int
        Labels are 0 to ``num_classes - 1``.
    mean, std : tuple of float
        Of each channel, over the training images scaled to [0, 1]; constants, never learned from
        what a node has.
    fingerprint : str
        Hash of all images and labels: the same examples have the same fingerprint on every machine.
    notice : str, default=""
        One line that the user must see, or empty.

    Examples
    --------
    >>> two = Examples(np.zeros((2, 8, 8, 1), np.uint8), np.array([3, 7]))
    >>> Dataset("two", two, two, num_classes=10, mean=(0.5,), std=(0.2,), fingerprint="two-1").spec.shape
    (8, 8, 1)
    """

    name: str
    train: Examples
    test: Examples
    num_classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fingerprint: str
    notice: str = ""

    @property
    def spec(self) -> DataSpec:
        """What of it is public."""
        groups = self.train.groups
        return DataSpec(
            self.name,
            shape=self.train.images.shape[1:],
            dtype=str(self.train.images.dtype),
            classes=self.num_classes,
            groups=0 if groups is None else int(groups.max(initial=-1)) + 1,
            mean=self.mean,
            std=self.std,
        )


@dataclass(frozen=True, slots=True, eq=False)
class TableExamples:
    """Rows of a table; usually mapped from a file and then read-only.

    Parameters
    ----------
    features : array of float64
        Shape (n, features), raw; NaN = missing; a category is its place among the declared ones.
    targets : array of float64 or int64
        Shape (n,): float64, raw, in a regression; int64 from 0, the place among the declared classes, else.

    Examples
    --------
    >>> TableExamples(np.array([[0.5, 1.0], [0.1, np.nan]]), np.array([2.5, 3.5])).at(slice(0, 1)).targets
    array([2.5])
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
    target : str
        Name of the column that is predicted.
    bounds : mapping, default={}
        Numeric feature -> (low, high), or (low, high, "log") for features with heavy tails.
    categories : mapping, default={}
        Categorical feature -> its categories, as text.
    target_bounds : tuple of float, optional
        (low, high) of a regression target; None in a classification.
    classes : tuple of str, default=()
        Of a classification target, as text; empty in a regression.

    Examples
    --------
    >>> TableSchema("price", {"age": (0, 120)}, {"job": ("clerk", "farmer")}, target_bounds=(0, 500_000)).features
    ('age', 'job')
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
    """A table as it was loaded.

    Parameters
    ----------
    schema : TableSchema
        What is declared about it.
    name, train, test, fingerprint, notice
        As in `Dataset`.
    """

    name: str
    train: TableExamples
    test: TableExamples
    schema: TableSchema
    fingerprint: str
    notice: str = ""

    @property
    def spec(self) -> DataSpec:
        """What of it is public."""
        return DataSpec(
            self.name,
            shape=self.train.features.shape[1:],
            dtype=str(self.train.features.dtype),
            classes=len(self.schema.classes),
            target_bounds=self.schema.target_bounds,
            table=self.schema,
        )


@dataclass(frozen=True, slots=True)
class DataSpec:
    """What of a data set is public: enough to build a model for it, and to spread it over nodes.

    Parameters
    ----------
    name : str
        Of the data set, for messages.
    shape : tuple of int
        Of one example: (height, width, channels) of an image, (features,) of a row.
    dtype : str
        Of one example: "uint8" of images, "float64" of rows.
    classes : int, default=0
        Labels are 0 to ``classes - 1``; 0 in a regression.
    target_bounds : tuple of float, optional
        (low, high) of the target of a regression.
    groups : int, default=0
        Into how many natural groups the training examples fall, as the writers of digits; 0 where nothing is said.
    mean, std : tuple of float, default=()
        Of each channel of images scaled to [0, 1].
    table : TableSchema, optional
        What is declared about a table.

    Examples
    --------
    >>> DataSpec("femnist", (28, 28, 1), "uint8", classes=62, groups=3597).is_image
    True
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    classes: int = 0
    target_bounds: tuple[float, float] | None = None
    groups: int = 0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    table: TableSchema | None = None

    @property
    def is_image(self) -> bool:
        """Whether an example is an image: else it is a row of a table."""
        return self.table is None


AnyDataset = Dataset | TableDataset
AnyExamples = Examples | TableExamples
