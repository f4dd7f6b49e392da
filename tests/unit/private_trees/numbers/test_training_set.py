from __future__ import annotations

import numpy as np
import pytest

from fedlearn.private_trees.binning import Grid
from fedlearn.private_trees.domain import Domain
from fedlearn.private_trees.numbers.regression_forest import DPRegressionForest
from fedlearn.private_trees.numbers.training_set import TrainingSet, checked_parts

DOMAIN = Domain.declare(num_features=1, bounds=(0, 1))


def training_set(rows=300, parts=None):
    given = checked_parts(parts, rows=rows, count=3)
    return TrainingSet(np.zeros((rows, 1)), np.zeros(rows), DOMAIN, Grid.of(DOMAIN), given)


def test_parts_under_secure_noise_are_not_drawn_from_the_random_state():
    training = training_set()
    for is_secure, repeats in ((True, False), (False, True)):
        first, second = (training.parts(2, np.random.default_rng(0), is_secure=is_secure) for _ in range(2))
        assert np.array_equal(first, second) == repeats


def test_a_record_keeps_its_given_part_when_others_are_left_out():
    training = training_set(4, parts=[0, 1, 2, 1]).where(np.array([True, False, True, True]))
    assert training.parts(3, np.random.default_rng(0), is_secure=True).tolist() == [0, 2, 1]


def test_adding_a_record_at_the_end_moves_no_other_to_another_part():
    fewer, more = (training_set(rows).parts(5, np.random.default_rng(3), is_secure=False) for rows in (300, 301))
    np.testing.assert_array_equal(fewer, more[:-1])


@pytest.mark.parametrize("wrong", [[0, 1], np.zeros((300, 1))])
def test_parts_of_the_wrong_shape_are_refused(wrong):
    with pytest.raises(ValueError, match="parts: shape"):
        training_set(parts=wrong)


@pytest.mark.parametrize("wrong", [-1, 3, 0.5, np.nan, np.inf, None, "two"])
def test_a_record_whose_part_does_not_exist_is_left_out_without_an_error(wrong):
    rng = np.random.default_rng(0)
    X, y, parts = rng.random((60, 1)), rng.random(60), rng.integers(0, 3, 60).astype(object)
    declared = {"bounds": (0, 1), "target_bounds": (0, 1), "noise": "seeded", "random_state": 0}
    parts[7] = wrong
    with_it, without = (
        DPRegressionForest(n_trees=3, **declared).fit(X[rows], y[rows], parts=parts[rows]).table_.value
        for rows in (np.arange(60), np.delete(np.arange(60), 7))
    )
    np.testing.assert_array_equal(with_it, without)
