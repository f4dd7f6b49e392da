"""Which node has which training examples.

The schemes are flwr-datasets' partitioners (`flower_partitioners.py`); what they decide is stored
in the cache as two arrays, so that a run imports neither `datasets` nor `flwr_datasets` (3 s)
unless its table is new. Before any scheme the examples are put in random order, so which examples
of a class a node gets is always random.

- iid: equal random shares; sizes differ by at most one.
- dirichlet: each class is spread by shares drawn from Dirichlet(alpha); Yurochkin et al. 2019
  (arXiv:1905.12022). With many nodes or a small alpha **some partitions are empty**.
- pathological: each node has exactly ``classes_per_node`` classes, the first of them its
  ``partition_id`` modulo the number of classes, the others random; Li et al. 2021
  (arXiv:2102.02079). A class that falls to nobody, with few nodes, is left out.
- shard: examples sorted by class, cut into ``nodes * shards_per_node`` equal shards, dealt out at
  random; McMahan et al. 2017 (arXiv:1602.05629). What does not fill a shard is left out.

- natural: node i has all examples of group i, where a data set says whose each example is
  (`Examples.groups`); with fewer nodes than groups, the examples of the others are left out.
- equal-dirichlet: nodes of equal sizes, each with class shares drawn from Dirichlet(alpha), its option; Hsu et al. 2019
  (arXiv:1909.06335), `equal_dirichlet.py`.
- linear, square, exponential, size, distribution, continuous, inner-dirichlet, grouped-natural-id,
  id-to-size: flwr-datasets' other partitioners, with ``data.partition_options`` (`PARTITIONS`).
- FILE.csv, FILE.json: as a file says (`partition_map.py`).
- module:name: a partitioner of flwr-datasets, or a function ``(dataset, clients, seed, **options)``
  that returns the node of each training example, or the rows of each node.

A data set that is made node by node (`Dataset.made`) says itself who has what: iid and natural are the same there.

With a private model no record may move another: each draws its node by itself (`by_record`), in iid, natural,
dirichlet, pathological, linear, square and exponential. Sizes are then what chance makes of them, in a regression
"class" means the tenth of the declared bounds, and other schemes are refused: their ranks, quotas and row numbers
depend on all records.

Else, in a regression, "class" means the tenth of the targets that an example is in.

Partitions never overlap; iid and dirichlet leave no example out.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedlearn import plugins
from fedlearn.config.tables.data import DataSettings
from fedlearn.data.base import QUANTILES, AnyDataset, Examples, Made, TableDataset
from fedlearn.data.cache import Arrays, cached
from fedlearn.data.drawing import drawn
from fedlearn.data.partition_map import SUFFIXES, by_node, node_of_each, rows_of_each
from fedlearn.plugging.options import options_for
from fedlearn.plugging.registry import Registry, call_plugin
from fedlearn.words.errors import SettingError
from fedlearn.words.seeding import rng_for, seed_for

log = logging.getLogger(__name__)

Rows = NDArray[np.int32]
Offsets = NDArray[np.int64]

SCHEMES = ("iid", "dirichlet", "pathological", "shard", "natural")  # made here, with settings in place of options
EVEN = ("iid", "natural")  # of them, those of a data set that is made node by node
PARTITIONS = Registry(
    "data.partition",
    plugins.PARTITIONS,
)

WEIGHTS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "iid": np.ones_like,
    "linear": lambda place: place + 1,
    "square": lambda place: (place + 1) ** 2,
    "exponential": lambda place: np.exp(place - len(place)),
}
"""Scheme -> how much of the records each node has, by its place."""
BY_RECORD = ("iid", "natural", "dirichlet", "pathological", "linear", "square", "exponential")

LARGEST_ALPHA = 1e100  # even shares long before; far above, their sum overflows and one node gets all


class Consecutive:
    """The rows 0, 1, 2, ... of a data set that is made node by node: none of them is kept."""

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
        Share of each partition that its node does not train on: the last ones, of an order that is random.
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
        held = self._rows_of(partition_id)
        return held[: len(held) - held_out(len(held), self.test_share)]

    def held_out(self, partition_id: int) -> Rows:
        """Return the rows of the training set that a node keeps for testing, read-only; none without a `test_share`.

        >>> PartitionTable(np.array([4, 0, 2], np.int32), np.array([0, 1, 3]), test_share=0.3).held_out(1)
        array([2], dtype=int32)
        """
        held = self._rows_of(partition_id)
        return held[len(held) - held_out(len(held), self.test_share) :]

    def sizes(self) -> Offsets:
        """Return how many examples each node trains on, shape (num_partitions,).

        >>> PartitionTable(np.array([4, 0, 2], np.int32), np.array([0, 1, 3]), test_share=0.3).sizes()
        array([1, 1])
        """
        if isinstance(self.offsets, range):
            each = self.offsets.step
            return np.full(len(self), each - held_out(each, self.test_share))
        numbers, place = np.unique(np.diff(self.offsets), return_inverse=True)  # few, beside so many nodes
        return np.array([each - held_out(each, self.test_share) for each in numbers.tolist()], np.int64)[place]

    def _rows_of(self, partition_id: int) -> Rows:
        if not 0 <= partition_id < len(self):
            raise IndexError(f"partition {partition_id}: there are {len(self)}")
        return self.rows[self.offsets[partition_id] : self.offsets[partition_id + 1]]


def held_out(count: int, share: float) -> int:
    """Return how many of a node's examples are held out: at least one of two, and never the last that is left.

    >>> [held_out(count, 0.2) for count in (0, 1, 2, 10, 100)]
    [0, 0, 1, 2, 20]
    """
    return min(max(1, round(share * count)), count - 1) if share and count > 1 else 0


def measured_on(dataset: AnyDataset, table: PartitionTable, partition_id: int) -> Examples:
    """Return the examples on which a node measures a state.

    Those that it held out; without a `test_share`, the test examples of its group, where partitions are groups and the
    test examples have them, too; else those that it trains on.
    """
    if table.test_share:
        return dataset.train.at(table.held_out(partition_id))
    if table.by_group and dataset.test.groups is not None:
        return dataset.test.at(np.flatnonzero(dataset.test.groups == partition_id))
    return dataset.train.at(table.indices(partition_id))


def partition_table(
    dataset: AnyDataset, settings: DataSettings, *, num_partitions: int, seed: int, by_record: bool = False
) -> PartitionTable:
    """Return who has what: a function of the training examples, the scheme, the number and the seed.

    Parameters
    ----------
    dataset
        Whose training examples are spread.
    settings
        The scheme and its parameters; the others are not looked at.
    num_partitions
        From 1 to the number of training examples.
    seed
        The run's seed.
    by_record
        Each record draws its node by itself, as it must where the model is private; what cannot be done so is refused.
        The records of a declared table do so anyway, where that can be done.

    Raises
    ------
    SettingError
        Where the scheme cannot do this; names the setting to change.
    """
    name = settings.partition
    if name in SCHEMES and json.loads(settings.partition_options or "{}"):
        allowed = f"{name} has none; data.alpha, data.classes_per_node and data.shards_per_node are settings"
        raise SettingError("data.partition_options", settings.partition_options, allowed)
    if is_map(name) and json.loads(settings.partition_options or "{}"):
        allowed = "a file that says who has what takes none"
        raise SettingError("data.partition_options", settings.partition_options, allowed)
    if by_record and settings.node_test_share:
        allowed = "no node measures a private model: leave it at 0"
        raise SettingError("data.node_test_share", settings.node_test_share, allowed)
    if dataset.made is not None:
        return _of_made(dataset, dataset.made, settings, num_partitions)
    if by_record or (isinstance(dataset, TableDataset) and name in BY_RECORD and not settings.node_test_share):
        return _by_record(dataset, settings, num_partitions, seed)
    if name in SCHEMES or is_map(name):
        rows, offsets = _of_labels(dataset, settings, num_partitions, seed)
    else:
        rows, offsets = _of_plugin(dataset, settings, num_partitions, seed)
    return PartitionTable(rows, offsets, settings.node_test_share, by_group=name == "natural")


def _of_made(dataset: AnyDataset, made: Made, settings: DataSettings, num_partitions: int) -> PartitionTable:
    """Return the table of a data set that is made node by node, which no number of nodes makes larger."""
    if settings.partition not in EVEN:
        allowed = f"{dataset.name!r} is made node by node: leave it at iid; how nodes differ is said by data.options"
        raise SettingError("data.partition", settings.partition, allowed)
    most = len(dataset.train) // made.per_node
    if not 1 <= num_partitions <= most:
        raise SettingError("clients", num_partitions, f"from 1 to {most}, the nodes of {dataset.name!r}")
    offsets = range(0, (num_partitions + 1) * made.per_node, made.per_node)
    return PartitionTable(Consecutive(), offsets, settings.node_test_share)


def _by_record(dataset: AnyDataset, settings: DataSettings, num_partitions: int, seed: int) -> PartitionTable:
    """Return the table in which each record has drawn its node, by shares that depend on its class alone."""
    name, train = settings.partition, dataset.train
    if json.loads(settings.partition_options or "{}"):
        raise SettingError("data.partition_options", settings.partition_options, f"{name} by records has none")
    if name == "natural":
        nodes = _groups_of(dataset, num_partitions)
    else:
        classes, count = _declared_classes(dataset, settings)
        edges = np.cumsum(_shares_of_nodes(settings, count, num_partitions, seed), axis=1)
        places = drawn(train, seed=seed, purpose=f"partition/{name}") * edges[classes, -1]
        nodes = np.full(len(train), -1, np.int64)  # of a class that no node has
        for each in range(count):
            mine = (classes == each) & (edges[classes, -1] > 0)
            nodes[mine] = np.minimum(np.searchsorted(edges[each], places[mine], side="right"), num_partitions - 1)
    rows = np.flatnonzero((nodes >= 0) & (nodes < num_partitions))
    rows = rows[np.argsort(nodes[rows], kind="stable")]
    sizes = np.bincount(nodes[rows], minlength=num_partitions)
    return PartitionTable(
        rows.astype(np.int32), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), by_group=name == "natural"
    )


def _declared_classes(dataset: AnyDataset, settings: DataSettings) -> tuple[NDArray[np.int64], int]:
    """Return the class of each record, and how many there are, as they are declared; one, where none is looked at."""
    train, name, spec = dataset.train, settings.partition, dataset.spec
    if name not in ("dirichlet", "pathological"):
        return np.zeros(len(train), np.int64), 1
    if train.targets.ndim > 1 or (spec.target_bounds is None and not spec.classes):
        allowed = f"{dataset.name!r} declares neither classes nor bounds that it could skew: take iid or natural"
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
    allowed = f"by it one record more moves others, which a private model may not: take {', '.join(BY_RECORD)}"
    raise SettingError("data.partition", name, allowed)


def is_map(name: str) -> bool:
    """Return whether a partition is the path of a file that says who has what."""
    return name.endswith(SUFFIXES)


def _of_labels(dataset: AnyDataset, settings: DataSettings, num_partitions: int, seed: int) -> tuple[Rows, Offsets]:
    """Return rows and offsets of a scheme that looks at one integer of each example: its label, group or node."""
    labels = dataset.train.labels
    if settings.partition == "natural":
        labels = _groups_of(dataset, num_partitions)
    elif is_map(settings.partition):
        labels = _mapped(Path(settings.partition).expanduser(), len(labels), num_partitions)
    elif settings.partition != "iid" and dataset.train.targets.ndim > 1:
        allowed = f"it skews labels, and {dataset.name!r} has several an example: take iid or natural"
        raise SettingError("data.partition", settings.partition, allowed)
    _check(labels, settings, num_partitions)
    parameter = {
        "dirichlet": settings.alpha,
        "pathological": settings.classes_per_node,
        "shard": settings.shards_per_node,
    }.get(settings.partition)
    scheme = "map" if is_map(settings.partition) else settings.partition
    # The labels are all that a scheme looks at, hashing them takes under 1 ms, and unlike a name
    # they cannot be out of date. The versions are there since a new one may draw other numbers.
    examples = blake2b(np.ascontiguousarray(labels).data, digest_size=16).hexdigest()
    versions = f"numpy {version('numpy')}, flwr-datasets {version('flwr-datasets')}"
    key = f"{scheme}({parameter!r}) {num_partitions=} {seed=} {examples=} {versions}"
    entry = cached(f"partitions-{scheme}", key, lambda: _computed(labels, settings, num_partitions, seed))
    return entry.arrays["rows"], entry.arrays["offsets"]


def _mapped(file: Path, examples: int, num_partitions: int) -> NDArray[np.int64]:
    """Return the node of each training example, -1 where a file gives it to nobody."""
    nodes = node_of_each(file, examples)
    if num_partitions > (most := int(nodes.max()) + 1):
        raise SettingError("clients", num_partitions, f"at most {most}, the nodes in {file}")
    return nodes


def _of_plugin(dataset: AnyDataset, settings: DataSettings, num_partitions: int, seed: int) -> tuple[Rows, Offsets]:
    """Return rows and offsets of what a partitioner or function says; not cached, since its code may change."""
    from fedlearn.data.flower_partitioners import Impossible, as_partitioner, parts_of

    examples, name = len(dataset.train), settings.partition
    _check(dataset.train.targets, settings, num_partitions)
    build = PARTITIONS.load(name)
    options = json.loads(settings.partition_options or "{}")
    order = rng_for(seed, purpose="partition").permutation(examples).astype(np.int32)
    scheme_seed = seed_for(seed, purpose="partition/plugin")
    try:
        partitioner = as_partitioner(build, options, num_partitions=num_partitions, seed=scheme_seed)
        if partitioner is not None:
            parts = parts_of(partitioner, dataset, order, num_partitions)
        else:
            chosen = options_for(
                build, options, setting="data.partition_options", reserved=("dataset", "clients", "seed"), whole=True
            )
            said = call_plugin("data.partition", name, build, dataset, num_partitions, scheme_seed, **chosen)
            parts = rows_of_each(said, name=name, nodes=num_partitions, examples=examples)
    except Impossible as error:
        raise SettingError("data.partition", name, str(error)) from error
    place = np.argsort(order)  # of each row in a random order, so that what is held out is drawn
    arrays = _joined([part[np.argsort(place[part])] for part in parts], examples=examples)
    return arrays["rows"].astype(np.int32, copy=False), arrays["offsets"].astype(np.int64, copy=False)


def _groups_of(dataset: AnyDataset, num_partitions: int) -> NDArray[np.int64]:
    """Return the group of each training example, in place of its label."""
    found = getattr(dataset.train, "groups", None)
    if found is None:
        raise SettingError("data.partition", "natural", f"{dataset.name!r} does not say whose its examples are")
    if num_partitions > dataset.spec.groups:
        allowed = f"at most {dataset.spec.groups}, the number of groups of {dataset.name!r}"
        raise SettingError("clients", num_partitions, allowed)
    groups: NDArray[np.int64] = found
    return groups


def _check(labels: NDArray[np.int64], settings: DataSettings, num_partitions: int) -> None:
    """Refuse what no seed could make possible."""
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
    from fedlearn.data.flower_partitioners import Impossible, partitions

    started = time.monotonic()
    order = rng_for(seed, purpose="partition").permutation(len(labels)).astype(np.int32)
    scheme_seed = seed_for(seed, purpose=f"partition/{settings.partition}")
    try:
        if settings.partition == "natural" or is_map(settings.partition):
            parts = by_node(labels, order, num_partitions)
        else:
            parts = partitions(labels, order, settings, num_partitions=num_partitions, seed=scheme_seed)
    except Impossible as error:
        if settings.partition != "pathological":
            raise SettingError("data.partition", settings.partition, str(error)) from error
        allowed = "some class falls to more nodes than it has examples; take less, or fewer clients"
        raise SettingError("data.classes_per_node", settings.classes_per_node, allowed) from error
    arrays = _joined(parts, examples=len(labels))
    log.info(
        "partition=%s nodes=%d empty=%d unused=%d seconds=%.1f",
        settings.partition,
        num_partitions,
        int((np.diff(arrays["offsets"]) == 0).sum()),
        len(labels) - len(arrays["rows"]),
        time.monotonic() - started,
    )
    return arrays


def _joined(parts: Sequence[Rows], *, examples: int) -> dict[str, Rows | NDArray[np.int64]]:
    """Return the two arrays of a table, having checked that no example is in two partitions."""
    rows = np.concatenate(parts).astype(np.int32, copy=False)
    if np.bincount(rows, minlength=examples).max() > 1:
        raise RuntimeError("a partitioner gave one example to two nodes: this is a bug")
    sizes = np.fromiter((len(part) for part in parts), np.int64, count=len(parts))
    return {"rows": rows, "offsets": np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])}
