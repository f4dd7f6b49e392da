"""The labels of each node are computed as the run did it, from local data, and run no foreign code."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from fedlearn.config import config_from
from fedlearn.data import load_dataset, partition_table
from fedlearn.report.charts.skew import MOST_NODES, skew_of


def test_the_picture_counts_what_the_run_dealt_out():
    settings = {"data.dataset": "digits", "data.partition": "shard", "clients": 7, "seed": 3}
    picture = skew_of({**settings, "data.notice": "", "training.lr": 0.3})
    config, dataset = config_from(settings), load_dataset("digits", "")
    table = partition_table(dataset, config.data, num_partitions=7, seed=3)
    assert picture.counts.shape == (10, 7)
    for node in range(7):
        labels = dataset.train.labels[table.indices(node)]
        assert picture.counts[:, node].tolist() == [int((labels == label).sum()) for label in range(10)]


def test_a_run_of_an_older_version_has_its_picture_too():
    assert skew_of({"data.dataset": "digits", "clients": 3, "strategy.trim": 0.1}).counts.shape == (10, 3)


def test_of_many_nodes_the_first_are_drawn():
    picture = skew_of({"data.dataset": "digits", "clients": 150})
    assert picture.counts.shape == (10, MOST_NODES) and picture.x_title == "first 100 of 150 nodes"


def test_a_regression_is_shown_by_tenths_of_its_target():
    picture = skew_of({"data.dataset": "diabetes", "model.name": "dp-forest", "clients": 4})
    assert picture.y_title == "tenth of the target"
    assert np.ptp(picture.counts.sum(axis=1)) < 12


@pytest.mark.parametrize("name", ["os:system", "no_such_module:data"])
def test_no_code_that_a_run_folder_names_is_run(name, monkeypatch):
    monkeypatch.setattr("os.system", lambda command: pytest.fail("it was run"))
    assert "runs no code" in skew_of({"data.dataset": name, "data.dir": "touch stolen"})
    assert "no_such_module" not in sys.modules


def test_nothing_is_downloaded(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDLEARN_DATA", str(tmp_path))
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: pytest.fail("it asked the network"))
    said = skew_of({"data.dataset": "cifar10", "clients": 11})
    assert "CIFAR-10 was not found" in said and "not tried: only a run may download" in said


@pytest.mark.parametrize("settings", [{"data.dataset": "digits", "clients": 0}, {"no.such": 1}])
def test_settings_that_cannot_be_read_are_a_word(settings):
    assert "cannot be read" in skew_of(settings)


@pytest.mark.parametrize("partition", ["os:getcwd", "id-to-size"])
def test_a_partition_that_may_be_code_is_not_run(partition, monkeypatch):
    monkeypatch.setattr("os.getcwd", lambda *_: pytest.fail("it was run"))
    options = {"data.partition_options": {"partition_id_to_size_fn": "os:getcwd"}}
    assert "runs no code" in skew_of({"data.dataset": "digits", "data.partition": partition, "clients": 3, **options})


def test_texts_by_author_are_counted_without_labels():
    picture = skew_of({"data.dataset": "topics", "data.partition": "natural", "clients": 100})
    assert picture.counts.shape == (1, 100)
    assert picture.title.startswith("example by node: topics, natural")
    assert picture.counts.min() >= 4


def test_a_file_that_says_who_has_what_is_drawn(tmp_path):
    (tmp_path / "who.csv").write_text("node\n" + "0\n" * 100 + "1\n" * 20)
    picture = skew_of({"data.dataset": "digits", "data.partition": str(tmp_path / "who.csv"), "clients": 2})
    assert picture.counts.sum(axis=0).tolist() == [100, 20]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.mkdir()])
@pytest.mark.parametrize("name", ["d.toml", "d.csv", "d.json", "d.parquet"])
def test_a_data_set_that_is_no_regular_file_is_a_word_at_once(tmp_path, name, make):
    make(tmp_path / name)
    assert isinstance(skew_of({"data.dataset": str(tmp_path / name), "clients": 3}), str)


def test_of_a_partition_file_no_more_is_read_than_any_has(tmp_path, monkeypatch):
    monkeypatch.setattr("fedlearn.data.partition_map.MOST_BYTES", 100)
    (tmp_path / "who.csv").write_text("node\n" + "0\n" * 100)
    settings = {"data.dataset": "digits", "data.partition": str(tmp_path / "who.csv"), "clients": 3}
    assert "it is larger than 100 bytes" in skew_of(settings)


def test_texts_that_are_nested_without_end_are_a_word(tmp_path):
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    (tmp_path / "deep.json").write_text("[" * 100_000)
    assert "not valid TOML" in skew_of({"data.dataset": str(tmp_path / "deep.toml"), "clients": 3})
    settings = {"data.dataset": "digits", "data.partition": str(tmp_path / "deep.json"), "clients": 3}
    assert "cannot be read" in skew_of(settings)


def test_a_folder_is_walked_only_so_far(tmp_path, monkeypatch):
    monkeypatch.setattr("fedlearn.report.charts.skew.MOST_ENTRIES", 5)
    for name in "abcdefg":
        (tmp_path / name).mkdir()
    assert "is not one of ours" in skew_of({"data.dataset": str(tmp_path), "clients": 3})


def test_a_name_that_no_file_can_have_is_a_word():
    assert isinstance(skew_of({"data.dataset": "/" + "x" * 5000 + ".csv", "clients": 3}), str)
