from __future__ import annotations

import numpy as np
import pytest

import fedlearn.private_trees
from fedlearn.private_trees.numbers.voted import DPVotedForest

SEEDED = {"bounds": (0.0, 1.0), "target_bounds": (-1.0, 3.0), "noise": "seeded", "random_state": 7}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.random((3000, 4))
    return X, np.where(X[:, 0] > 0.5, 2.0, 0.0) + X[:, 1] + 0.1 * rng.normal(size=3000)


def test_groups_must_divide_the_nodes(data):
    with pytest.raises(ValueError, match="n_groups"):
        DPVotedForest(n_nodes=10, n_groups=3, **SEEDED).fit(*data)


@pytest.mark.parametrize(("name", "value"), [("n_nodes", 0), ("n_groups", 0)])
def test_a_number_below_one_is_named(name, value, data):
    with pytest.raises(ValueError, match=f"{name} = 0: must be 1 or more"):
        DPVotedForest(**{**SEEDED, name: value}).fit(*data)


def test_it_is_said_to_leave_where_it_is_taken_from_the_package():
    with pytest.warns(DeprecationWarning, match="use DPRelayForest or DPBoostingRegressor"):
        assert fedlearn.private_trees.DPVotedForest is DPVotedForest
