"""What a node on a network keeps and holds."""

from __future__ import annotations

import numpy as np
from flwr.app import Context, RecordDict

from client.node import examples_of, keep_memory, memory_of
from fedlearn.config import config_from, to_flower

FLAT = {"clients": 4, "data.dataset": "digits", "out": "/runs/first"}


def context(*, run: int = 1, settings: dict[str, object] | None = None, **node_config: str | bool) -> Context:
    node = {"partition-id": 3, "num-partitions": 4, **node_config}
    return Context(run, 7, node, RecordDict(), to_flower(config_from(FLAT | (settings or {}))))


def test_memory_outlasts_the_node_and_the_run_of_flower(tmp_path):
    keep_memory(context(run=1, memory=str(tmp_path)), {"spent": "0.5"})
    assert memory_of(context(run=2, memory=str(tmp_path))) == {"spent": "0.5"}


def test_another_run_folder_is_another_memory(tmp_path):
    keep_memory(context(memory=str(tmp_path)), {"spent": "0.5"})
    assert memory_of(context(memory=str(tmp_path), settings={"out": "/runs/second"})) == {}


def test_without_a_folder_the_memory_is_flowers():
    here = context()
    keep_memory(here, {"spent": "0.5"})
    assert memory_of(here) == {"spent": "0.5"}
    assert memory_of(context()) == {}


def test_a_node_with_its_own_data_holds_all_of_it():
    share, own = examples_of(context()), examples_of(context(**{"own-data": True}))
    assert len(share) < len(own)
    assert np.array_equal(own, np.arange(len(own)))
