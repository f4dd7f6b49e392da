from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from fedlearn.core.metric import Metric
from fedlearn.report.paired import ERROR, differences, holm

UP = Metric("accuracy", better="up")


def scores_of(table):
    return [dict(enumerate(row)) for row in np.asarray(table).tolist()]


def test_difference_is_that_of_scipys_paired_test_at_holms_level():
    rng = np.random.default_rng(3)
    table = rng.normal([[0.9], [0.5], [0.45], [0.88]], 0.05, (4, 6))
    found = differences(scores_of(table), UP, 0)
    pairs = list(combinations(range(4), 2))
    tests = [stats.ttest_rel(table[a], table[b]) for a, b in pairs]
    order = np.argsort([test.pvalue for test in tests])
    rejected, is_open = set(), True
    for rank, place in enumerate(order):
        is_open = is_open and tests[place].pvalue <= ERROR / (len(pairs) - rank)
        rejected |= {pairs[place]} if is_open else set()
    assert found[0] is None
    for other in (1, 2, 3):
        each, test = found[other], tests[pairs.index((0, other))]
        assert each.mean == pytest.approx((table[0] - table[other]).mean())
        assert ((each.low > 0 or each.high < 0), each.p <= ERROR) == ((0, other) in rejected,) * 2
        levels, _ = holm(np.array([t.pvalue for t in tests]))
        low, high = test.confidence_interval(1 - levels[pairs.index((0, other))])
        assert (each.low, each.high) == (pytest.approx(low), pytest.approx(high))


def test_family_of_forty_equal_points_is_wrong_in_one_of_twenty_tables_at_most():
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(200):
        table = rng.normal(0.5, 0.02, (12, 4))
        best = int(table.mean(axis=1).argmax())
        wrong += any(each and each.low > 0 for each in differences(scores_of(table), UP, best))
    assert wrong <= 20  # of 200, at 5 %: 10 are expected at most


def test_only_common_seeds_are_compared_and_the_smaller_loss_is_better():
    scores = [{1: 0.2, 2: 0.3, 3: 0.2}, {1: 0.5, 2: 0.7}, {4: 1.0}]
    found = differences(scores, Metric("loss", better="down"), 0)
    assert (found[1].seeds, found[1].mean) == (2, pytest.approx(0.35))
    assert found[2] is None


def test_equal_runs_are_not_told_apart_and_constant_differences_are():
    same, apart = differences(scores_of([[0.5] * 3, [0.5] * 3, [0.25] * 3]), UP, 0)[1:]
    assert (same.mean, same.p) == (0.0, 1.0)
    assert (apart.low, apart.high, apart.p) == (0.25, 0.25, 0.0)
