"""Partitions that a user says: a file, a function, a partitioner of flwr-datasets by name or class."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import flwr_datasets.partitioner
import numpy as np
import pytest
from flwr_datasets.partitioner import Partitioner, SizePartitioner

from fedlearn.config.tables.data import DataSettings
from fedlearn.core.errors import FedlearnError, SettingError
from fedlearn.data import from_arrays, partition_table
from fedlearn.data.partitioning import PARTITIONS, SCHEMES

LABELS = np.arange(100) % 4
DATA = from_arrays(np.zeros((100, 2)), LABELS, np.zeros((1, 2)), [1], groups=np.arange(100) % 10)
NODES = (np.arange(100) // 7) % 5


def parts(partition, clients=5, seed=1, dataset=DATA, options=None, **settings):
    data = DataSettings(partition=str(partition), partition_options=options or {}, **settings)
    table = partition_table(dataset, data, num_partitions=clients, seed=seed)
    return [table.indices(i).tolist() for i in range(clients)]


@pytest.fixture
def plugin(monkeypatch):
    module = ModuleType("partition_of_the_user")
    monkeypatch.setitem(sys.modules, "partition_of_the_user", module)

    def named(thing) -> str:
        module.it = thing
        return "partition_of_the_user:it"

    return named


FORMS = {
    "each.csv": "node\n" + "".join(f"{node}\n" for node in NODES),
    "pairs.csv": "example,node\n" + "".join(f"{row},{NODES[row]}\n" for row in reversed(range(100))),
    "each.json": json.dumps(NODES.tolist()),
    "nodes.json": json.dumps({str(node): np.flatnonzero(node == NODES).tolist() for node in range(5)}),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_file_says_who_has_what(tmp_path, name):
    (tmp_path / name).write_text(FORMS[name])
    found = parts(tmp_path / name)
    assert [sorted(mine) for mine in found] == [np.flatnonzero(node == NODES).tolist() for node in range(5)]
    assert found == parts(tmp_path / name)
    assert found[0] != sorted(found[0])  # in random order, of which some may be held out


def test_examples_that_a_file_gives_to_nobody_are_left_out(tmp_path):
    (tmp_path / "few.csv").write_text("example,node\n3,0\n99,2\n")
    assert parts(tmp_path / "few.csv", 3) == [[3], [], [99]]
    assert parts(tmp_path / "few.csv", 1) == [[3]]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "node\n0\nx\n", "a.csv, line 3: client 'x': it must be an integer from 0"),
        ("a.csv", "node\n-1\n", "a.csv, line 2: client -1"),
        ("a.csv", "who\n0\n", "a.csv, line 1: the columns must be example,node or only node, not who"),
        ("a.csv", "example,node\n100,0\n", "a.csv, line 2: example 100: it must be an integer from 0 to 99"),
        ("a.csv", "example,node\n5,0\n5,1\n", "a.csv, line 3: example 5 has client 0 already"),
        ("a.csv", "node\n" + "0\n" * 101, "a.csv, line 102: example 100: it must be an integer from 0 to 99"),
        ("a.json", "{", "a.json cannot be read"),
        ("a.json", '{"0": 3}', "a.json: it must be [NODE, ...]"),
        ("a.json", '{"zero": [3]}', "a.json, node zero: client 'zero'"),
        ("a.json", "[0, 1.5]", "a.json, entry 1: client 1.5"),
        ("a.json", "[0, 1]", "clients = 5: at most 2, the clients in "),
        ("gone.csv", None, "gone.csv': there is no such file"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(tmp_path, name, text, said):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(FedlearnError) as error:
        parts(tmp_path / name)
    assert error.value.exit_code == 2
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_function_says_the_node_of_each_example(plugin):
    found = parts(plugin(lambda dataset, clients, seed: np.arange(len(dataset.train)) % clients))
    assert [sorted(mine) for mine in found] == [list(range(i, 100, 5)) for i in range(5)]


def test_a_function_says_the_rows_of_each_node_and_has_options(plugin):
    def head(dataset, clients, seed, *, size: int = 2):
        return [range(i * size, (i + 1) * size) for i in range(clients)]

    found = parts(plugin(head), options={"size": 3})
    assert [sorted(mine) for mine in found] == [[3 * i, 3 * i + 1, 3 * i + 2] for i in range(5)]
    with pytest.raises(SettingError, match=r"data\.partition_options\.sise = 3: .* did you mean size\?"):
        parts(plugin(head), options={"sise": 3})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.zeros(99, int), "it must give the client of each of the 100 examples"),
        (np.full(100, 5), "it gave client 5: with clients = 5 clients are 0 to 4"),
        (np.zeros(100), "it must give the client of each of the 100 examples, and gave float64"),
        ([[0], [1]], "or the rows of each of the 5 clients"),
        ([[0], [1], [0], [], []], "it gave example 0 to two clients"),
        ([[0], [1], [100], [], []], "it gave example 100: examples are 0 to 99"),
        ("rows", "or the rows of each of the 5 clients"),
    ],
)
def test_what_is_no_partition_is_refused(plugin, given, said):
    with pytest.raises(SettingError) as error:
        parts(plugin(lambda *_: given))
    assert said in str(error.value)


OPTIONS = {
    "size": {"partition_sizes": [10, 20, 30, 15, 25]},
    "distribution": {
        "distribution_array": [[1.0, 2.0]] * 4, "num_partitions": 8, "num_unique_labels_per_partition": 1,
        "preassigned_num_samples_per_label": 1,
    },
    "continuous": {"strictness": 0.5, "partition_by": "target"},
    "inner-dirichlet": {"partition_sizes": [20] * 5, "alpha": 0.5},
    "grouped-natural-id": {"group_size": 2},
    "id-to-size": {"partition_id_to_size_fn": "numpy:sqrt"},
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in PARTITIONS if name not in SCHEMES])
def test_every_partitioner_of_flower_spreads_whole_examples(name):
    options = dict(OPTIONS.get(name, {}))
    clients = options.pop("num_partitions", 5)
    found = parts(name, clients, options=options)
    rows = np.concatenate(found)
    assert len(np.unique(rows)) == len(rows) > 90 or name == "distribution"
    assert found == parts(name, clients, options=options)


def test_all_partitioners_of_flower_have_a_name_or_spread_columns():
    named = {reference.rpartition(":")[2] for reference in PARTITIONS.values()}
    ours = {
        "IidPartitioner",
        "DirichletPartitioner",
        "PathologicalPartitioner",
        "ShardPartitioner",
        "NaturalIdPartitioner",
    }
    columns = {"VerticalEvenPartitioner", "VerticalSizePartitioner"}
    assert set(flwr_datasets.partitioner.__all__) - {"Partitioner"} <= named | ours | columns


def test_sizes_are_those_asked_for():
    assert [len(mine) for mine in parts("size", options=OPTIONS["size"])] == [10, 20, 30, 15, 25]
    assert [len(mine) for mine in parts("linear", 4)] == [10, 20, 30, 40]


def test_equal_sizes_leave_room_for_skew():
    sizes = {len(mine) for mine in parts("equal-dirichlet", options={"alpha": 0.1})}
    assert sizes == {20}
    assert {len(mine) for mine in parts("equal-dirichlet", options={"size": 7})} == {7}
    labels = DATA.train.labels
    skewed, even = (
        np.mean([np.bincount(labels[mine]).max() for mine in parts("equal-dirichlet", options={"alpha": alpha})])
        for alpha in (0.01, 1e6)
    )
    assert skewed > even + 4
    with pytest.raises(SettingError, match="at most 20 with 5 clients and 100 training examples"):
        parts("equal-dirichlet", options={"size": 21})


def test_groups_are_kept_together():
    found = parts("grouped-natural-id", options={"group_size": 2})
    groups = [set(np.array(DATA.train.groups)[mine]) for mine in found]
    assert [len(mine) for mine in groups] == [2] * 5
    assert len(set.union(*groups)) == 10


@pytest.mark.parametrize(
    ("partition", "options", "said"),
    [
        ("grouped-natural-id", {}, "data.partition_options.group_size = '': it is missing: write"),
        ("grouped-natural-id", {"group_size": 3}, "it makes 4 partitions, and clients = 5"),
        ("continuous", {"strictness": 2.0}, "`strictness` must be between 0 and 1"),
        ("linear", {"slope": 2}, "data.partition_options.slope = 2: "),
        ("iid", {"slope": 2}, "iid has none"),
        ("flwr_datasets.partitioner:VerticalEvenPartitioner", {}, "it spreads the columns of each example"),
        ("even", {}, "choose one of iid, dirichlet"),
    ],
)
def test_what_a_partitioner_refuses_is_one_line(partition, options, said):
    with pytest.raises(SettingError) as error:
        parts(partition, options=options)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_class_or_a_partitioner_from_outside_is_taken(plugin):
    class Halves(Partitioner):
        num_partitions = 2

        def load_partition(self, partition_id):
            return self.dataset.shard(2, partition_id)

    assert sorted(np.concatenate(parts(plugin(Halves), 2))) == list(range(100))
    assert len(parts(plugin(SizePartitioner([4, 6])), 2)[1]) == 6


def test_labels_of_sequences_cannot_be_skewed():
    texts = from_arrays(np.zeros((20, 3), int), np.zeros((20, 3), int), vocabulary=9, groups=np.arange(20) % 5)
    assert len(parts("natural", dataset=texts)) == len(parts("iid", dataset=texts)) == 5
    with pytest.raises(SettingError, match="an example of 'arrays' has several: take iid or natural"):
        parts("dirichlet", dataset=texts)


def test_of_a_partition_file_no_more_is_read_than_any_has(tmp_path, monkeypatch):
    monkeypatch.setattr("fedlearn.data.partition_map.MOST_BYTES", 100)
    (tmp_path / "who.csv").write_text("node\n" + "0\n" * 100)
    with pytest.raises(FedlearnError, match="it is larger than 100 bytes"):
        parts(tmp_path / "who.csv", clients=3)
