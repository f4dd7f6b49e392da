"""What a node keeps between messages, in Flower's ``Context.state``, and what it is made of.

A node is *ready*, or *active* while it trains. It becomes active with an instruction and ready again when its report
is sent or when the server says that the round is over for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context
from numpy.typing import NDArray

from fedlearn import flower, wire
from fedlearn.config import RunConfig, from_flower, per_run
from fedlearn.data.partitioning import PartitionTable, partition_table
from fedlearn.errors import UsageError
from fedlearn.models.loaded import loaded
from fedlearn.runs.checkpoint import write_atomically
from fedlearn.state import State

KEY = "node"


@dataclass(frozen=True, slots=True)
class NodeState:
    """What outlasts a message.

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
    def of(cls, context: Context) -> NodeState:
        """Return what the context holds; a new node's state if it holds nothing."""
        record = context.state.get(KEY)
        return cls() if record is None else cls(**record)

    def keep(self, context: Context, **changes: object) -> None:
        """Store this state with some fields changed."""
        now = {"active": self.active, "rounds_trained": self.rounds_trained, "told": self.told}
        context.state[KEY] = flower.filled(ConfigRecord(), {**now, **changes})


MEMORY = "memory"


def memory_of(context: Context) -> dict[str, str]:
    """Return the texts that the node's learner keeps; none at first."""
    file = _memory_file(context)
    if file is not None and file.exists():
        kept: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
        return kept
    record = context.state.get(MEMORY)
    return {} if record is None else {name: str(text) for name, text in record.items()}


def keep_memory(context: Context, memory: Mapping[str, str]) -> None:
    """Store them; nothing where there is nothing to keep."""
    if not memory:
        return
    context.state[MEMORY] = ConfigRecord(dict(memory))
    if (file := _memory_file(context)) is not None:
        write_atomically(file, json.dumps(dict(memory)).encode())


def _memory_file(context: Context) -> Path | None:
    """Return where a node on a network keeps its memory of a run; None in a simulation, which keeps it for its nodes.

    Flower forgets a node's state with its SuperNode, and with the run: a run that is taken up again is a new one to
    Flower. A privacy budget that was spent stays spent, so it is kept by the name of the run folder.
    """
    folder = context.node_config.get("memory")
    if not folder:
        return None
    run = blake2b(str(context.run_config["out"]).encode(), digest_size=8).hexdigest()
    return Path(str(folder)) / f"{partition_id_of(context)}-{run}.json"


RESIDUAL = "residual"


def residual_of(context: Context) -> State:
    """Return what the node's codec has lost so far and still owes; nothing at first."""
    record = context.state.get(RESIDUAL)
    return wire.unpack_arrays(record) if isinstance(record, ArrayRecord) else {}


def keep_residual(context: Context, residual: State) -> None:
    """Store it."""
    context.state[RESIDUAL] = wire.pack_arrays(residual)


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
