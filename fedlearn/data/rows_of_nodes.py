"""The rows of the training set that each node has: to train on, to hold out for testing, to measure a state on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import Examples
from fedlearn.data.dataset import Dataset
from fedlearn.data.partition_map import Rows

Offsets = NDArray[np.int64]

LARGEST_ALPHA = 1e100  # shares are even long before; far above it, their sum overflows and one node gets all


class Consecutive:
    """The rows 0, 1, 2, ... of a data set that is made node by node: none of the rows is kept."""

    def __getitem__(self, rows: slice) -> Rows:
        """Return the rows from `rows.start` to before `rows.stop`."""
        return np.arange(rows.start, rows.stop, dtype=np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class PartitionTable:
    """The examples of every node.

    Parameters
    ----------
    rows : array of int32
        Rows of the training set, partition after partition.
    offsets : array of int64, or a range
        Shape (num_partitions + 1,): partition i is ``rows[offsets[i]:offsets[i + 1]]``.
    test_share : float, default=0.0
        Share of each partition that its node does not train on: the last rows, of a random order.
    by_group : bool, default=False
        Partition i is group i of the data set.
    """

    rows: Rows | Consecutive
    offsets: Offsets | range
    test_share: float = 0.0
    by_group: bool = False

    def __len__(self) -> int:
        """Return the number of partitions."""
        return len(self.offsets) - 1

    def indices(self, partition_id: int) -> Rows:
        """Return the rows that a node trains on, in random order and read-only; may be empty.

        >>> PartitionTable(np.array([4, 0, 2], np.int32), np.array([0, 1, 3])).indices(1)
        array([0, 2], dtype=int32)
        """
        partition = self._partition(partition_id)
        return partition[: len(partition) - held_out(len(partition), self.test_share)]

    def held_out(self, partition_id: int) -> Rows:
        """Return the rows of the training set that a node keeps for testing, read-only; empty without a `test_share`.

        >>> PartitionTable(np.array([4, 0, 2], np.int32), np.array([0, 1, 3]), test_share=0.3).held_out(1)
        array([2], dtype=int32)
        """
        partition = self._partition(partition_id)
        return partition[len(partition) - held_out(len(partition), self.test_share) :]

    def sizes(self) -> Offsets:
        """Return how many examples each node trains on, shape (num_partitions,).

        >>> PartitionTable(np.array([4, 0, 2], np.int32), np.array([0, 1, 3]), test_share=0.3).sizes()
        array([1, 1])
        """
        if isinstance(self.offsets, range):
            each = self.offsets.step
            return np.full(len(self), each - held_out(each, self.test_share))
        numbers, place = np.unique(np.diff(self.offsets), return_inverse=True)  # few sizes, beside so many nodes
        return np.array([each - held_out(each, self.test_share) for each in numbers.tolist()], np.int64)[place]

    def _partition(self, partition_id: int) -> Rows:
        if not 0 <= partition_id < len(self):
            raise IndexError(f"partition {partition_id}: there are {len(self)}")
        return self.rows[self.offsets[partition_id] : self.offsets[partition_id + 1]]


def held_out(count: int, share: float) -> int:
    """Return how many of a node's examples are held out: at least one of two, and never the last one.

    >>> [held_out(count, 0.2) for count in (0, 1, 2, 10, 100)]
    [0, 0, 1, 2, 20]
    """
    return min(max(1, round(share * count)), count - 1) if share and count > 1 else 0


def measured_on(dataset: Dataset, table: PartitionTable, partition_id: int) -> Examples:
    """Return the examples on which a node measures a state.

    With a `test_share`, these are the examples that the node holds out. Without one, they are the test examples of the
    node's group, where partitions are groups and the test examples have groups, too. Otherwise they are the examples
    that the node trains on.
    """
    if table.test_share:
        return dataset.train.at(table.held_out(partition_id))
    if table.by_group and dataset.test.groups is not None:
        own = dataset.validation  # rows that are no test rows
        return dataset.test.at(own + np.flatnonzero(dataset.test.groups[own:] == partition_id))
    return dataset.train.at(table.indices(partition_id))


def groups_of(dataset: Dataset, num_partitions: int) -> NDArray[np.int64]:
    """Return the group of each training example, which is the node that has it.

    Raises
    ------
    SettingError
        If the data set has no groups, or fewer than `num_partitions`.
    """
    groups = dataset.train.groups
    if groups is None:
        raise SettingError(
            "data.partition", "natural", f"{dataset.name!r} has no groups: take another partition, or data with groups"
        )
    if num_partitions > dataset.spec.groups:
        allowed = f"at most {dataset.spec.groups}, the number of groups of {dataset.name!r}"
        raise SettingError("clients", num_partitions, allowed)
    return groups
