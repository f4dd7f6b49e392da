"""Partitions in which each record draws its node by itself, as it must where the model is private.

One record more then moves no other record (`drawing.py`). The share of each node depends on settings, seed and the
class of the record, never on the other records. So the sizes of partitions are even only by chance.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedlearn.config.tables.data import DataSettings
from fedlearn.core.errors import SettingError
from fedlearn.core.seeding import rng_for
from fedlearn.data.data_spec import QUANTILES
from fedlearn.data.dataset import Dataset
from fedlearn.data.drawing import drawn
from fedlearn.data.rows_of_nodes import LARGEST_ALPHA, PartitionTable, groups_of

WEIGHTS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "iid": np.ones_like,
    "linear": lambda place: place + 1,
    "square": lambda place: (place + 1) ** 2,
    "exponential": lambda place: np.exp(place - len(place)),
}
"""Scheme -> how much of the records each node has, by the number of the node."""
BY_RECORD = ("iid", "natural", "dirichlet", "pathological", "linear", "square", "exponential")


def partitioned_by_record(dataset: Dataset, settings: DataSettings, num_partitions: int, seed: int) -> PartitionTable:
    """Return the table in which each record has drawn its node, by shares that depend on the record's class alone."""
    name, train = settings.partition, dataset.train
    if json.loads(settings.partition_options or "{}"):
        raise SettingError(
            "data.partition_options",
            settings.partition_options,
            f"{name}, where each record draws its client, has none",
        )
    if name == "natural":
        nodes = groups_of(dataset, num_partitions)
    else:
        classes, count = _declared_classes(dataset, settings)
        edges = np.cumsum(_shares_of_nodes(settings, count, num_partitions, seed), axis=1)
        places = drawn(train, seed=seed, purpose=f"partition/{name}") * edges[classes, -1]
        nodes = np.full(len(train), -1, np.int64)  # -1 stays for a class that no node has
        for each in range(count):
            mine = (classes == each) & (edges[classes, -1] > 0)
            nodes[mine] = np.minimum(np.searchsorted(edges[each], places[mine], side="right"), num_partitions - 1)
    rows = np.flatnonzero((nodes >= 0) & (nodes < num_partitions))
    rows = rows[np.argsort(nodes[rows], kind="stable")]
    sizes = np.bincount(nodes[rows], minlength=num_partitions)
    return PartitionTable(
        rows.astype(np.int32), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), by_group=name == "natural"
    )


def _declared_classes(dataset: Dataset, settings: DataSettings) -> tuple[NDArray[np.int64], int]:
    """Return the class of each record, and the number of classes, as they are declared.

    In a regression the class is the tenth of the declared bounds. For a scheme that looks at no class, all records are
    of one.
    """
    train, name, spec = dataset.train, settings.partition, dataset.spec
    if name not in ("dirichlet", "pathological"):
        return np.zeros(len(train), np.int64), 1
    if train.targets.ndim > 1 or (spec.target_bounds is None and not spec.classes):
        allowed = f"{dataset.name!r} declares neither classes nor bounds of its target to skew: take iid or natural"
        raise SettingError("data.partition", name, allowed)
    if spec.target_bounds is None:
        return train.targets.astype(np.int64), spec.classes
    low, high = spec.target_bounds
    tenth = np.clip((train.targets - low) / (high - low) * QUANTILES, 0, QUANTILES - 1)
    return tenth.astype(np.int64), QUANTILES


def _shares_of_nodes(settings: DataSettings, classes: int, nodes: int, seed: int) -> NDArray[np.float64]:
    """Return the share of each class that each node has, (classes, nodes): a function of settings and seed alone."""
    name, place = settings.partition, np.arange(nodes, dtype=np.float64)
    if name in WEIGHTS:
        return np.asarray(WEIGHTS[name](place), np.float64)[None, :]
    if name == "dirichlet":
        if settings.alpha > LARGEST_ALPHA:
            raise SettingError("data.alpha", settings.alpha, f"at most {LARGEST_ALPHA}")
        alphas = np.full(nodes, settings.alpha)
        return np.stack([rng_for(seed, purpose="shares", node=each).dirichlet(alphas) for each in range(classes)])
    if name == "pathological":
        if settings.classes_per_node > classes:
            raise SettingError("data.classes_per_node", settings.classes_per_node, f"there are {classes} classes")
        has = np.zeros((classes, nodes))
        for node in range(nodes):
            others = (node + 1 + rng_for(seed, purpose="classes", node=node).permutation(classes - 1)) % classes
            has[[node % classes, *others[: settings.classes_per_node - 1]], node] = 1
        return has
    allowed = f"with it one record more would move others, which a private model forbids: take {', '.join(BY_RECORD)}"
    raise SettingError("data.partition", name, allowed)
