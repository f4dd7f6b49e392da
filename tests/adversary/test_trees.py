"""Trees made to be slow: refused before anybody walks through them."""

from __future__ import annotations

import time

import numpy as np
import pytest

from fedlearn.core.errors import Refused
from fedlearn.models.loaded import loaded
from fedlearn.models.presets import settings_from
from fedlearn.private_trees.federated.models.forest import DTYPES, state_of
from fedlearn.private_trees.node_table import LEAF, NodeTable

OUTPUTS = 11  # shares of a leaf's examples below as many knots
LIMITS = {"max_depth": 32, "max_nodes": 1_000_000}


@pytest.fixture(scope="module")
def model():
    return loaded(settings_from({"clients": 3, "data.dataset": "diabetes", "model.name": "dp-forest"}))[1]


def chain(inner: int):
    """Each test has a leaf and the next test as its children."""
    nodes = 2 * inner + 1
    is_inner = np.arange(nodes) % 2 == 0
    is_inner[-1] = False
    table = NodeTable.of_nodes(
        feature=np.where(is_inner, 0, LEAF), threshold=np.where(is_inner, 0.5, np.nan),
        first_child=np.where(is_inner, np.arange(nodes) + 1, LEAF), num_children=np.where(is_inner, 2, 0),
        value=np.full((nodes, OUTPUTS), 1 / OUTPUTS),
    )  # fmt: skip
    return state_of(table)


def stumps(trees: int):
    """An ensemble of trees that are single leaves."""
    columns = {"root": np.arange(trees), "weight": np.full(trees, 1 / trees), "feature": np.full(trees, LEAF),
               "threshold": np.zeros(trees), "first_child": np.full(trees, LEAF), "num_children": np.zeros(trees),
               "value": np.full((trees, OUTPUTS), 1 / OUTPUTS)}  # fmt: skip
    return {name: column.astype(DTYPES[name]) for name, column in columns.items()}


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        (chain(100_000), "too-deep: a path has more than 32 edges"),
        (chain(499_999), "too-deep: a path has more than 32 edges"),
        (stumps(1_000_000), "too-large: 1000000 trees, at most 1 are accepted"),
    ],
)
def test_D6_trees_made_to_be_slow_are_refused_at_once(model, arrays, said):
    before = {name: (array.shape, str(array.dtype)) for name, array in model.initial_state(seed=1).items()}
    begin = time.process_time()
    with pytest.raises(Refused, match=said):
        model.check_members(arrays, before=before, **LIMITS)
    assert time.process_time() - begin < 1.0  # it was 2.8 s for the shorter chain, and what a round of evaluation takes


@pytest.mark.usefixtures("adult")
def test_D6_as_many_trees_as_were_asked_for_are_accepted():
    settings = {"clients": 3, "data.dataset": "adult", "model.name": "dp-random-forest"}
    for options, trees in ({}, 3), ({"model.options.n_estimators": 4}, 4):
        assert loaded(settings_from(settings | options))[1].trees_of_a_node == trees
