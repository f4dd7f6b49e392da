"""Examples with their targets, and the public facts about a data set: the schema of a table, the spec for models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.integer[Any]] | slice

QUANTILES = 10  # classes into which the targets of a regression are sorted, for partitioners that skew labels
INPUTS = ("uint8", "int32", "float32", "float64")
TARGETS = ("int64", "float32", "float64")
IGNORED = -100  # the class of a place that no loss counts, as torch and `transformers` have it

Facts = Mapping[str, Any]
"""Fields of `Dataset` that JSON can hold: num_classes, mean, std, vocabulary, class_names, group_names."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Examples:
    """Examples and the target of each; usually mapped from a file and then read-only.

    Parameters
    ----------
    inputs : array
        Shape (n, ...). The kind of numbers says what they mean: uint8 are bytes from 0 to 255, trained on as 0 to 1, as
        images (n, height, width, channels); float32 are taken as they are; int32 are tokens from 0, as the letters of
        texts (n, length), or -1 - t for a token t that the data's own mask hides; float64 are the raw rows of a
        declared table, with NaN for a missing value.
    targets : array
        int64 are classes from 0, shape (n,), or several of each example, (n, length) or (n, height, width), where -100
        is the class of a place that no loss and no metric counts. float32 or float64 are numbers of a regression, shape
        (n,) or (n, numbers), or images (n, height, width, channels). A column (n, 1) is taken for (n,).
    groups : array of int64, optional
        Shape (n,), from 0: the group of each example, as the writer of a digit; None if the data have no groups.

    Examples
    --------
    >>> two = Examples(np.zeros((2, 8, 8, 1), np.uint8), np.array([3, 7]), groups=np.array([0, 4]))
    >>> len(two), two.at(slice(1, 2)).targets
    (2, array([7]))
    """

    inputs: NDArray[Any]
    targets: NDArray[Any]
    groups: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        """Check kinds of numbers and shapes, which the types do not say."""
        if str(self.inputs.dtype) not in INPUTS or self.inputs.ndim < 2:
            found = f"{self.inputs.dtype} of shape {self.inputs.shape}"
            raise ValueError(f"inputs must be one of {', '.join(INPUTS)}, of shape (n, ...): {found}")
        if str(self.targets.dtype) not in TARGETS or self.targets.shape[:1] != self.inputs.shape[:1]:
            found = f"{self.targets.dtype} of shape {self.targets.shape}"
            raise ValueError(
                f"targets must be one of {', '.join(TARGETS)}, of shape ({len(self.inputs)}, ...): {found}"
            )
        if self.targets.shape[1:] == (1,):
            object.__setattr__(self, "targets", self.targets[:, 0])
        if self.groups is not None and (self.groups.dtype != np.int64 or self.groups.shape != self.inputs.shape[:1]):
            found = f"{self.groups.dtype} of shape {self.groups.shape}"
            raise ValueError(f"groups must be int64 of shape ({len(self.inputs)},): {found}")

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.targets)

    def __repr__(self) -> str:
        """Return the number of examples, their shape and kind of numbers."""
        return f"Examples({len(self)} of shape {self.inputs.shape[1:]} {self.inputs.dtype})"

    @property
    def labels(self) -> NDArray[np.int64]:
        """Labels for partitioners, shape (n,): the class, or in a regression the tenth of the targets it is in.

        All labels are 0 if a target is more than one number.

        >>> Examples(np.zeros((4, 1)), np.array([7.0, 1.0, 5.0, 5.0])).labels
        array([2, 0, 1, 1])
        """
        if self.targets.ndim > 1:
            return np.zeros(len(self), np.int64)
        if self.targets.dtype == np.int64:
            return self.targets.astype(np.int64, copy=False)
        inner = np.quantile(self.targets, np.arange(1, QUANTILES) / QUANTILES)
        return np.unique(np.searchsorted(inner, self.targets, side="right"), return_inverse=True)[1].astype(np.int64)

    def at(self, rows: Rows) -> Examples:
        """Return the examples of some rows."""
        return Examples(self.inputs[rows], self.targets[rows], None if self.groups is None else self.groups[rows])


def joined(parts: Sequence[Examples]) -> Examples:
    """Return the examples of all parts in one; their groups, where every part has some."""
    groups = [part.groups for part in parts if part.groups is not None]
    return Examples(
        np.concatenate([part.inputs for part in parts]),
        np.concatenate([part.targets for part in parts]),
        np.concatenate(groups) if len(groups) == len(parts) else None,
    )


Bound = tuple[float, float] | tuple[float, float, str]


@dataclass(frozen=True, slots=True)
class TableSchema:
    """Facts that are declared about a table: public knowledge, never read from the data.

    Parameters
    ----------
    target : str
        Name of the column that is predicted; empty if there are several.
    bounds : mapping, default={}
        Numeric feature -> (low, high), or (low, high, "log") for features with heavy tails.
    categories : mapping, default={}
        Categorical feature -> its categories, as text.
    target_bounds : tuple of float, optional
        (low, high) of a regression target; None in a classification.
    classes : tuple of str, default=()
        Classes of the target, or of each of several, as text; empty in a regression.
    targets : mapping, default={}
        Names of several targets -> the (low, high) of each; None of each in a classification.

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
    targets: Mapping[str, tuple[float, float] | None] = field(default_factory=dict)

    @property
    def learned(self) -> tuple[str, ...]:
        """Names of the columns that are predicted."""
        return tuple(self.targets) or (self.target,)

    @property
    def ranges(self) -> Mapping[str, tuple[float, float]]:
        """Names of the targets that are numbers -> their bounds."""
        bounds = self.targets or {self.target: self.target_bounds}
        return {name: pair for name, pair in bounds.items() if pair is not None}

    @property
    def words(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the columns that hold words -> these words, as text: categories, and classes of targets."""
        return {**self.categories, **(dict.fromkeys(self.learned, self.classes) if self.classes else {})}

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features, in the order of the columns: numeric ones, then categorical ones."""
        return (*self.bounds, *self.categories)


@dataclass(frozen=True, slots=True)
class DataSpec:
    """Public facts about a data set: enough to build a model for it, and to spread it over nodes.

    Parameters
    ----------
    name : str
        Name of the data set, for messages.
    shape : tuple of int
        Shape of one example: (height, width, channels) of an image, (features,) of a row, (length,) of a text,
        (length, channels) of a series.
    dtype : str
        Kind of numbers: "uint8" of images, "float32" of numbers, "int32" of tokens, "float64" of a declared table.
    classes : int, default=0
        Labels are 0 to ``classes - 1``; 0 in a regression.
    target_bounds : tuple of float, optional
        (low, high) of the target of a regression, if they are declared.
    groups : int, default=0
        Number of natural groups of the training examples, as the writers of digits; 0 if the data have no groups.
    mean, std : tuple of float, default=()
        Mean and standard deviation of each channel, of bytes as scaled to [0, 1], or of each column of numbers of a
        table; empty if the inputs are taken as they are, and those of a declared table scaled from their bounds.
    table : TableSchema, optional
        Schema of a declared table.
    target_shape : tuple of int, default=()
        Shape of the target of one example: () is one class or number, (length,) a sequence of classes, or several
        numbers.
    vocabulary : int, default=0
        Tokens are 0 to ``vocabulary - 1``; 0 if an example is not made of tokens.
    class_names : tuple of str, default=()
        Names of the classes, if they have names.
    feature_names : tuple of str, default=()
        Names of the columns of a table, if they have names.
    target_names : tuple of str, default=()
        Names of several targets, if they have names.
    hides : bool, default=False
        Whether some tokens are hidden by a mask of the data: -1 - t stands for a hidden token t.
    transform : str, default=""
        Function of one example that is called before every use (``data.transform``); all other facts are of examples as
        they are before.
    collate : str, default=""
        Function that makes a batch of several examples (``data.collate``), after the transform.
    mixed : bool, default=False
        Whether examples have several sizes: `shape` is the largest, with one channel more.
    target_mean, target_std : tuple of float, default=()
        Mean and standard deviation by which the loss of a regression scales each target; empty: declared bounds do.

    Examples
    --------
    >>> DataSpec("femnist", (28, 28, 1), "uint8", classes=62, groups=3597).is_image
    True
    >>> DataSpec("shakespeare", (80,), "int32", classes=80, vocabulary=80, target_shape=(80,)).is_image
    False
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
    target_shape: tuple[int, ...] = ()
    vocabulary: int = 0
    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()
    hides: bool = False
    transform: str = ""
    collate: str = ""
    mixed: bool = False
    target_mean: tuple[float, ...] = ()
    target_std: tuple[float, ...] = ()

    @property
    def is_made_by_functions(self) -> bool:
        """Whether own functions make a module's input of the examples."""
        return bool(self.transform or self.collate or self.mixed)

    @property
    def is_image(self) -> bool:
        """Whether an example is an image, (height, width, channels)."""
        return self.table is None and len(self.shape) == 3 and not self.vocabulary
