"""Private bins: about as many records in each, and none where noise would say all."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.privacy import PrivacyAccountant, seeded_noise
from fedlearn.private_trees.sums.bins import are_worth_it, private_edges
from fedlearn.private_trees.sums.boosting import boost
from fedlearn.private_trees.sums.losses import Logistic
from fedlearn.private_trees.sums.views import PRIVATE_BINS, Views

DECLARED = {"bounds": (0, 100), "categories": None}
VIEWS, FINE = Views.declare(2, **DECLARED), Views.declare(2, **DECLARED, one_each=True)


def edges_of(X, epsilon, seed=0):
    return private_edges(FINE.encode(X), FINE, epsilon=epsilon, noise=seeded_noise(seed))


def test_bins_hold_about_as_many_records_each():
    X = np.random.default_rng(0).exponential(20, (40_000, 2))
    views = VIEWS.with_edges(edges_of(X, 1.0))
    assert views.sizes[views.firsts].tolist() == [PRIVATE_BINS] * 2
    for view in views.firsts:
        share = np.bincount(views.encode(X)[view], minlength=PRIVATE_BINS) / len(X)
        assert share.max() < 2.5 / PRIVATE_BINS


@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=5), st.sampled_from([0.01, 1.0, math.inf]))
def test_any_records_give_edges_of_the_declared_grid(rows, epsilon):
    for column, edges in edges_of(np.array(rows, np.float64).reshape(-1, 2), epsilon).items():
        assert edges.shape == (PRIVATE_BINS - 1,)
        assert (np.diff(edges) >= 0).all()
        assert np.isin(edges, FINE.edges[column]).all()


def test_what_is_missing_keeps_a_bin_of_its_own():
    views = VIEWS.with_edges(edges_of(np.full((1000, 2), 50.0), 1.0))
    assert (views.encode(np.array([[np.nan, np.inf]]))[views.firsts, 0] == [PRIVATE_BINS, PRIVATE_BINS - 1]).all()


@pytest.mark.parametrize(("n", "worth"), [(100, False), (1_000_000, True)])
def test_nothing_is_spent_on_bins_that_would_be_noise(n, worth):
    assert are_worth_it(FINE, 0.01, n) is worth


def test_columns_of_categories_alone_need_no_bins():
    views = Views.declare(1, bounds=None, categories=[3], one_each=True)
    assert not are_worth_it(views.of_numbers, 1.0, 1e9)


@pytest.mark.parametrize(("rows", "lines"), [(50, 3), (20_000, 4)])
def test_the_account_says_whether_bins_were_bought_and_adds_up_either_way(rows, lines):
    X = np.random.default_rng(1).uniform(0, 100, (rows, 2))
    account = PrivacyAccountant(1.0)
    views, _ = boost(
        X, (X[:, 0] > 50) * 1.0, views=VIEWS, fine=FINE, pairs=True, loss=Logistic(2), epsilon=1.0, rounds=2,
        accountant=account, noise=seeded_noise(0), rng=np.random.default_rng(0),
    )  # fmt: skip
    assert len(account.spent.lines) == lines
    assert account.spent.epsilon == pytest.approx(1.0)
    assert (PRIVATE_BINS in views.sizes) is (lines == 4)
