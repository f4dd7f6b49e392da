"""The examples that a node holds."""

from __future__ import annotations

import json
import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from client.owner.error_disclosure import is_private
from client.owner.signed_sets import sums_exactly
from client.request import Request
from fedlearn.config import RunConfig, per_run
from fedlearn.config.policy import Policy
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.core.seeding import rng_for
from fedlearn.data.data_spec import Examples
from fedlearn.data.drawing import nothing_held_out
from fedlearn.data.naming import is_path
from fedlearn.data.partitioning import partition_table
from fedlearn.data.rows_of_nodes import PartitionTable, measured_on
from fedlearn.models.loaded import dataset_of, loaded
from fedlearn.models.model import Scored, Tryable

log = logging.getLogger("fedlearn.node")


@per_run
def partitions_of(config: RunConfig) -> PartitionTable:
    """Return which rows of the training set each partition holds."""
    dataset, _ = loaded(config)
    return partition_table(
        dataset, config.data, num_partitions=config.clients, seed=config.seed, by_record=is_private(config)
    )


def training_set(request: Request) -> Examples:
    """Return the examples of which the node trains on some rows.

    A node with its own data holds out no rows where the model is private, or its sums are exact: which rows are held
    out must not depend on any record nor be chosen by a server, and no metric is measured on them.
    """
    own = request.holds_own_data and _takes_all_rows(request.config)
    return _all_examples(request.config) if own else loaded(request.config)[0].train


def has_few_records(request: Request) -> bool:
    """Return whether the whole table has fewer records than the owner asks for.

    It is asked of the whole table: with a share, which a server sets, a server could count records.
    """
    return len(training_set(request)) < Policy.of_node(request.context.node_config).least_records


def adds_too_few(request: Request) -> bool:
    """Return whether a real node would add exact numbers of fewer records than its owner asks for."""
    return request.is_real and sums_exactly(request.config) and has_few_records(request)


def _takes_all_rows(config: RunConfig) -> bool:
    return is_private(config) or sums_exactly(config)


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
    found = f"{empty} of {config.clients} clients have no examples"
    filled, needed = config.clients - empty, config.fewest_ready
    if config.rounds.schedule != "synchronous" or filled >= needed:
        return (f"{found}: they never take part",)
    skewed = config.data.partition == "dirichlet"
    setting, value = ("data.alpha", config.data.alpha) if skewed else ("data.partition", config.data.partition)
    raise SettingError(
        setting, value,
        f"{found}, and {needed} must be ready in each round: take another {setting}, or --cohort {filled}",
    )  # fmt: skip


def check_outputs_on_nodes(model: Scored, config: RunConfig) -> None:
    """Raise SettingError where the outputs of the largest node take more than ``evaluation.scores_mb``."""
    train, offsets = loaded(config)[0].train, partitions_of(config).offsets
    rows = offsets.step if isinstance(offsets, range) else int(np.diff(offsets).max(initial=0))
    if model.is_scored and isinstance(model, Tryable) and len(train):
        share = config.data.node_test_share or 1.0
        model.try_scores(model.try_step(train.at(np.arange(2) % len(train))), rows=int(share * rows))


def examples_of(request: Request) -> NDArray[np.integer[Any]]:
    """Return the rows of `training_set` that the node trains on, shape (n_examples,).

    A node whose data folder holds its own data alone says so by ``own-data`` and holds all rows.
    """
    table, place = _holdings(request)
    return table.indices(place)


def examples_to_test(request: Request) -> Examples:
    """Return the examples on which the node measures a state; see `fedlearn.data.rows_of_nodes.measured_on`."""
    table, place = _holdings(request)
    return measured_on(loaded(request.config)[0], table, place)


@per_run
def _say_what_is_numbered_here(config: RunConfig) -> tuple[str, ...]:
    """Log, once a run, what no server can see: numbers of classes and columns that go by this node's own examples."""
    spec, said, lines = loaded(config)[0].spec, json.loads(config.data.options or "{}"), []
    if spec.table is not None or not is_path(config.data.dataset) or config.data.dataset.endswith(".toml"):
        return ()
    if spec.class_names and "classes" not in said:
        lines.append(f"classes are numbered by this client's own examples ({', '.join(spec.class_names[:10])})")
    if len(spec.feature_names) > 1 and "inputs" not in said:
        lines.append("columns stand in the order of this client's own file")
    for line in lines:
        log.warning("own data: %s: have all clients say them alike, by data.options.classes and inputs", line)
    return tuple(lines)


def _holdings(request: Request) -> tuple[PartitionTable, int]:
    """Return a table of partitions and which of them is the node's."""
    config, partition_id = request.config, request.partition_id
    if partition_id >= config.clients:
        raise UsageError(f"partition-id = {partition_id}: the run has clients = {config.clients} partitions, from 0")
    if request.holds_own_data:
        _say_what_is_numbered_here(config)
        return _own_data(config), 0
    return partitions_of(config), partition_id


@per_run
def _own_data(config: RunConfig) -> PartitionTable:
    """Return the table of a node that holds the whole data set: one partition, in random order if some are held out.

    With a private model, or exact sums, no row is held out, whatever the server asks for: held-out rows would tell
    their number, and sums over more and fewer rows a single one.
    """
    if _takes_all_rows(config):
        count = len(_all_examples(config))
        return PartitionTable(np.arange(count, dtype=np.int32), np.array([0, count]))
    count, share = len(loaded(config)[0].train), config.data.node_test_share
    rows = rng_for(config.seed, purpose="own data").permutation(count) if share else np.arange(count)
    return PartitionTable(rows.astype(np.int32), np.array([0, count]), share)


@per_run
def _all_examples(config: RunConfig) -> Examples:
    with nothing_held_out():
        return dataset_of(config).train
