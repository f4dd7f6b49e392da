"""Chart which node has which labels, computed again from the settings: run folders do not hold it."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.config import config_from
from fedlearn.config.names import moved
from fedlearn.config.tables.data import DataSettings
from fedlearn.data.cache import as_it_is
from fedlearn.data.dataset import Dataset
from fedlearn.data.loading import DATASETS, load_dataset
from fedlearn.data.naming import HUB, is_map, is_path
from fedlearn.data.partitioning import PARTITIONS, partition_table
from fedlearn.report.charts.kinds import HeatMap
from fedlearn.report.stored import StoredRun
from fedlearn.words.errors import FedlearnError, said

MOST_NODES = 100  # columns of the chart
MOST_BYTES = 1 << 24  # of a partition's file, and of examples that are made for the chart
MOST_ENTRIES = 100_000  # of a folder of data that is looked up in the cache
DRAWN = set(PARTITIONS) - {"id-to-size"}  # it needs a function


def skew_of(settings: Mapping[str, Any]) -> HeatMap | str:
    """Return the chart, or in words why there is none."""
    former = moved()  # a folder of an earlier version may still have them
    try:
        config = config_from({name: value for name, value in settings.items() if name not in former} | {"out": ""})
    except FedlearnError as error:
        return f"its settings cannot be read: {error}"
    return _picture(config.data, config.clients, config.seed)


def hides_sizes(run: StoredRun) -> bool:
    """Return whether noise is to hide how many rows of each class a node has: then no chart may count them."""
    of_ours = run.settings.get("data.dataset") in DATASETS
    return bool(run.metrics.privacy_loss and run.settings.get("privacy.noise") != "seeded" and not of_ours)


@lru_cache(maxsize=64)
def _picture(data: DataSettings, clients: int, seed: int) -> HeatMap | str:
    try:
        return _why_not(data) or _counted_as_it_is(data, clients, seed)
    except FedlearnError as error:
        return str(error)
    except (ValueError, OSError) as error:
        return f"it cannot be drawn: {said(error)}"


def _why_not(data: DataSettings) -> str:
    """Return why these data are not read; empty if they are."""
    name = data.dataset
    if name not in DATASETS and (name.startswith(HUB) or not is_path(name) or not _is_there(Path(name))):
        return f"the data set {name} is not one of ours, and a report runs no code that a run folder names"
    if name.endswith(".npz"):
        return f"{name} is read as a whole, which a report does for no file that a run folder names"
    if data.partition not in DRAWN and not _is_small_map(data.partition):
        return f"a report runs no code that a run folder names, and the partition {data.partition} may be some"
    return ""


def _counted_as_it_is(data: DataSettings, clients: int, seed: int) -> HeatMap:
    named_by_the_folder = bool(data.dir) or data.dataset not in DATASETS
    with as_it_is() if named_by_the_folder else nullcontext():  # a file of the folder's choice may be of any size
        return _counted(data, clients, seed)


def _counted(data: DataSettings, clients: int, seed: int) -> HeatMap:
    dataset = load_dataset(data.dataset, data.dir, offline=True, options=data.options)  # only a run may download
    table = partition_table(dataset, data, num_partitions=clients, seed=seed)
    shown = min(len(table), MOST_NODES)
    labels = _labels(dataset, shown)
    classes = int(labels.max()) + 1
    counts = np.stack([np.bincount(labels[table.indices(i)], minlength=classes) for i in range(shown)], axis=1)
    of_all = f"first {shown} of {len(table)} nodes" if len(table) > shown else "node"
    alpha = f", alpha {data.alpha:g}" if data.partition == "dirichlet" else ""
    rows, word = _names(dataset, classes)
    title = f"{word} by node: {dataset.name}, {data.partition}{alpha}, seed {seed}"
    return HeatMap("skew", title, of_all, word, rows, counts)


def _labels(dataset: Dataset, nodes: int) -> NDArray[np.int64]:
    """Return the label of each training example; if examples are made node by node, only for the first nodes."""
    if dataset.made is None:
        return dataset.train.labels
    count = nodes * dataset.made.per_node
    if count * math.prod(dataset.spec.shape) > MOST_BYTES:
        raise ValueError(f"the examples of {nodes} nodes are too many to be made for a picture")
    return dataset.train.at(slice(0, count)).labels


def _names(dataset: Any, classes: int) -> tuple[tuple[str, ...], str]:
    """Return the names of the labels, and the word for what they are, as "class"."""
    numbers = tuple(str(number) for number in range(classes))
    if dataset.spec.target_shape:
        return ("all",), "example"  # a sequence has no one label
    if dataset.spec.class_names:
        return dataset.spec.class_names[:classes], "class"
    return numbers, "label" if dataset.spec.classes else "tenth of the target"


def _is_there(path: Path) -> bool:
    """Return whether a path leads to a regular file, or to a folder of at most `MOST_ENTRIES` entries."""
    if not path.is_dir():
        return path.is_file()
    entries = itertools.chain.from_iterable((*folders, *files) for _, folders, files in os.walk(path))
    return next(itertools.islice(entries, MOST_ENTRIES, None), None) is None


def _is_small_map(partition: str) -> bool:
    return is_map(partition) and Path(partition).is_file() and Path(partition).stat().st_size <= MOST_BYTES
