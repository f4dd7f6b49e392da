"""Steps of more than two classes: without noise scores settle, where full steps let them swing."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.data.data_spec import TableSchema
from fedlearn.privacy.released import Released
from fedlearn.private_trees.federated.models.table_checks import views_of
from fedlearn.private_trees.sums.cyclic import CyclicBoosting
from fedlearn.private_trees.sums.losses import Logistic
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
