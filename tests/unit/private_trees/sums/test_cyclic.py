"""Boosting by sums: its questions, and its order, which follows from the noisy sums alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.private_trees.sums.additive import step_of
from fedlearn.private_trees.sums.boosting_parts import Part, grouped, step_on
from fedlearn.private_trees.sums.cyclic import CyclicBoosting, Released
from fedlearn.private_trees.sums.losses import UNIT, LogCosh, Logistic
from fedlearn.private_trees.sums.rounds_search import rounds_for
from fedlearn.private_trees.sums.views import Views

VIEWS = Views.declare(3, bounds={0: (0, 10), 1: (0, 10)}, categories={2: 3}, one_each=True)


def made(number=2000, seed=0):
    """Records of which the target follows the second column alone."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(0, 10, (number, 2)), rng.integers(0, 3, number)])
    return X, (X[:, 1] > 4).astype(float)


def learned(boosting, X, y, rounds, variance=1.0):
    released = []
    for _ in range(rounds):
        released.append(Released(boosting.asked(released, X, y), variance))
    return boosting.model(released)


@pytest.mark.parametrize("loss", [Logistic(2), Logistic(3), LogCosh(0.1)])
@given(seed=st.integers(0, 1000), at=st.integers(0, 29))
def test_a_record_changes_what_is_asked_by_at_most_the_sensitivity(loss, seed, at):
    X, y = made(30, seed)
    boosting = CyclicBoosting(VIEWS, loss, pairs=2)
    X[0, 0], X[1, 2] = np.nan, 9.0  # missing, and not declared
    released = []
    for number in range(1, 6):
        whole = boosting.asked(released, X, y)
        change = np.abs(whole - boosting.asked(released, np.delete(X, at, 0), np.delete(y, at))).sum()
        assert change <= boosting.sensitivity(number)
        assert len(whole) == boosting.length(number)
        noisy = whole + np.random.default_rng(seed).integers(-UNIT, UNIT, len(whole))
        released.append(Released(noisy, float(UNIT) ** 2))


def test_the_column_that_explains_most_has_the_first_step():
    model = learned(CyclicBoosting(VIEWS, Logistic(2), pairs=1), *made(), rounds=1)
    assert model.parts[0].columns == (1,)
    assert [part.columns for part in model.parts if len(part.columns) == 2] == [
        model.parts[0].columns + model.parts[1].columns
    ]


def test_columns_that_explain_no_more_than_noise_have_no_step_but_one_always_has():
    (only,) = learned(CyclicBoosting(VIEWS, Logistic(2), pairs=3), *made(), rounds=1, variance=(1e6 * UNIT) ** 2).parts
    assert len(only.columns) == 1


def test_more_rounds_explain_more():
    X, y = made()
    boosting = CyclicBoosting(VIEWS, Logistic(2), pairs=0)
    wrong = [((learned(boosting, X, y, rounds).score(VIEWS.encode(X))[:, 0] > 0) != y).mean() for rounds in (1, 2, 8)]
    assert wrong[0] > 0.3 > 0.05 > wrong[1] >= wrong[2]


def test_nobody_at_all_is_a_data_set_too():
    model = learned(CyclicBoosting(VIEWS, LogCosh(0.1), pairs=1), np.zeros((0, 3)), np.zeros(0), rounds=3)
    assert np.isfinite(model.score(VIEWS.encode(made(5)[0]))).all()


@given(counts=st.lists(st.floats(-50, 500), min_size=2, max_size=70), bins=st.sampled_from([8, 16]))
def test_groups_are_neighbors_and_what_is_missing_is_alone(counts, bins):
    group = grouped(np.array(counts), bins, variance=4.0)
    assert (np.diff(group) >= 0).all()
    assert group[-1] == bins > group[-2]


def test_cells_that_are_alike_help_each_other_against_noise():
    loss, rng = Logistic(2), np.random.default_rng(0)
    group = grouped(np.full(65, 100.0), 16, variance=1.0)
    part = Part((0,), (group,), (True,))
    truth = np.repeat([30.0, -10.0, 5.0, 20.0, 0.0], [4, 4, 4, 4, 1])
    curvature = np.full(17, 100.0)
    exact = step_of(np.column_stack([truth, curvature]), loss, 0.0)
    noisy = [np.column_stack([truth + rng.laplace(0, 20, 17), curvature]) for _ in range(50)]
    alone = np.mean([(step_of(each, loss, 800.0) - exact) ** 2 for each in noisy])
    together = np.mean([(step_on(part, each, loss, 800.0) - exact) ** 2 for each in noisy])
    assert together < 0.7 * alone


def test_a_pair_with_categories_pools_the_numbers_alone():
    part = Part((0, 2), (grouped(np.full(65, 100.0), 8, variance=1.0), np.arange(4)), (True, False))
    coarser = part.coarser
    assert len(coarser) == part.cells == 9 * 4
    assert coarser.max() + 1 == 5 * 4
    assert (np.bincount(coarser) <= 2).all()


def test_the_rule_takes_more_rounds_for_more_budget_and_fewer_for_more_noise():
    assert rounds_for(0.1, 1) <= rounds_for(1.0, 1) < rounds_for(8.0, 1) <= rounds_for(1e9, 1) == 100
    assert rounds_for(1.0, 1) > rounds_for(1.0, 100) == 12
    assert 12 > rounds_for(0.1, 25) > rounds_for(0.01, 25) == 2


def test_where_declared_records_pay_for_the_start_alone_there_is_one_round():
    assert rounds_for(0.1, 25, 750) == 1
    assert rounds_for(0.1, 25, 100_000) == rounds_for(0.1, 25) > 1
