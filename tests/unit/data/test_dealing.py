"""The counts of who has which data are those of the partitions, numbers alone."""

from __future__ import annotations

import json

import numpy as np
import pytest

from client.app import trial
from fedlearn.config import config_from, to_flower
from fedlearn.config.tables.data import DataSettings
from fedlearn.data import dealing, from_arrays, load_dataset, partition_table
from fedlearn.data.data_spec import Examples
from fedlearn.data.dataset import Dataset
from fedlearn.data.dealing import dealt_to
from fedlearn.data.rows_of_nodes import PartitionTable


def table_of(dataset, nodes, **settings):
    return partition_table(dataset, DataSettings(**settings), num_partitions=nodes, seed=3)


def test_the_counts_are_what_each_node_trains_on():
    dataset = load_dataset("digits", "")
    table = table_of(dataset, 7, partition="shard", node_test_share=0.2)
    dealt = dealt_to(dataset, table)
    assert (dealt.nodes, dealt.what, len(dealt.counts)) == (7, "label", 10)
    for node in range(7):
        labels = dataset.train.labels[table.indices(node)]
        assert [row[node] for row in dealt.counts] == np.bincount(labels, minlength=10).tolist()


def test_data_of_the_users_own_are_counted_like_ours():
    rng = np.random.default_rng(0)
    named = from_arrays(rng.normal(size=(40, 3)).astype(np.float32), np.array(["a", "b"] * 20))
    numbers = from_arrays(rng.normal(size=(40, 3)).astype(np.float32), rng.normal(size=40))
    several = from_arrays(rng.normal(size=(40, 3)).astype(np.float32), rng.integers(0, 2, (40, 5)).astype(np.float32))
    found = [dealt_to(each, table_of(each, 4)) for each in (named, numbers, several)]
    assert [dealt.what for dealt in found] == ["class", "tenth of the target", "example"]
    assert [len(dealt.counts) for dealt in found] == [2, 10, 1]
    for each, dealt in zip((named, numbers, several), found, strict=True):
        assert np.sum(dealt.counts) == len(each.train)


@pytest.mark.parametrize("odd", [-100, 10**9])
def test_labels_that_no_picture_has_room_for_are_counted_as_examples(odd):
    examples = Examples(np.zeros((6, 2), np.float32), np.array([0, 1, odd, 1, 0, 1]))
    dealt = dealt_to(
        Dataset("odd", examples, examples, 2, (), (), "1"), PartitionTable(np.arange(6), np.array([0, 4, 6]))
    )
    assert (dealt.what, dealt.counts) == ("example", ((4, 2),))


def test_of_many_nodes_or_labels_the_first_are_counted(monkeypatch):
    dataset = load_dataset("digits", "")
    monkeypatch.setattr(dealing, "MOST_CELLS", 50)
    assert np.shape(dealt_to(dataset, table_of(dataset, 30)).counts) == (10, 5)


def test_of_examples_that_are_made_only_those_of_the_first_nodes_are_made():
    def dealt(**options):
        dataset = load_dataset("synthetic", "", options=json.dumps(options))
        return dealt_to(dataset, table_of(dataset, 1_000_000))

    few = dealt(size=4)
    assert few.nodes == 1_000_000 and np.shape(few.counts)[1] == 100 and np.sum(few.counts) == 100 * 20
    assert dealt(size=64, examples=2000) is None


@pytest.mark.parametrize(("model", "is_told"), [("linear", True), ("dp-forest", False)])
def test_nodes_of_a_private_model_tell_no_counts(model, is_told):
    dataset = "digits" if model == "linear" else "diabetes"
    settings = {"model.name": model, "data.dataset": dataset, "clients": 4, "privacy.noise": "seeded"}
    strategy = {} if model == "linear" else {"strategy.name": "forest_union"}
    config = config_from(settings | strategy)
    assert (trial(to_flower(config), {}).dealt is not None) is is_told
