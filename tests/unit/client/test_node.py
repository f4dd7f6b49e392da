"""What a node holds."""

from __future__ import annotations

import numpy as np
from flwr.app import Context, RecordDict

from client.node import examples_of
from fedlearn.config import config_from, to_flower

FLAT = {"clients": 4, "data.dataset": "digits", "out": "/runs/first"}


def context(*, run: int = 1, settings: dict[str, object] | None = None, **node_config: str | bool) -> Context:
    node = {"partition-id": 3, "num-partitions": 4, **node_config}
    return Context(run, 7, node, RecordDict(), to_flower(config_from(FLAT | (settings or {}))))


def test_a_node_with_its_own_data_holds_all_of_it():
    share, own = examples_of(context()), examples_of(context(**{"own-data": True}))
    assert len(share) < len(own)
    assert np.array_equal(own, np.arange(len(own)))
