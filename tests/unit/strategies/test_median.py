from __future__ import annotations

import numpy as np
import pytest

from fedlearn.core.state import Entries, layout_of
from strategies.collected import Collected
from strategies.median import Median, TrimmedMean
from strategies.robust.geometry import COLUMNS
from tests.oracles.cohorts import after as next_of


def reports_of(state, rows):
    reports = Collected.empty(layout_of(state))
    for row in rows:
        reports.add([(1, {"w": Entries(np.asarray(row, np.float32))})])
    return reports


def test_one_hostile_node_of_five_cannot_move_the_median_beyond_the_honest():
    state = {"w": np.zeros(3, np.float32)}
    rows = [[1, 1, 1], [2, 2, 2], [3, 3, 3], [4, 4, 4], [3e38, -3e38, 3e38]]
    after = next_of(Median(), state, reports_of(state, rows))
    assert after["w"].tolist() == [3, 2, 3]


@pytest.mark.parametrize(("trim", "expected"), [(0.0, 5.5), (0.1, 5.5), (0.4, 5.5), (0.49, 5.5)])
def test_trimming_is_symmetric(trim, expected):
    state = {"w": np.zeros(1, np.float32)}
    rows = [[n] for n in range(1, 11)]
    after = next_of(TrimmedMean(trim=trim), state, reports_of(state, rows))
    assert after["w"].tolist() == [expected]


def test_trimmed_mean_cuts_the_share_at_each_end():
    state = {"w": np.zeros(1, np.float32)}
    rows = [[n] for n in (1000, 2, 3, 4, -1000)]
    after = next_of(TrimmedMean(trim=0.2), state, reports_of(state, rows))
    assert after["w"].tolist() == [3]


def test_columns_are_seamless():
    rng = np.random.default_rng(1)
    state = {"w": np.zeros(COLUMNS + 5, np.float32)}
    rows = rng.normal(size=(3, COLUMNS + 5)).astype(np.float32)
    after = next_of(Median(), state, reports_of(state, rows))
    np.testing.assert_array_equal(after["w"], np.median(rows, axis=0))
