"""Whole numbers of a state under every strategy: what all nodes send unchanged stays what it is."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.config.tables.reports import StrategySettings
from fedlearn.core.state import Sends, dense_update, difference, layout_of
from fedlearn.plugins.registry import load_reference
from strategies import load_strategy
from strategies.whole_numbers import as_before
from tests.oracles.cohorts import after
from tests.unit.strategies.test_plain_flower import MODULE, configured

STATE = {
    "position_ids": np.arange(1, 9),
    "table": np.arange(250, 256, dtype=np.uint8),
    "hash": np.array([2**61 - 1, -(2**61) + 1, 2**53 + 1, 2**63 - 1]),
    "kept": np.array([True, False]),
    "weight": np.ones(3, np.float32),
}
OURS = ["fedavg", "fedavgm", "fedadam", "median", "trimmed-mean", "krum", "multi-krum", "geometric-median", "bulyan"]
FLOWERS = [f"{MODULE}:{name}" for name in ("FedAvg", "FedAvgM", "FedAdam", "FedYogi", "FedMedian", "FedTrimmedAvg")]


@pytest.mark.parametrize("sends", Sends)
@pytest.mark.parametrize("name", OURS + FLOWERS)
def test_whole_numbers_that_no_node_changes_stay_to_the_bit(name, sends):
    strategy, state = load_strategy(StrategySettings(name=name)), STATE
    for round_number in (1, 2, 3):
        if name in FLOWERS:
            configured(strategy, state, round_number, nodes=7)
        sent = {name: difference(a, a) for name, a in state.items()} if sends is Sends.UPDATE else state
        reports = load_reference(strategy.accumulator).empty(layout_of(STATE))
        reports.add([(3, dense_update(sent)) for _ in range(7)])
        state = after(strategy, state, reports, sends=sends, round_number=round_number)
    assert layout_of(state) == layout_of(STATE)
    assert {n: a.tolist() for n, a in state.items()} == {n: a.tolist() for n, a in STATE.items()}


def test_a_value_between_whole_numbers_is_rounded_and_never_leaves_the_range():
    before = np.array([1, 2**61 - 1, 250, 0], np.int64)
    values = np.array([1.6, 2.0**61 + 2.0**20, 1e30, -0.4])
    assert as_before(values, before).tolist() == [2, 2**61 + 2**20, 2**63 - 1, 0]
    assert as_before(np.array([-3.0, 259.0]), np.array([1, 2], np.uint8)).tolist() == [0, 255]
