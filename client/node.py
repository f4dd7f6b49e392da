"""Which node this is: the examples that it holds, and what it is doing.

A node is *ready*, or *active* while it trains. It becomes active with an instruction and ready again when its report
is sent or when the server says that the round is over for it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message
from numpy.typing import NDArray

from fedlearn import flower
from fedlearn.config import RunConfig, from_flower, per_run
from fedlearn.config.tables.running import DEVICE_SETTING
from fedlearn.data.base import Examples
from fedlearn.data.drawing import nothing_held_out
from fedlearn.data.partitioning import PartitionTable, measured_on, partition_table
from fedlearn.data.sources.paths import is_path
from fedlearn.flower import ClientAppCallable
from fedlearn.models.loaded import dataset_of, loaded
from fedlearn.words.cohort import needed_of
from fedlearn.words.errors import SettingError, UsageError
from fedlearn.words.seeding import rng_for

log = logging.getLogger("fedlearn.node")

STATUS = "node"  # name of its record in a context's state
DEVICE = "device"  # what a node's config says of it


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
            flower.filled(context.state, {STATUS: flower.filled(ConfigRecord(), now | changes)})


def partition_id_of(context: Context) -> int:
    """Return which partition the node holds; it names the node in all random streams."""
    try:
        return int(context.node_config["partition-id"])
    except (KeyError, ValueError):
        raise UsageError(
            "node-config partition-id is missing: start the node with partition-id=0 num-partitions=..."
        ) from None


def at_home(run_config: Mapping[str, Any], device: Any = "cpu") -> dict[str, Any]:
    """Return the settings of a run with the device of a node in place of the server's."""
    return {**run_config, DEVICE_SETTING: device}


def on_its_device(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Have a node compute where its owner says, else on the CPU, and a virtual one where the run does; a mod.

    It comes before all others, as they make things for the run by its settings.
    """
    given, device = context.run_config, context.node_config.get(DEVICE, "cpu")
    if given.get(DEVICE_SETTING) == device:
        return call_next(message, context)
    context.run_config = at_home(given, device)
    try:
        return call_next(message, context)
    finally:
        context.run_config = given


@per_run
def partitions_of(config: RunConfig) -> PartitionTable:
    """Return which rows of the training set each partition holds."""
    dataset, _ = loaded(config)
    return partition_table(
        dataset, config.data, num_partitions=config.clients, seed=config.seed, by_record=_is_private(config)
    )


def training_set(context: Context) -> Examples:
    """Return the examples of which the node trains on some rows.

    Of a node's own data and a private model, they are all: which rows are held out must not depend on any record, and
    nothing is measured on them.
    """
    config = from_flower(context.run_config)
    own = bool(context.node_config.get("own-data")) and _is_private(config)
    return _all_examples(config) if own else loaded(config)[0].train


def empty_nodes(config: RunConfig) -> tuple[str, ...]:
    """Return a line if some nodes of a simulation have no examples: they never take part.

    Raises
    ------
    SettingError
        Where too few others are left for a cohort.
    """
    offsets = partitions_of(config).offsets
    empty = 0 if isinstance(offsets, range) else int((np.diff(offsets) == 0).sum())
    if not empty:
        return ()
    found = f"{empty} of {config.clients} nodes have no examples"
    filled, needed = config.clients - empty, needed_of(config.rounds.minimum_ready, config.goal_count)
    if config.rounds.schedule != "synchronous" or filled >= needed:
        return (f"{found}: they never take part",)
    skewed = config.data.partition == "dirichlet"
    setting, value = ("data.alpha", config.data.alpha) if skewed else ("data.partition", config.data.partition)
    raise SettingError(
        setting, value,
        f"{found}, and {needed} must be ready in each round: take another {setting}, or --cohort {filled}",
    )  # fmt: skip


def examples_of(context: Context) -> NDArray[np.integer[Any]]:
    """Return the rows of `training_set` that the node trains on, shape (n_examples,).

    A node whose data folder holds its own data, and nobody else's, says so by ``own-data`` and holds all rows.
    """
    table, place = _holdings(context)
    return table.indices(place)


def examples_to_test(context: Context) -> Examples:
    """Return the examples on which the node measures a state; see `fedlearn.data.partitioning.measured_on`."""
    table, place = _holdings(context)
    return measured_on(loaded(from_flower(context.run_config))[0], table, place)


@per_run
def _say_what_is_numbered_here(config: RunConfig) -> tuple[str, ...]:
    """Log, once a run, what no server can see: numbers of classes and columns that go by this node's own examples."""
    spec, said, lines = loaded(config)[0].spec, json.loads(config.data.options or "{}"), []
    if spec.table is not None or not is_path(config.data.dataset):
        return ()
    if spec.class_names and "classes" not in said:
        lines.append(f"classes are numbered by this node's own examples ({', '.join(spec.class_names[:10])})")
    if len(spec.feature_names) > 1 and "inputs" not in said:
        lines.append("columns stand in the order of this node's own file")
    for line in lines:
        log.warning("own data: %s: have all nodes say them alike, by data.options.classes and inputs", line)
    return tuple(lines)


def _holdings(context: Context) -> tuple[PartitionTable, int]:
    """Return a table of partitions and which of them is the node's."""
    config = from_flower(context.run_config)
    partition_id = partition_id_of(context)
    if partition_id >= config.clients:
        raise UsageError(f"partition-id = {partition_id}: the run has clients = {config.clients} partitions, from 0")
    if context.node_config.get("own-data"):
        _say_what_is_numbered_here(config)
        return _own_data(config), 0
    return partitions_of(config), partition_id


@per_run
def _own_data(config: RunConfig) -> PartitionTable:
    """Return the table of a node that holds the whole data set: one partition, in random order if some are held out.

    Of a private model none is held out, whatever the server asks for: which ones would tell how many there are.
    """
    if _is_private(config):
        count = len(_all_examples(config))
        return PartitionTable(np.arange(count, dtype=np.int32), np.array([0, count]))
    count, share = len(loaded(config)[0].train), config.data.node_test_share
    rows = rng_for(config.seed, purpose="own data").permutation(count) if share else np.arange(count)
    return PartitionTable(rows.astype(np.int32), np.array([0, count]), share)


@per_run
def _all_examples(config: RunConfig) -> Examples:
    with nothing_held_out():
        return dataset_of(config).train


def _is_private(config: RunConfig) -> bool:
    from client.discretion import is_private  # which knows learners, and these the memories of nodes, named here

    return is_private(config)
