"""Schemes that say which node has which training examples, and the table that a scheme makes.

The schemes are flwr-datasets' partitioners (`flower_partitioners.py`). Before any scheme the examples are put in random
order, so which examples of a class a node gets is always random.

- iid: equal random shares; sizes differ by at most one.
- dirichlet: each class is spread by shares drawn from Dirichlet(alpha); Yurochkin et al. 2019
  (arXiv:1905.12022). With many nodes or a small alpha **some partitions are empty**.
- pathological: each node has exactly ``classes_per_node`` classes, the first of them its
  ``partition_id`` modulo the number of classes, the others random; Li et al. 2021
  (arXiv:2102.02079). With few nodes, a class that falls to no node is left out.
- shard: examples sorted by class, cut into ``nodes * shards_per_node`` equal shards, dealt out at
  random; McMahan et al. 2017 (arXiv:1602.05629). Examples that do not fill a shard are left out.

- natural: node i has all examples of group i, where a data set says whose each example is
  (`Examples.groups`); with fewer nodes than groups, the examples of the other groups are left out.
- equal-dirichlet: nodes of equal sizes, each with class shares drawn from Dirichlet(alpha), its option; Hsu et al. 2019
  (arXiv:1909.06335), `equal_dirichlet.py`.
- linear, square, exponential, size, distribution, continuous, inner-dirichlet, grouped-natural-id,
  id-to-size: flwr-datasets' other partitioners, with ``data.partition_options`` (`PARTITIONS`).
- FILE.csv, FILE.json: as a file says (`partition_map.py`).
- module:name: a partitioner of flwr-datasets, or a function ``(dataset, clients, seed, **options)``
  that returns the node of each training example, or the rows of each node.

A data set that is made node by node (`Dataset.made`) fixes who has what: iid and natural are the same there.

With a private model no record may move another record: each draws its node by itself (`by_record.py`), in iid, natural,
dirichlet, pathological, linear, square and exponential. The sizes of partitions are then random, and in a regression
"class" means the tenth of the declared bounds. Other schemes are refused: their ranks, quotas and row numbers depend on
all records.

With other models, in a regression, "class" means the tenth of the targets that an example is in.

Partitions never overlap; iid and dirichlet leave no example out.
"""

from __future__ import annotations

import json

import numpy as np

from fedlearn.config.tables.data import DataSettings
from fedlearn.core.errors import SettingError
from fedlearn.core.seeding import rng_for, seed_for
from fedlearn.data.by_label import check_possible, joined, partitioned_by_label
from fedlearn.data.by_record import BY_RECORD, partitioned_by_record
from fedlearn.data.dataset import Dataset, Made
from fedlearn.data.naming import is_map
from fedlearn.data.partition_map import Rows, rows_of_each
from fedlearn.data.rows_of_nodes import Consecutive, Offsets, PartitionTable
from fedlearn.plugins import tables
from fedlearn.plugins.options import options_for
from fedlearn.plugins.registry import Registry, call_plugin

SCHEMES = ("iid", "dirichlet", "pathological", "shard", "natural")  # made here, with settings in place of options
EVEN = ("iid", "natural")  # the schemes of a data set that is made node by node
PARTITIONS = Registry(
    "data.partition",
    tables.PARTITIONS,
)


def partition_table(
    dataset: Dataset, settings: DataSettings, *, num_partitions: int, seed: int, by_record: bool = False
) -> PartitionTable:
    """Return which node has which examples: a function of the training examples, the scheme, the number and the seed.

    Parameters
    ----------
    dataset
        The data set whose training examples are spread.
    settings
        The scheme and its parameters; other settings are not looked at.
    num_partitions
        From 1 to the number of training examples.
    seed
        The run's seed.
    by_record
        Whether each record draws its node by itself, as it must where the model is private; a scheme that cannot do so
        is refused. The records of a declared table do so anyway, in a scheme that can.

    Raises
    ------
    SettingError
        If the scheme cannot do this; names the setting to change.
    """
    name = settings.partition
    if name in SCHEMES and json.loads(settings.partition_options or "{}"):
        allowed = f"{name} has none; data.alpha, data.classes_per_node and data.shards_per_node are settings"
        raise SettingError("data.partition_options", settings.partition_options, allowed)
    if is_map(name) and json.loads(settings.partition_options or "{}"):
        allowed = "a file with the client of each example takes none"
        raise SettingError("data.partition_options", settings.partition_options, allowed)
    if by_record and settings.node_test_share:
        allowed = "no client measures a private model: leave it at 0"
        raise SettingError("data.node_test_share", settings.node_test_share, allowed)
    if dataset.made is not None:
        return _of_made(dataset, dataset.made, settings, num_partitions)
    if by_record or (dataset.schema is not None and name in BY_RECORD and not settings.node_test_share):
        return partitioned_by_record(dataset, settings, num_partitions, seed)
    if name in SCHEMES or is_map(name):
        rows, offsets = partitioned_by_label(dataset, settings, num_partitions, seed)
    else:
        rows, offsets = _of_plugin(dataset, settings, num_partitions, seed)
    return PartitionTable(rows, offsets, settings.node_test_share, by_group=name == "natural")


def _of_made(dataset: Dataset, made: Made, settings: DataSettings, num_partitions: int) -> PartitionTable:
    """Return the table of a data set that is made node by node; its size does not grow with the number of nodes."""
    if settings.partition not in EVEN:
        allowed = (
            f"{dataset.name!r} is made client by client: leave it at iid, and set by data.options how clients differ"
        )
        raise SettingError("data.partition", settings.partition, allowed)
    most = len(dataset.train) // made.per_node
    if not 1 <= num_partitions <= most:
        raise SettingError("clients", num_partitions, f"from 1 to {most}, the clients of {dataset.name!r}")
    offsets = range(0, (num_partitions + 1) * made.per_node, made.per_node)
    return PartitionTable(Consecutive(), offsets, settings.node_test_share)


def _of_plugin(dataset: Dataset, settings: DataSettings, num_partitions: int, seed: int) -> tuple[Rows, Offsets]:
    """Return rows and offsets by a partitioner or function from outside; not cached, since its code may change."""
    from fedlearn.data.flower_partitioners import Impossible, as_partitioner, parts_of

    examples, name = len(dataset.train), settings.partition
    check_possible(dataset.train.targets, settings, num_partitions)
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
            returned = call_plugin("data.partition", name, build, dataset, num_partitions, scheme_seed, **chosen)
            parts = rows_of_each(returned, name=name, nodes=num_partitions, examples=examples)
    except Impossible as error:
        raise SettingError("data.partition", name, str(error)) from error
    place = np.argsort(order)  # of each row in a random order, so that the rows that are held out are random
    return joined([part[np.argsort(place[part])] for part in parts], examples=examples)
