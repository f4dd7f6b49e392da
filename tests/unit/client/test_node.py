"""What a node holds."""

from __future__ import annotations

import numpy as np
from flwr.app import Context, RecordDict

from client import node
from fedlearn.config import config_from, to_flower

FLAT = {"clients": 4, "data.dataset": "digits", "out": "/runs/first"}


def context(*, run: int = 1, settings: dict[str, object] | None = None, **node_config: str | bool) -> Context:
    node = {"partition-id": 3, "num-partitions": 4, **node_config}
    return Context(run, 7, node, RecordDict(), to_flower(config_from(FLAT | (settings or {}))))


def test_a_node_with_its_own_data_holds_all_of_it():
    share, own = node.examples_of(context()), node.examples_of(context(**{"own-data": True}))
    assert len(share) < len(own)
    assert np.array_equal(own, np.arange(len(own)))


def test_a_node_with_its_own_data_holds_some_of_it_out():
    own = context(settings={"data.node_test_share": 0.25}, **{"own-data": True})
    trained_on, measured_on = node.examples_of(own), node.examples_to_test(own)
    assert (len(trained_on), len(measured_on)) == (1082, 360)
    assert len(np.unique(trained_on)) == len(trained_on)
    assert np.bincount(measured_on.targets, minlength=10).min() > 0  # of all classes: it is not the end of the file
