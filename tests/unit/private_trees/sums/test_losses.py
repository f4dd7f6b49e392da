"""One record adds at most 1, gradient and curvature together, for any score and target."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.private_trees.sums.losses import UNIT, LogCosh, Logistic, pairs_of

scores = st.floats(-1e6, 1e6)


@given(st.integers(2, 6), st.data())
def test_a_record_of_any_class_and_score_adds_at_most_one(classes, data):
    loss = Logistic(classes)
    score = np.array([data.draw(st.lists(scores, min_size=loss.outputs, max_size=loss.outputs))])
    target = np.array([float(data.draw(st.integers(0, classes - 1)))])
    pairs = pairs_of(loss, score, target)
    assert np.abs(pairs.astype(np.int64)).sum() <= UNIT
    assert (pairs[:, loss.outputs :] >= 0).all()


@given(scores, st.floats(0, 1), st.sampled_from([0.01, 0.12, 1.0]))
def test_a_record_of_any_number_adds_at_most_one(score, target, width):
    pairs = pairs_of(LogCosh(width), np.array([[score]]), np.array([target]))
    assert np.abs(pairs.astype(np.int64)).sum() <= UNIT


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_a_record_adds_exactly_one_to_the_first_sums(targets):
    assert LogCosh(0.1).first_sums(np.array(targets)).sum() == len(targets) * UNIT
    assert Logistic(2).first_sums(np.round(targets)).sum() == len(targets) * UNIT


@pytest.mark.parametrize("loss", [Logistic(2), LogCosh(0.2)])
def test_gradient_and_curvature_are_derivatives_of_the_loss(loss):
    target, at, step = np.array([1.0]), 0.3, 1e-4

    def gradient(score):
        return loss.derivatives(np.array([[score]]), target)[0][0, 0] * loss.gradient_in

    curvature = loss.derivatives(np.array([[at]]), target)[1][0, 0] * loss.curvature_in
    slope = (gradient(at - step) - gradient(at + step)) / (2 * step)
    assert slope == pytest.approx(curvature / loss.unit, rel=1e-4)


def test_two_classes_are_the_case_of_more():
    score = np.array([[0.0, 0.7]])
    two, more = Logistic(2), Logistic(3)
    assert two.shares(np.array([[0.7]])) == pytest.approx(more.shares(np.array([[0.0, 0.7, -50.0]]))[:, :2])
    halved = more.derivatives(np.column_stack([score, [-50.0]]), np.array([1.0]))[0]
    assert halved[0, 1] * more.gradient_in == pytest.approx(
        two.derivatives(np.array([[0.7]]), np.array([1.0]))[0][0, 0]
    )
