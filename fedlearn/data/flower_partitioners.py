"""flwr-datasets' partitioners on a column of labels; imported only for a table not in the cache.

A `Partitioner` insists on a real `datasets.Dataset`, sorts it, and selects rows from it for each
partition. `select` of the real one makes a new Arrow table and hashes its history: 1 ms and more
for each of 10,000 partitions, though all we want is which rows were selected. `LabelColumn` is a
real `Dataset` whose `sort` and `select` do only that much. The partitioners themselves are used as
they are, through their public methods.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from datasets import Dataset  # type: ignore[import-untyped, unused-ignore]
from datasets.table import InMemoryTable  # type: ignore[import-untyped, unused-ignore]
from flwr_datasets.partitioner import (  # type: ignore[import-untyped, unused-ignore]
    DirichletPartitioner,
    IidPartitioner,
    Partitioner,
    PathologicalPartitioner,
    ShardPartitioner,
)
from numpy.typing import NDArray

from fedlearn.config.schema import DataSettings

COLUMN = "label"


class Impossible(Exception):
    """The partitioner cannot make such partitions; the text is its own."""


class LabelColumn(Dataset):  # type: ignore[misc, unused-ignore]
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
        """Return the labels as an array: the real column would hand them out one by one."""
        return self._labels if key == COLUMN else super().__getitem__(key)

    def sort(self, *_: Any, **__: Any) -> LabelColumn:
        """Return the examples in the order of their labels, equal ones in the order they had."""
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
        Of the training examples, shape (n,).
    order
        A permutation of the rows: the order in which the partitioner sees the examples.
    settings
        The scheme and its parameter.
    num_partitions
        From 1 to n.
    seed
        Of the partitioner.

    Raises
    ------
    Impossible
        Where the partitioner refuses.
    """
    partitioner = _partitioner(settings, num_partitions, seed)
    partitioner.dataset = LabelColumn(labels[order], order)
    try:
        with warnings.catch_warnings():  # on classes nobody has: logged as unused examples
            warnings.simplefilter("ignore")
            return [partitioner.load_partition(i) for i in range(num_partitions)]
    except ValueError as error:
        raise Impossible(" ".join(str(error).split())) from error


def _partitioner(settings: DataSettings, num_partitions: int, seed: int) -> Partitioner:
    match settings.partition:
        case "iid":
            return IidPartitioner(num_partitions)
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
