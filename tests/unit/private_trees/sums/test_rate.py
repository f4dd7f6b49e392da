"""Large budgets: steps of many classes settle, and chance has a price where noise has none."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.data.data_spec import TableSchema
from fedlearn.privacy.released import Released
from fedlearn.private_trees import DPBoostingClassifier
from fedlearn.private_trees.federated.models.table_checks import views_of
from fedlearn.private_trees.sums.boost_plan import MOST_ROUNDS, plan_for
from fedlearn.private_trees.sums.cyclic import CyclicBoosting
from fedlearn.private_trees.sums.losses import LogCosh, Logistic
from fedlearn.private_trees.sums.rounds_search import rate_for

ROUNDS = 40


def loss(rate, rounds):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (2000, 3))
    scores = np.column_stack([2 * X[:, 0], 2 - 2 * X[:, 0], 0.5 + X[:, 1]]) + rng.gumbel(size=(len(X), 3))
    y = scores.argmax(axis=1).astype(float)
    schema = TableSchema("y", {name: (0.0, 1.0) for name in "abc"}, classes=("one", "two", "three"))
    boosting, released = CyclicBoosting(views_of(schema), Logistic(3), 0, rate=rate), []
    for _ in range(rounds):
        released.append(Released(boosting.asked(released, X[:1500], y[:1500]), 1e-9))
    model = boosting.model(released)
    shares = boosting.loss.shares(model.score(boosting.views.encode(X[1500:])))
    return float(-np.log(shares[np.arange(len(shares)), y[1500:].astype(int)]).mean())


def test_rounds_without_noise_settle_by_the_rate_and_full_steps_swing():
    few, many, full = loss(rate_for(15, 3), 15), loss(rate_for(ROUNDS, 3), ROUNDS), loss(1.0, ROUNDS)
    assert many < few + 0.02 and full > many + 0.1, (few, many, full)


@pytest.mark.parametrize("rounds", [1, 15, 100])
def test_two_classes_and_numbers_take_full_steps(rounds):
    assert rate_for(rounds, 1) == 1.0


@pytest.mark.long
def test_a_large_budget_chooses_few_cells_where_targets_are_chance_and_small_ones_are_as_before():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(0, 1, (3000, 3)), rng.integers(0, 3, 3000)
    declared = {"bounds": (0, 1), "classes": range(3), "noise": "seeded", "random_state": 0}
    sizes = {}
    for rounds in (None, MOST_ROUNDS):
        model = DPBoostingClassifier(epsilon=1000.0, n_rounds=rounds, **declared).fit(X, y)
        sizes[rounds] = np.mean(model.partitions_.cells[list(model.model_.chosen)][1:])
    assert sizes[None] < 10 and sizes[MOST_ROUNDS] > 60, sizes
    assert plan_for(1000.0, 3000.0).is_cut and plan_for(np.inf, 10.0).is_cut
    assert not plan_for(8.0, 35_000.0).is_cut and not plan_for(1000.0, 3000.0, MOST_ROUNDS).is_cut


def test_squares_follow_from_curvatures():
    score, target = np.random.default_rng(1).normal(0.5, 0.3, (500, 1)), np.zeros(500)
    gradient, curvature = LogCosh(0.1).derivatives(score, target)
    assert LogCosh(0.1).squares_of(500, curvature.sum()) == pytest.approx((gradient**2).sum())
    share = 1 / (1 + np.exp(-score))
    _, curvature = Logistic(2).derivatives(score, target)
    expected = (share * (1 - share) ** 2 + (1 - share) * share**2).sum()  # if targets are drawn by the shares
    assert Logistic(2).squares_of(500, curvature.sum()) == pytest.approx(expected)
