"""flwr-datasets' partitioners on a column of labels; imported only for a table not in the cache.

A `Partitioner` insists on a real `datasets.Dataset`, sorts it, and selects rows from it for each
partition. Its own `select` makes a new Arrow table and hashes its history: 1 ms and more for each
of 10,000 partitions, though we want to know only which rows were selected. `LabelColumn` is a real
`Dataset` whose `sort` and `select` return just these rows. The partitioners themselves are used as
they are, through their public methods.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

import datasets  # type: ignore[import-untyped, unused-ignore]
import numpy as np
from datasets.table import InMemoryTable  # type: ignore[import-untyped, unused-ignore]
from flwr_datasets.partitioner import (  # type: ignore[import-untyped, unused-ignore]
    DirichletPartitioner,
    Partitioner,
    PathologicalPartitioner,
    ShardPartitioner,
)
from numpy.typing import NDArray

from fedlearn.config.tables.data import DataSettings
from fedlearn.data.dataset import Dataset
from fedlearn.plugins.options import options_for
from fedlearn.plugins.registry import load_plugin

COLUMN = "label"


class Impossible(Exception):
    """Error of a partitioner that cannot make the partitions, with the partitioner's own text."""


class LabelColumn(datasets.Dataset):  # type: ignore[misc, unused-ignore]
    """Labels, and the row of the training set that each belongs to.

    Parameters
    ----------
    labels
        int64, shape (n,).
    rows
        int32, shape (n,).
    """

    def __init__(self, labels: NDArray[np.int64], rows: NDArray[np.int32]) -> None:
        super().__init__(InMemoryTable.from_pydict({COLUMN: labels}), fingerprint="unused")
        self._labels = labels
        self._rows = rows

    def __getitem__(self, key: Any) -> Any:
        """Return the labels as an array: the real column would yield them one by one."""
        return self._labels if key == COLUMN else super().__getitem__(key)

    def sort(self, *_: Any, **__: Any) -> LabelColumn:
        """Return the examples in the order of their labels; examples of one label keep their order."""
        order = np.argsort(self._labels, kind="stable")
        return LabelColumn(self._labels[order], self._rows[order])

    def select(self, indices: Any, **_: Any) -> NDArray[np.int32]:
        """Return the rows of the training set instead of a data set of them."""
        if isinstance(indices, range):
            return self._rows[indices.start : indices.stop]
        return self._rows[np.asarray(indices, dtype=np.int64)]


def partitions(
    labels: NDArray[np.int64],
    order: NDArray[np.int32],
    settings: DataSettings,
    *,
    num_partitions: int,
    seed: int,
) -> list[NDArray[np.int32]]:
    """Return the rows of each partition.

    Parameters
    ----------
    labels
        Labels of the training examples, shape (n,).
    order
        A permutation of the rows: the order in which the partitioner sees the examples.
    settings
        The settings with the scheme and its parameter.
    num_partitions
        From 1 to n.
    seed
        Seed of the partitioner.

    Raises
    ------
    Impossible
        If the partitioner refuses.
    """
    partitioner = _partitioner(settings, num_partitions, seed)
    partitioner.dataset = LabelColumn(labels[order], order)
    try:
        with warnings.catch_warnings():  # about classes that no node has: these are logged as unused examples
            warnings.simplefilter("ignore")
            return [partitioner.load_partition(i) for i in range(num_partitions)]
    except ValueError as error:
        raise Impossible(" ".join(str(error).split())) from error


def _partitioner(settings: DataSettings, num_partitions: int, seed: int) -> Partitioner:
    match settings.partition:
        case "dirichlet":
            # No smallest size: it would refuse many nodes or a small alpha after ten tries.
            return DirichletPartitioner(num_partitions, COLUMN, alpha=settings.alpha, min_partition_size=0, seed=seed)
        case "pathological":
            return PathologicalPartitioner(
                num_partitions,
                COLUMN,
                num_classes_per_partition=settings.classes_per_node,
                class_assignment_mode="first-deterministic",  # as in the paper: no class left out
                seed=seed,
            )
        case "shard":
            return ShardPartitioner(
                num_partitions,
                COLUMN,
                num_shards_per_partition=settings.shards_per_node,
                seed=seed,
            )


RESERVED = ("num_partitions", "seed")
SIZES = "partition_id_to_size_fn"  # an option that is a function, module:name
TABLE = "distribution_array"  # an option that is an array


def as_partitioner(build: Any, options: dict[str, Any], *, num_partitions: int, seed: int) -> Partitioner | None:
    """Return a partitioner of flwr-datasets with a user's options; None if `build` is a function instead.

    Raises
    ------
    Impossible
        If the partitioner refuses, or spreads columns instead of examples.
    """
    if isinstance(build, Partitioner):
        return build
    if not (isinstance(build, type) and issubclass(build, Partitioner)):
        return None
    if "Vertical" in build.__name__:
        raise Impossible("it spreads the columns of each example, and here whole examples are spread")
    parameters = signature(build).parameters
    by = {"partition_by": "group" if "Natural" in build.__name__ else COLUMN} if "partition_by" in parameters else {}
    given = {**by, **options}
    if isinstance(function := given.get(SIZES), str):
        given[SIZES] = load_plugin(f"data.partition_options.{SIZES}", function)
    if TABLE in given:
        given[TABLE] = np.array(given[TABLE])
    chosen = options_for(build, given, setting="data.partition_options", reserved=RESERVED, whole=True)
    ours = {"num_partitions": num_partitions, "seed": seed % 2**32}
    with _refusals():
        return build(**chosen, **{name: value for name, value in ours.items() if name in parameters})


def parts_of(
    partitioner: Partitioner, dataset: Dataset, order: NDArray[np.int32], num_partitions: int
) -> list[NDArray[np.int32]]:
    """Return the rows of each partition; the partitioner sees a table of row, label, target and group.

    Raises
    ------
    Impossible
        If the partitioner refuses, or makes fewer partitions.
    """
    train = dataset.train
    columns = {"row": order, COLUMN: train.labels[order]}
    if train.targets.ndim == 1:
        columns["target"] = train.targets[order]
    if train.groups is not None:
        columns["group"] = train.groups[order]
    with _refusals():
        partitioner.dataset = datasets.Dataset.from_dict(columns)
        if (made := partitioner.num_partitions) < num_partitions:
            raise ValueError(f"it makes {made} partitions, and clients = {num_partitions}")
        return [np.asarray(partitioner.load_partition(i)["row"], np.int32) for i in range(num_partitions)]


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn an exception of a partitioner into one line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:  # a wrong option may raise anything, as KeyError for a column
        text = " ".join(str(error).split())
        raise Impossible(f"{type(error).__name__}: {text}" if not isinstance(error, ValueError) else text) from error
