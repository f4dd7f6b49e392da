from __future__ import annotations

import numpy as np
import pytest

from fedlearn.privacy import PrivacyAccountant
from fedlearn.private_trees import DPRelayForest, DPRelayTree, MalformedTree, NodeTable
from fedlearn.private_trees.node_table import level_of_nodes
from fedlearn.private_trees.numbers.histograms import pairs_of
from fedlearn.private_trees.numbers.randomness import part_sources
from fedlearn.private_trees.numbers.relay import (
    add_tree,
    grow_relay_tree,
    relay_plan,
    relay_predict,
    relay_value_bounds,
)

SEEDED = {"bounds": (0.0, 1.0), "target_bounds": (-1.0, 3.0), "noise": "seeded", "random_state": 7}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.random((3000, 4))
    return X, np.where(X[:, 0] > 0.5, 2.0, 0.0) + X[:, 1] + 0.1 * rng.normal(size=3000)


def test_relay_trees_keep_their_step(data):
    fitted = DPRelayForest(n_nodes=4, **SEEDED).fit(*data)
    table = fitted.table_
    first = level_of_nodes(table) >= 0
    first[table.root[1] :] = False
    for nodes, is_first in ((first, True), (~first, False)):
        low, high = relay_value_bounds(fitted.domain_, is_first=is_first)
        assert low <= table.value[nodes].min()
        assert table.value[nodes].max() <= high
    np.testing.assert_array_equal(fitted.predict(data[0]), relay_predict(table, data[0], fitted.domain_))


def test_nodes_on_their_own_run_the_relay_that_the_library_runs(data):
    X, y = data
    parts = np.arange(3000) % 3
    relay = DPRelayForest(n_nodes=3, n_declared=3000, **SEEDED).fit(X, y, parts=parts)
    ensemble = None
    for node in range(3):
        here = parts == node
        noise, rng = part_sources("seeded", 7, node)
        tree = grow_relay_tree(
            ensemble, X[here], y[here], domain=relay.domain_, plan=relay_plan(1.0, 3000 / 3), noise=noise, rng=rng
        )
        ensemble = add_tree(ensemble, tree)
    np.testing.assert_array_equal(ensemble.value, relay.table_.value)


def test_a_later_round_fits_the_residuals_of_the_first(data):
    X, y = data
    first = DPRelayTree(**SEEDED).fit(X[::2], y[::2])
    second = DPRelayTree(ensemble=first.table_, n_declared=1500, **SEEDED).fit(X[1::2], y[1::2])
    low, high = relay_value_bounds(second.domain_, is_first=False)
    assert low <= second.table_.value.min() <= second.table_.value.max() <= high
    both = relay_predict(add_tree(first.table_, second.table_), X, second.domain_)
    assert np.abs(both - y).mean() < np.abs(first.predict(X) - y).mean()


@pytest.mark.parametrize(
    ("column", "value"),
    [("value", np.nan), ("value", np.inf), ("value", 5.0), ("feature", 4), ("first_child", 10**6), ("weight", np.nan)],
)
def test_an_ensemble_that_no_relay_has_made_is_refused_before_anything_is_spent(data, column, value):
    X, y = data
    first = DPRelayTree(**SEEDED).fit(X, y).table_.to_arrays()
    first[column] = np.array(first[column])
    first[column][0] = value
    accountant = PrivacyAccountant(1.0)
    second = DPRelayTree(ensemble=NodeTable.from_arrays(first), accountant=accountant, **SEEDED)
    with pytest.raises(MalformedTree):
        second.fit(X, y)
    assert accountant.spent.epsilon == 0


@pytest.mark.parametrize("target", [np.nan, np.inf, -0.1, 1.1])
def test_no_record_weighs_more_than_one(target):
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        pairs_of(np.array([0.5, target]))
