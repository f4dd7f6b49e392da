from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.privacy import seeded_noise
from fedlearn.privacy.mechanisms.interception import intercepted_by
from fedlearn.private_trees import DPEnsembleTree, DPRegressionForest, DPRegressionTree
from fedlearn.private_trees.binning import Grid
from fedlearn.private_trees.domain import Domain
from fedlearn.private_trees.numbers.histograms import UNIT
from fedlearn.private_trees.numbers.ordering import codes_of, private_orders, ranked
from fedlearn.private_trees.numbers.training_set import TrainingSet

WORTH = np.array([0.5, 0.0, 0.9, 0.2, 0.7])  # mean target of each category
DECLARED = {"categories": {0: 5}, "bounds": {1: (0, 1)}, "target_bounds": (0, 1), "noise": "seeded", "random_state": 3}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 5, 4000), rng.random(4000)])
    return X, np.clip(WORTH[X[:, 0].astype(int)] + 0.1 * rng.normal(size=4000), 0, 1)


def training_of(X, y, whole=None):
    domain = Domain.declare(num_features=X.shape[1], categories={0: 5, 2: 3}, bounds={1: (0, 1)})
    return TrainingSet(X, y, domain, Grid.of(domain), whole=whole)


def asked_of(training):
    """Return the sums that a release of orders asks noise for, and their sensitivity."""
    asked = []

    def listen(mechanism, args, kwargs):
        asked.append((np.asarray(args[0]), kwargs["sensitivity"]))
        return mechanism(*args, **kwargs)

    with intercepted_by(listen):
        private_orders(training, epsilon=1.0, noise=seeded_noise(0))
    ((sums, sensitivity),) = asked
    return sums, sensitivity


def test_categories_are_ordered_by_their_targets(data):
    forest = DPRegressionForest(epsilon=4.0, n_trees=3, **DECLARED).fit(*data)
    assert forest.category_order_[0].tolist() == np.argsort(WORTH).tolist()


@pytest.mark.parametrize("estimator", [DPRegressionTree, DPRegressionForest])
def test_a_fit_with_orders_spends_exactly_epsilon(estimator, data):
    fitted = estimator(epsilon=1.3, category_order="target", **DECLARED).fit(*data)
    assert math.isclose(fitted.privacy_spent_.epsilon, 1.3, rel_tol=1e-12)
    assert fitted.privacy_spent_.lines[0].what == "order of the categories"
    assert math.isclose(fitted.privacy_spent_.lines[0].epsilon, 0.13)


cells = st.one_of(st.integers(-2, 7), st.sampled_from([0.4, 1.6, math.nan, math.inf]))
records = st.tuples(cells, st.floats(0, 1), cells, st.floats(-1, 2), st.integers(0, UNIT))


@given(record=records, others=st.lists(records, max_size=5))
def test_one_record_changes_the_released_sums_by_no_more_than_their_sensitivity(record, others):
    def sums_of(rows):
        table = np.array(rows, np.float64).reshape(-1, 5)
        return asked_of(training_of(table[:, :3], table[:, 3], table[:, 4].astype(np.int64)))

    (before, sensitivity), (after, same) = sums_of(others), sums_of([*others, record])
    assert sensitivity == same == 2 * UNIT
    assert np.abs(after - before).sum() <= sensitivity


@pytest.mark.parametrize("estimator", [DPRegressionTree, DPRegressionForest, DPEnsembleTree])
def test_without_three_categories_nothing_is_ordered_and_nothing_paid(estimator, data):
    X, y = data
    two = np.column_stack([X[:, 0] > 2, X[:, 1]]).astype(float)
    given = {**DECLARED, "categories": {0: 2}}
    fitted = estimator(**given).fit(two, y)
    assert fitted.category_order_ == {}
    assert fitted.privacy_spent_.lines[0].what == "number of records"


def test_a_forest_on_given_parts_is_what_its_nodes_would_grow(data):
    X, y = data
    parts = np.arange(len(y)) % 2
    assert DPRegressionForest(n_trees=2, **DECLARED).fit(X, y, parts=parts).category_order_ == {}
    with pytest.raises(ValueError, match="leave it out if parts are given"):
        DPRegressionForest(n_trees=2, category_order="target", **DECLARED).fit(X, y, parts=parts)
    with pytest.raises(ValueError, match="category_order"):
        DPEnsembleTree(category_order="target", **DECLARED).fit(X, y)


def test_a_category_is_predicted_as_it_was_learned_and_an_undeclared_one_as_a_missing_one(data):
    forest = DPRegressionForest(epsilon=50.0, n_trees=2, **DECLARED).fit(*data)
    rows = np.column_stack([np.arange(5), np.full(5, 0.5)])
    np.testing.assert_allclose(forest.predict(rows), WORTH, atol=0.1)
    unknown = forest.predict([[7, 0.5], [-1, 0.5], [np.nan, 0.5]])
    assert unknown[0] == unknown[1] == unknown[2]


def test_text_names_categories_and_not_ranks(data):
    text = DPRegressionTree(epsilon=50.0, depth=1, category_order="target", **DECLARED).fit(*data).export_text()
    assert "feature 0 in {1, 3}" in text or "feature 0 in {0, 1, 3}" in text


@given(column=st.lists(cells, min_size=1, max_size=20))
def test_ranks_are_what_thresholds_see(column):
    values = np.array(column, np.float64)
    order = np.array([3, 1, 4, 0, 2])
    codes, ranks = codes_of(values, 5), ranked(values[:, None], {0: order})[:, 0]
    assert (np.isnan(ranks) == (codes < 0)).all()
    np.testing.assert_array_equal(order[ranks[codes >= 0].astype(int)], codes[codes >= 0])
    grid = Grid.of(Domain.declare(num_features=1, categories={0: 5}))
    np.testing.assert_array_equal(grid.codes(values[:, None])[codes >= 0, 0], codes[codes >= 0])
