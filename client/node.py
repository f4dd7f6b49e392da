"""Which node this is: the examples that it holds, and what it is doing.

A node is *ready*, or *active* while it trains. It becomes active with an instruction and ready again when its report
is sent or when the server says that the round is over for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context
from numpy.typing import NDArray

from fedlearn import flower
from fedlearn.config import RunConfig, from_flower, per_run
from fedlearn.data.partitioning import PartitionTable, partition_table
from fedlearn.errors import UsageError
from fedlearn.models.loaded import loaded

STATUS = "node"  # name of its record in a context's state


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """What the node is doing, as far as the server's protocol goes; nothing is computed from it.

    Parameters
    ----------
    active
        The node has an instruction and has not sent its report.
    rounds_trained
        Reports made so far.
    told
        What the server last said of the node's part in a round, as ``"rejected"``.
    """

    active: bool = False
    rounds_trained: int = 0
    told: str = ""

    @classmethod
    def of(cls, context: Context) -> NodeStatus:
        """Return what the context holds; a new node's status if it holds nothing."""
        record = context.state.get(STATUS)
        return cls() if record is None else cls(**record)

    def keep(self, context: Context, **changes: object) -> None:
        """Store this status with some fields changed; nothing where that changes nothing."""
        now = {"active": self.active, "rounds_trained": self.rounds_trained, "told": self.told}
        if now | changes != now:
            context.state[STATUS] = flower.filled(ConfigRecord(), now | changes)


def partition_id_of(context: Context) -> int:
    """Return which partition the node holds; it names the node in all random streams."""
    try:
        return int(context.node_config["partition-id"])
    except (KeyError, ValueError):
        raise UsageError(
            "node-config partition-id is missing: start the node with partition-id=0 num-partitions=..."
        ) from None


@per_run
def partitions_of(config: RunConfig) -> PartitionTable:
    """Return which rows of the training set each partition holds."""
    dataset, _ = loaded(config)
    return partition_table(dataset, config.data, num_partitions=config.clients, seed=config.seed)


def examples_of(context: Context) -> NDArray[np.integer[Any]]:
    """Return the rows of the training set that the node holds, shape (n_examples,).

    A node whose data folder holds its own data, and nobody else's, says so by ``own-data`` and holds all rows.
    """
    config = from_flower(context.run_config)
    partition_id = partition_id_of(context)
    if partition_id >= config.clients:
        raise UsageError(f"partition-id = {partition_id}: the run has clients = {config.clients} partitions, from 0")
    if context.node_config.get("own-data"):
        return np.arange(len(loaded(config)[0].train))
    return partitions_of(config).indices(partition_id)
