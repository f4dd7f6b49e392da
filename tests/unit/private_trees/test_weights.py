from __future__ import annotations

import inspect
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, is_classifier

from experiments.private_trees import as_printed
from fedlearn import private_trees as trees
from fedlearn.private_trees import PrivateSearch
from fedlearn.private_trees.weights import UNIT, shares_of, weighed

SEEDED = {"noise": "seeded", "random_state": 5}
PUBLIC = [getattr(package, name) for package in (trees, as_printed) for name in package.__all__]
ESTIMATORS = [each for each in PUBLIC if inspect.isclass(each) and issubclass(each, BaseEstimator)]
WEIGHTED = [each for each in ESTIMATORS if "max_weight" in inspect.signature(each).parameters]
REFUSING = [each for each in ESTIMATORS if each not in WEIGHTED]
ONE_TREE = {
    "DPRegressionForest": "n_trees",
    "DPRandomForestClassifier": "n_estimators",
    "PermuteAndFlipForest": "n_estimators",
}
HEAVIEST = 4.0


def made(kind, **given):
    """Return it, for three features of three categories and a target in 0 .. 1; of a forest one tree, without parts."""
    given |= {ONE_TREE[kind.__name__]: 1} if kind.__name__ in ONE_TREE else {}
    target = {"classes": [0, 1]} if is_classifier(kind()) else {"target_bounds": (0, 1)}
    return kind(epsilon=8.0, categories=[3, 3, 3], **target, **SEEDED, **given)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (400, 3)).astype(float)
    return X, (X[:, 0] > 1).astype(int), rng.integers(0, 5, 400)


def outputs(model, X):
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


@pytest.mark.parametrize("kind", WEIGHTED)
def test_a_weight_counts_like_as_many_records(kind, data):
    X, y, weight = data
    model = made(kind, max_weight=HEAVIEST)
    weighted = outputs(model.fit(X, y, weight), X)
    repeated = outputs(model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)), X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-5)


@pytest.mark.parametrize("kind", WEIGHTED)
def test_all_heaviest_is_no_weights_at_all(kind, data):
    X, y, _ = data
    heaviest = outputs(made(kind, max_weight=HEAVIEST).fit(X, y, np.full(400, HEAVIEST)), X)
    np.testing.assert_allclose(heaviest, outputs(made(kind).fit(X, y), X), atol=0.01)  # noise of counts is finer


@pytest.mark.parametrize("kind", WEIGHTED)
def test_what_is_no_weight_counts_for_nothing_and_none_is_an_error(kind, data):
    X, y, weight = data
    hostile = weight.astype(object)
    hostile[:6] = [np.nan, None, -1, "four", -math.inf, 10**400]
    clean = weight.astype(float)
    clean[:6] = [0, 0, 0, 0, 0, HEAVIEST]
    model = made(kind, max_weight=HEAVIEST)
    expected = outputs(model.fit(X, y, clean), X)
    for weights in (hostile, pd.Series(hostile)):
        np.testing.assert_array_equal(outputs(model.fit(X, y, weights), X), expected)
    assert np.isfinite(outputs(model.fit(X, y, np.zeros(400)), X)).all()


@pytest.mark.parametrize("kind", WEIGHTED)
def test_weights_cost_what_records_cost(kind, data):
    X, y, weight = data
    assert math.isclose(made(kind, max_weight=HEAVIEST).fit(X, y, weight).privacy_spent_.epsilon, 8.0)


@pytest.mark.parametrize("kind", WEIGHTED)
def test_undeclared_weights_are_refused_and_so_are_those_of_another_number_of_records(kind, data):
    X, y, weight = data
    with pytest.raises(ValueError, match=f"{kind.__name__} takes weights if max_weight declares the largest"):
        made(kind).fit(X, y, weight)
    with pytest.raises(ValueError, match=r"399,.* for 400 rows"):
        made(kind, max_weight=HEAVIEST).fit(X, y, weight[1:])
    with pytest.raises(ValueError, match="max_weight = 0"):
        made(kind, max_weight=0).fit(X, y, weight)


@pytest.mark.parametrize("kind", REFUSING)
def test_the_others_name_themselves_and_what_to_do_instead(kind, data):
    X, y, weight = data
    model = kind(estimator=None, grid={}) if kind is PrivateSearch else kind()
    with pytest.raises(TypeError, match=f"{kind.__name__} takes no weights; DPRegressionTree"):
        model.fit(X, y, sample_weight=weight)
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        model.fit(X, y, weights=weight)


def test_information_gain_takes_none(data):
    model = made(trees.DPClassificationTree, criterion="information_gain", max_records=400, max_weight=2.0)
    with pytest.raises(ValueError, match="'max' and 'gini' do"):
        model.fit(*data)


@given(
    rows=st.lists(st.tuples(st.integers(-UNIT, UNIT), st.integers(0, UNIT)), min_size=1, max_size=9),
    weight=st.one_of(st.floats(), st.integers(-(10**400), 10**400), st.none(), st.text(max_size=2)),
    most=st.floats(1e-3, 1e6),
)
def test_no_weight_makes_a_row_longer(rows, weight, most):
    given = np.empty(len(rows), object)
    given[:] = weight
    whole = shares_of(given, rows=len(rows), max_weight=most)
    numbers = np.array(rows, np.int32)
    shorter = weighed(numbers, whole)
    assert ((whole >= 0) & (whole <= UNIT)).all()
    assert shorter.dtype == numbers.dtype
    length = np.abs(numbers.astype(np.int64)).sum(axis=1)
    assert (np.abs(shorter.astype(np.int64)).sum(axis=1) * UNIT <= length * whole).all()
