from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.config.tables.data import DataSettings
from fedlearn.core.errors import SettingError
from fedlearn.data import Dataset, Examples, PartitionTable, by_label, partition_table, rows_of_nodes

SCHEMES = ["iid", "dirichlet", "pathological", "shard"]
COMPLETE = ["iid", "dirichlet"]


def dataset_of(labels) -> Dataset:
    labels = np.asarray(labels, dtype=np.int64)
    examples = Examples(np.zeros((len(labels), 1, 1, 1), np.uint8), labels)
    return Dataset("made", examples, examples, 10, (0.0,), (1.0,), fingerprint="")


LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 103))  # 1030 examples
MADE = dataset_of(LABELS)


def table(scheme="iid", nodes=10, seed=1, dataset=MADE, **settings) -> PartitionTable:
    return partition_table(dataset, DataSettings(partition=scheme, **settings), num_partitions=nodes, seed=seed)


def parts(of: PartitionTable) -> list[list[int]]:
    return [of.indices(i).tolist() for i in range(len(of))]


@pytest.mark.parametrize("nodes", [1, 2, 7, 100, 250])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_partitions_are_disjoint(scheme, nodes):
    found = table(scheme, nodes)
    assert len(found) == nodes
    rows = [row for part in parts(found) for row in part]
    assert len(rows) == len(set(rows)) == len(found.rows)
    assert set(rows) <= set(range(len(LABELS)))
    if scheme in COMPLETE:
        assert len(rows) == len(LABELS)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_same_seed_same_table_and_another_seed_another(scheme, monkeypatch, tmp_path):
    first = table(scheme, seed=1)
    monkeypatch.setenv("FEDLEARN_CACHE", str(tmp_path / "another"))
    assert parts(table(scheme, seed=1)) == parts(first)
    assert parts(table(scheme, seed=2)) != parts(first)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_table_is_computed_once(scheme, monkeypatch):
    first = table(scheme)
    monkeypatch.setattr(by_label, "_computed", None)
    again = table(scheme)
    assert parts(again) == parts(first)
    assert not again.rows.flags.writeable


@pytest.mark.parametrize(
    ("scheme", "one", "other"),
    [
        ("dirichlet", {"alpha": 0.5}, {"alpha": 0.6}),
        ("pathological", {"classes_per_node": 2}, {"classes_per_node": 3}),
        ("shard", {"shards_per_node": 2}, {"shards_per_node": 3}),
        ("iid", {"nodes": 10}, {"nodes": 11}),
        ("iid", {"dataset": MADE}, {"dataset": dataset_of(LABELS[:500])}),
    ],
)
def test_what_a_table_depends_on_is_in_its_key(scheme, one, other):
    assert parts(table(scheme, **one)) != parts(table(scheme, **other))


def test_settings_of_other_schemes_change_nothing(monkeypatch):
    first = table("iid", alpha=0.5)
    monkeypatch.setattr(by_label, "_computed", None)
    assert parts(table("iid", alpha=0.9, classes_per_node=5, augment=True)) == parts(first)


@pytest.mark.parametrize("nodes", [1, 3, 10, 999, 1030])
def test_iid_sizes_differ_by_at_most_one(nodes):
    sizes = np.diff(table("iid", nodes).offsets)
    assert sizes.max() - sizes.min() <= 1
    assert sizes.min() >= 1


def test_iid_shares_are_random():
    first = table("iid", 2).indices(0)
    assert 400 < (first < 515).sum() * 2 < 630  # not simply the first half
    counts = np.bincount(LABELS[first], minlength=10)
    assert counts.min() > 25


def test_small_alpha_is_skewed_and_large_alpha_even():
    def largest_class_share(alpha):
        rows = [r for r in parts(table("dirichlet", 10, alpha=alpha)) if r]
        return np.mean([np.bincount(LABELS[r]).max() / len(r) for r in rows])

    assert largest_class_share(0.01) > 0.7
    assert largest_class_share(1000.0) < 0.2


def test_dirichlet_may_leave_a_partition_empty_but_never_an_example_out():
    found = table("dirichlet", 500, alpha=0.05)
    sizes = np.diff(found.offsets)
    assert sizes.min() == 0
    assert sizes.sum() == len(LABELS)
    empty = found.indices(int(sizes.argmin()))
    assert empty.shape == (0,)
    assert empty.dtype == np.int32


@pytest.mark.parametrize("classes", [1, 2, 10])
def test_pathological_node_has_exactly_its_number_of_classes(classes):
    for rows in parts(table("pathological", 20, classes_per_node=classes)):
        assert len(set(LABELS[rows])) == classes


def test_pathological_with_nodes_for_every_class_leaves_nothing_out():
    assert len(table("pathological", 20).rows) == len(LABELS)


def test_shard_partitions_have_equal_sizes_and_few_classes():
    found = table("shard", 50, shards_per_node=2)  # 100 shards of 10
    assert set(np.diff(found.offsets)) == {20}
    for rows in parts(found):
        assert len(set(LABELS[rows])) <= 4  # a shard may lie across a class boundary


def test_rows_name_examples_of_the_training_set_and_not_of_the_sorted_one():
    labels = np.repeat(np.arange(10), 10)[::-1]
    rows = parts(table("shard", 10, dataset=dataset_of(labels), shards_per_node=1))
    for part in rows:
        assert len(set(labels[part])) == 1


def test_natural_partitions_are_the_groups_of_the_data():
    labels = np.arange(10) % 2
    groups = np.array([2, 0, 1, 2, 0, 2, 1, 1, 2, 0])
    examples = Examples(np.zeros((10, 1, 1, 1), np.uint8), labels, groups)
    dataset = Dataset("made", examples, examples, 2, (0.0,), (1.0,), fingerprint="")
    found = partition_table(dataset, DataSettings(partition="natural"), num_partitions=2, seed=1)
    assert [sorted(found.indices(i).tolist()) for i in range(2)] == [[1, 4, 9], [2, 6, 7]]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_as_many_nodes_as_examples(scheme):
    found = table(scheme, len(LABELS), classes_per_node=1, shards_per_node=1)
    assert len(found) == len(LABELS)
    if scheme != "dirichlet":
        assert set(np.diff(found.offsets)) == {1}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("nodes", [0, 1031, 60_000])
def test_more_nodes_than_examples_is_an_error_of_clients(scheme, nodes):
    with pytest.raises(SettingError, match=f"^clients = {nodes}: from 1 to 1030"):
        table(scheme, nodes)


@pytest.mark.parametrize(
    ("scheme", "nodes", "settings", "says"),
    [
        (
            "pathological",
            5,
            {"classes_per_node": 11},
            r"^data\.classes_per_node = 11: .*10 classes",
        ),
        ("pathological", 600, {"classes_per_node": 2}, r"^data\.classes_per_node = 2: at most 1"),
        ("pathological", 510, {"classes_per_node": 2}, r"^data\.classes_per_node = 2: some class"),
        ("shard", 600, {"shards_per_node": 2}, r"^data\.shards_per_node = 2: at most 1"),
        ("dirichlet", 5, {"alpha": 1e300}, r"^data\.alpha = 1e\+300: at most"),
    ],
)
def test_impossible_settings_are_named(cache, scheme, nodes, settings, says):
    with pytest.raises(SettingError, match=says):
        table(scheme, nodes, **settings)
    assert not cache.exists() or list(cache.iterdir()) == []


@pytest.mark.parametrize("partition_id", [-1, 10])
def test_partition_that_is_not_there_is_an_error(partition_id):
    with pytest.raises(IndexError, match=f"partition {partition_id}: there are 10"):
        table(nodes=10).indices(partition_id)


def test_examples_given_twice_are_a_bug():
    with pytest.raises(RuntimeError, match="two clients"):
        by_label.joined([np.array([1], np.int32), np.array([1, 0], np.int32)], examples=2)


def test_known_tables_stay_as_they_are():
    """A new version that deals out differently changes every run: it must not go unnoticed."""
    assert table("iid", 100).indices(3).tolist()[:4] == [1009, 351, 1022, 704]


def test_stored_table_needs_no_hugging_face():
    table()
    program = (
        "import sys, numpy as np\n"
        "from fedlearn.config.tables.data import DataSettings\n"
        "from fedlearn.data import Dataset, Examples, partition_table\n"
        "labels = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 103))\n"
        "examples = Examples(np.zeros((1030, 1, 1, 1), np.uint8), labels)\n"
        "made = Dataset('made', examples, examples, 10, (0.0,), (1.0,), '')\n"
        "partition_table(made, DataSettings(), num_partitions=10, seed=1)\n"
        "print({'datasets', 'flwr_datasets', 'flwr'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.filterwarnings("ignore::FutureWarning:pyarrow")  # of the real Dataset.sort
def test_equals_flowers_partitioners_on_a_plain_hugging_face_dataset():
    """The lean column gives the same rows as a real data set, asked the slow way."""
    from datasets import Dataset as HubDataset

    from fedlearn.core.seeding import rng_for, seed_for
    from fedlearn.data import flower_partitioners

    order = rng_for(1, purpose="partition").permutation(len(LABELS))
    plain = HubDataset.from_dict({"label": LABELS[order], "row": order})
    for scheme in SCHEMES[1:]:
        seed = seed_for(1, purpose=f"partition/{scheme}")
        partitioner = flower_partitioners._partitioner(DataSettings(partition=scheme), 10, seed)
        partitioner.dataset = plain
        slow = [list(partitioner.load_partition(i)["row"]) for i in range(10)]
        assert parts(table(scheme, 10)) == slow, scheme


@pytest.mark.parametrize("scheme", SCHEMES)
def test_held_out_rows_are_those_that_a_node_would_have_trained_on(scheme):
    whole, shared = table(scheme, 30), table(scheme, 30, node_test_share=0.2)
    for i in range(30):
        kept, held = shared.indices(i), shared.held_out(i)
        assert np.concatenate([kept, held]).tolist() == whole.indices(i).tolist()
        assert len(held) == rows_of_nodes.held_out(len(whole.indices(i)), 0.2)
        assert len(whole.held_out(i)) == 0


@given(count=st.integers(0, 10_000), share=st.floats(0, 1, exclude_max=True))
def test_a_node_always_keeps_something_to_train_on(count, share):
    held = rows_of_nodes.held_out(count, share)
    assert 0 <= held <= max(count - 1, 0)
    assert (held > 0) == (share > 0 and count > 1)
    assert abs(held - share * count) <= 1


def test_a_group_is_tested_on_its_own_test_examples():
    train = Examples(np.zeros((6, 1), np.float32), np.arange(6), np.array([0, 0, 0, 1, 1, 1]))
    test = Examples(np.zeros((3, 1), np.float32), np.array([7, 8, 9]), np.array([1, 0, 1]))
    dataset = Dataset("made", train, test, 10, (), (), fingerprint="")
    natural = table("natural", 2, dataset=dataset)
    assert rows_of_nodes.measured_on(dataset, natural, 1).targets.tolist() == [7, 9]
    assert len(rows_of_nodes.measured_on(dataset, table("natural", 2, dataset=dataset, node_test_share=0.3), 1)) == 1
    assert sorted(rows_of_nodes.measured_on(dataset, table("iid", 1, dataset=dataset), 0).targets) == list(range(6))


@pytest.mark.parametrize("nodes", [1, 3, 10, 7, 1030])
def test_equal_random_shares_are_those_of_flower(nodes):
    from flwr_datasets.partitioner import IidPartitioner

    from fedlearn.core.seeding import rng_for
    from fedlearn.data.flower_partitioners import LabelColumn

    order = rng_for(5, purpose="partition").permutation(len(LABELS)).astype(np.int32)
    flower = IidPartitioner(nodes)
    flower.dataset = LabelColumn(LABELS[order], order)
    assert parts(table("iid", nodes, seed=5)) == [flower.load_partition(each).tolist() for each in range(nodes)]
