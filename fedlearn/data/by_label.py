"""Partitions by one integer of each example, its label, group or node in a file; kept in the cache.

A run imports neither `datasets` nor `flwr_datasets` (3 s) unless its partitions are not in the cache yet, nor ever for
equal random shares, groups and files: a loop over seeds would pay for that import at its first run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedlearn.config.tables.data import DataSettings
from fedlearn.core.errors import SettingError
from fedlearn.core.seeding import rng_for, seed_for
from fedlearn.data.cache import cached
from fedlearn.data.dataset import Dataset
from fedlearn.data.entries import Arrays
from fedlearn.data.naming import is_map
from fedlearn.data.partition_map import Rows, by_node, node_of_each
from fedlearn.data.rows_of_nodes import LARGEST_ALPHA, Offsets, groups_of
from fedlearn.plugins.extras import version_of

OF_FLOWER = ("dirichlet", "pathological", "shard")  # schemes whose rows flwr-datasets' partitioners choose

log = logging.getLogger(__name__)


def partitioned_by_label(
    dataset: Dataset, settings: DataSettings, num_partitions: int, seed: int
) -> tuple[Rows, Offsets]:
    """Return rows and offsets of a scheme that looks at one integer of each example."""
    labels = dataset.train.labels
    if settings.partition == "natural":
        labels = groups_of(dataset, num_partitions)
    elif is_map(settings.partition):
        labels = _mapped(Path(settings.partition).expanduser(), len(labels), num_partitions)
    elif settings.partition != "iid" and dataset.train.targets.ndim > 1:
        allowed = f"it skews labels, and an example of {dataset.name!r} has several: take iid or natural"
        raise SettingError("data.partition", settings.partition, allowed)
    check_possible(labels, settings, num_partitions)
    parameter = {
        "dirichlet": settings.alpha,
        "pathological": settings.classes_per_node,
        "shard": settings.shards_per_node,
    }.get(settings.partition)
    scheme = "map" if is_map(settings.partition) else settings.partition
    # A scheme looks at the labels alone. Hashing them takes under 1 ms, and unlike a name they cannot be out of date.
    # The versions are part of the key since a new version may draw other numbers.
    examples = blake2b(np.ascontiguousarray(labels).data, digest_size=16).hexdigest()
    versions = f"numpy {np.__version__}"
    if settings.partition in OF_FLOWER:
        versions += f", flwr-datasets {_version('flwr_datasets')}"
    key = f"{scheme}({parameter!r}) {num_partitions=} {seed=} {examples=} {versions}"
    entry = cached(f"partitions-{scheme}", key, lambda: _computed(labels, settings, num_partitions, seed))
    return entry.arrays["rows"], entry.arrays["offsets"]


_version = cache(version_of)  # a millisecond each time, and a loop of runs asks again


def _mapped(file: Path, examples: int, num_partitions: int) -> NDArray[np.int64]:
    """Return the node of each training example, -1 where a file gives the example to no node."""
    nodes = node_of_each(file, examples)
    if num_partitions > (most := int(nodes.max()) + 1):
        raise SettingError("clients", num_partitions, f"at most {most}, the clients in {file}")
    return nodes


def check_possible(labels: NDArray[np.int64], settings: DataSettings, num_partitions: int) -> None:
    """Refuse settings that no seed could make possible."""
    examples = len(labels)
    if not 1 <= num_partitions <= examples:
        allowed = f"from 1 to {examples}, the number of training examples"
        raise SettingError("clients", num_partitions, allowed)
    if settings.partition == "dirichlet" and settings.alpha > LARGEST_ALPHA:
        raise SettingError("data.alpha", settings.alpha, f"at most {LARGEST_ALPHA}")
    if settings.partition == "pathological":
        classes = len(np.unique(labels))
        if settings.classes_per_node > classes:
            allowed = f"the training examples have {classes} classes"
            raise SettingError("data.classes_per_node", settings.classes_per_node, allowed)
        _check_pieces("data.classes_per_node", settings.classes_per_node, num_partitions, examples)
    if settings.partition == "shard":
        _check_pieces("data.shards_per_node", settings.shards_per_node, num_partitions, examples)


def _check_pieces(setting: str, pieces: int, num_partitions: int, examples: int) -> None:
    most = examples // num_partitions
    if pieces > most:
        allowed = f"at most {most} with {num_partitions} clients and {examples} training examples"
        raise SettingError(setting, pieces, allowed)


def _computed(labels: NDArray[np.int64], settings: DataSettings, num_partitions: int, seed: int) -> Arrays:
    started = time.monotonic()
    order = rng_for(seed, purpose="partition").permutation(len(labels)).astype(np.int32)
    if settings.partition == "iid":
        parts: Sequence[Rows] = np.array_split(order, num_partitions)  # as IidPartitioner cuts, without its imports
    elif settings.partition in OF_FLOWER:
        parts = _by_flower(labels, order, settings, num_partitions, seed)
    else:
        parts = by_node(labels, order, num_partitions)
    rows, offsets = joined(parts, examples=len(labels))
    log.info(
        "partition=%s nodes=%d empty=%d unused=%d seconds=%.1f",
        settings.partition,
        num_partitions,
        int((np.diff(offsets) == 0).sum()),
        len(labels) - len(rows),
        time.monotonic() - started,
    )
    return {"rows": rows, "offsets": offsets}


def _by_flower(
    labels: NDArray[np.int64], order: NDArray[np.int32], settings: DataSettings, num_partitions: int, seed: int
) -> Sequence[Rows]:
    from fedlearn.data.flower_partitioners import Impossible, partitions

    scheme_seed = seed_for(seed, purpose=f"partition/{settings.partition}")
    try:
        return partitions(labels, order, settings, num_partitions=num_partitions, seed=scheme_seed)
    except Impossible as error:
        if settings.partition != "pathological":
            raise SettingError("data.partition", settings.partition, str(error)) from error
        allowed = (
            "some class falls to more clients than it has examples: take fewer classes per client, or fewer clients"
        )
        raise SettingError("data.classes_per_node", settings.classes_per_node, allowed) from error


def joined(parts: Sequence[Rows], *, examples: int) -> tuple[Rows, Offsets]:
    """Return rows and offsets of a table, having checked that no example is in two partitions."""
    rows = np.concatenate(parts).astype(np.int32, copy=False)
    if np.bincount(rows, minlength=examples).max() > 1:
        raise RuntimeError("a partitioner gave one example to two clients: this is a bug")
    sizes = np.fromiter((len(part) for part in parts), np.int64, count=len(parts))
    return rows, np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
