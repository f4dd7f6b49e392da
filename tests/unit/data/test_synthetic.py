"""Examples that are stored nowhere."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.config.tables.data import DataSettings
from fedlearn.core.errors import SettingError
from fedlearn.data import load_dataset, partition_table
from fedlearn.data import synthetic as made
from fedlearn.models import load_model

KINDS = ["images", "rows", "tokens"]


def load(**options):
    return load_dataset("synthetic", "", offline=True, options=json.dumps(options))


def forget():
    made._dataset.cache_clear()
    made.examples_of.cache_clear()


@given(kind=st.sampled_from(KINDS), rows=st.lists(st.integers(0, 20_000_000 - 1), max_size=8))
def test_an_example_is_the_same_in_whatever_order_it_is_asked_for(kind, rows):
    train = load(kind=kind, size=5).train
    one_by_one = [train.at(np.array([row])) for row in rows]
    forget()
    together = load(kind=kind, size=5).train.at(np.array(rows, np.int64))
    assert [x.tobytes() for x in together.inputs] == [each.inputs[0].tobytes() for each in one_by_one]
    assert [y.tobytes() for y in together.targets] == [each.targets[0].tobytes() for each in one_by_one]


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_same_after_everything_was_forgotten(kind):
    first = load(kind=kind)
    forget()
    again = load(kind=kind)
    assert again is not first and again.fingerprint == first.fingerprint
    assert again.test.inputs.tobytes() == first.test.inputs.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_another_seed_makes_other_examples(kind):
    first, other = load(kind=kind), load(kind=kind, seed=1)
    assert first.fingerprint != other.fingerprint
    assert (first.train.inputs[slice(0, 5)] != other.train.inputs[slice(0, 5)]).any()


def test_a_million_nodes_take_no_memory():
    dataset = load()
    settings = DataSettings(dataset="synthetic", node_test_share=0.1)
    dataset.train.at(slice(0, 1))
    tracemalloc.start()
    table = partition_table(dataset, settings, num_partitions=1_000_000, seed=1)
    last = dataset.train.at(table.indices(999_999))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(table) == 1_000_000 and len(last) == 18 and len(table.held_out(999_999)) == 2
    assert most < 3_000_000  # the node's 20 images, as they are made


def test_every_node_trains_on_as_many():
    table = partition_table(load(), DataSettings(node_test_share=0.1), num_partitions=7, seed=1)
    assert table.sizes().tolist() == [len(table.indices(i)) for i in range(7)] == [18] * 7


def test_alpha_skews_the_classes_of_a_node():
    def largest(**options):
        targets = load(size=4, examples=100, **options).train.targets
        return np.mean([np.bincount(targets[slice(i * 100, i * 100 + 100)]).max() for i in range(30)])

    assert largest() < 25
    assert largest(alpha=1e6) < 25
    assert largest(alpha=0.1) > 50
    assert largest(alpha=0.001) > 95


def test_there_is_something_to_learn():
    from sklearn.linear_model import LogisticRegression

    for options in ({"kind": "images", "size": 8}, {"kind": "rows"}):
        dataset = load(**options)
        few = dataset.train.at(slice(0, 400))
        flat = few.inputs.reshape(400, -1).astype(np.float64)
        fitted = LogisticRegression(max_iter=300).fit(flat / np.abs(flat).max(), few.targets)
        test = dataset.test.inputs.reshape(1000, -1).astype(np.float64)
        assert fitted.score(test / np.abs(flat).max(), dataset.test.targets) > 0.8
    tokens = load(kind="tokens").test
    pairs = np.zeros((50, 50))
    np.add.at(pairs, (tokens.inputs, tokens.targets), 1)
    assert (pairs.max(axis=1) / pairs.sum(axis=1)).min() > 0.35


@pytest.mark.parametrize(
    ("kind", "model"), [("images", "cnn"), ("rows", "mlp"), ("rows", "dp-naive-bayes"), ("tokens", "lstm")]
)
def test_models_of_the_table_take_it(kind, model):
    spec = load(kind=kind).spec
    assert load_model(model, spec).initial_state(seed=1) is not None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "sounds"}, "data.options.kind"),
        ({"examples": 0}, "data.options.examples"),
        ({"examples": 10**9}, "data.options.examples"),
        ({"size": 65}, "at most 64 pixels"),
        ({"size": -1}, "data.options.size"),
        ({"classes": 1}, "need at least 2"),
        ({"classes": 0}, "need at least 2"),
        ({"kind": "rows", "classes": 1}, "or 0"),
        ({"alpha": 0.0}, "data.options.alpha"),
        ({"noise": -1}, "data.options.noise"),
        ({"seeds": 3}, "did you mean seed"),
        ({"data_dir": "x"}, "data.options.data_dir"),
    ],
)
def test_what_cannot_be_made_is_said_in_one_line(options, said):
    with pytest.raises(SettingError, match=said):
        load(**options)


def test_what_only_stored_examples_can_be_asked_is_refused():
    train = load().train
    with pytest.raises(TypeError, match="take some of them"):
        np.asarray(train.inputs)
    with pytest.raises(IndexError, match="there are 200000000"):
        train.at(np.array([200_000_000]))
    with pytest.raises(IndexError):
        train.at(np.array([-1]))
    with pytest.raises(SettingError, match="client by client"):
        partition_table(load(), DataSettings(partition="dirichlet"), num_partitions=3, seed=1)
    with pytest.raises(SettingError, match="from 1 to 10000000"):
        partition_table(load(), DataSettings(), num_partitions=10_000_001, seed=1)
