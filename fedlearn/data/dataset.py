"""A data set: training and test examples, and the facts about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self

from fedlearn.data.data_spec import DataSpec, Examples, TableSchema
from fedlearn.data.packed_examples import PARTS, Places, examples_at, places_of

TEST_ROWS = "test rows"  # in `Dataset.counted`
WINDOWS = "windows"  # likewise: a row of the table is in several examples


@dataclass(frozen=True, slots=True)
class Made:
    """How a data set that is not stored makes the examples of a node, when they are asked for.

    Parameters
    ----------
    per_node : int
        Number of training examples of each node: the examples of node i begin at ``i * per_node``.
    again : callable
        Returns the data set; the callable can be pickled.
    """

    per_node: int
    again: Callable[[], Dataset]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dataset:
    """A data set as it was loaded; a declared table is made by `Dataset.of_table`.

    A pickle of a data set has a few hundred bytes: it names the places of the arrays in the cache, from which another
    process of the same machine maps them (`fedlearn.data.packed_examples`). A subclass is pickled as itself, with its fields.

    Parameters
    ----------
    name : str
        Name of the data set that was really loaded, as ``"digits"`` for ``auto``.
    train, test : Examples
        The examples that are spread over the nodes, and the held-out ones.
    num_classes : int
        Labels are 0 to ``num_classes - 1``; 0 in a regression.
    mean, std : tuple of float
        Mean and standard deviation of each channel (the last axis of an example), of bytes as scaled to [0, 1]; these
        are constants, never learned from the examples of a node. Empty: the inputs are taken as they are.
    fingerprint : str
        Hash of all examples: the same examples have the same fingerprint on every machine.
    notice : str, default=""
        One line that the user must see, or empty.
    vocabulary : int, default=0
        Tokens are 0 to ``vocabulary - 1``; 0 if the inputs are no tokens.
    class_names, group_names : tuple of str, default=()
        Names of the classes and groups, in their order; empty if they have numbers alone.
    made : Made, optional
        How the examples are made, if they are made only when they are asked for.
    target_mean, target_std : tuple of float, default=()
        Mean and standard deviation by which the loss of a regression scales each target; empty: declared bounds do.
    feature_names, target_names : tuple of str, default=()
        Names of the columns of a table, and of several targets, in their order; empty if they have no names.
    hides : bool, default=False
        Whether tokens have a mask: -1 - t stands for a token t that is hidden.
    schema : TableSchema, optional
        Schema of a declared table; None for any other data set.
    owner_notices : tuple of str, default=()
        Lines that say how a table differs from its schema. They are for the owner of the data alone, as they hold exact
        counts.
    test_is_public : bool, optional
        Whether the test examples are public; else they are as private as the training examples. None: they are public
        if the data set is one of `DATASETS`.
    mixed : bool, default=False
        Whether examples have several sizes (`fedlearn.data.from_mixed`).
    counted : tuple of str, default=()
        Facts that a reader measured on the examples because they were not declared, such as ``"classes"``; `TEST_ROWS`
        says that a permutation of all rows chose the test rows, `WINDOWS` that a row is in several examples. Private
        runs refuse them (`fedlearn.data.private_examples`).
    validation : int, default=0
        How many of the test examples, from the first, are the data set's own validation rows: they are measured only
        where a run has validation rows (``data.validation_share``), which are then these.

    Raises
    ------
    ValueError
        If the classes are not those of the schema.

    Examples
    --------
    >>> import numpy as np
    >>> two = Examples(np.zeros((2, 8, 8, 1), np.uint8), np.array([3, 7]))
    >>> Dataset("two", two, two, num_classes=10, mean=(0.5,), std=(0.2,), fingerprint="two-1")
    Dataset('two', 2 + 2 examples of 8 x 8 x 1 uint8, 10 classes)
    """

    name: str
    train: Examples
    test: Examples
    num_classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fingerprint: str
    notice: str = ""
    vocabulary: int = 0
    class_names: tuple[str, ...] = ()
    group_names: tuple[str, ...] = ()
    made: Made | None = None
    feature_names: tuple[str, ...] = ()
    schema: TableSchema | None = None
    owner_notices: tuple[str, ...] = ()
    test_is_public: bool | None = None
    counted: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()
    hides: bool = False
    mixed: bool = False
    target_mean: tuple[float, ...] = ()
    target_std: tuple[float, ...] = ()
    validation: int = 0

    def __post_init__(self) -> None:
        """Check that the classes are those of the schema, if there is one."""
        if self.schema is not None and (self.num_classes, self.class_names) != (
            len(self.schema.classes),
            self.schema.classes,
        ):
            raise ValueError("num_classes and class_names must be those of the schema: use Dataset.of_table")

    @classmethod
    def of_table(
        cls,
        name: str,
        train: Examples,
        test: Examples,
        schema: TableSchema,
        fingerprint: str,
        *,
        test_is_public: bool = False,
        **others: Any,
    ) -> Self:
        """Return a declared table as a data set, whose classes are those of its schema.

        Parameters
        ----------
        train, test
            Inputs are float64, (n, features): a missing value is NaN, a category is its place among the declared ones.
            Targets are float64 in a regression, else int64, the place among the declared classes.
        others
            Other fields of a `Dataset`: `notice`, `group_names`, `made`, `owner_notices`, and those of a subclass.

        Examples
        --------
        >>> import numpy as np
        >>> ages = Examples(np.array([[17.0], [50.0]]), np.array([0, 1]))
        >>> Dataset.of_table("ages", ages, ages, TableSchema("adult", {"age": (0, 120)}, classes=("no", "yes")), "1")
        Dataset('ages', 2 + 2 examples of 1 float64, 2 classes)
        """
        return cls(
            name,
            train,
            test,
            num_classes=len(schema.classes),
            mean=(),
            std=(),
            fingerprint=fingerprint,
            class_names=schema.classes,
            schema=schema,
            test_is_public=test_is_public,
            **others,
        )

    def __repr__(self) -> str:
        """Return name, sizes, shape and what is learned, in one line."""
        spec = self.spec
        size = " x ".join(str(side) for side in spec.shape)
        to_learn = f"{spec.classes} classes" if spec.classes else "a regression"
        groups = f", {spec.groups} groups" if spec.groups else ""
        sizes = f"{len(self.train)} + {len(self.test)} examples"
        return f"Dataset({self.name!r}, {sizes} of {size} {spec.dtype}, {to_learn}{groups})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the places of the arrays, and all other fields by value; or the callable that makes the data set."""
        if self.made is not None:
            return self.made.again, ()
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in PARTS}
        return _unpickled, (type(self), places_of(self.name, self.train, self.test), values)

    @property
    def spec(self) -> DataSpec:
        """Public facts about the data set."""
        groups = self.train.groups
        return DataSpec(
            self.name,
            shape=self.train.inputs.shape[1:],
            dtype=str(self.train.inputs.dtype),
            classes=self.num_classes,
            target_bounds=self.schema.target_bounds if self.schema is not None else None,
            groups=len(self.group_names) or (0 if groups is None else int(groups.max(initial=-1)) + 1),
            mean=self.mean,
            std=self.std,
            table=self.schema,
            target_shape=self.train.targets.shape[1:],
            vocabulary=self.vocabulary,
            class_names=self.class_names,
            feature_names=self.feature_names,
            target_names=self.target_names,
            hides=self.hides,
            mixed=self.mixed,
            target_mean=self.target_mean,
            target_std=self.target_std,
        )


def _unpickled(kind: type[Dataset], places: Places, values: dict[str, Any]) -> Dataset:
    """Return a data set whose arrays lie in this machine's cache.

    Raises
    ------
    DataNotFound
        If the arrays do not lie there.
    """
    train, test = examples_at(values["name"], places)
    return kind(train=train, test=test, **values)
