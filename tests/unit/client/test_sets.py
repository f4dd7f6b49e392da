"""Sets of nodes of exact sums: none may tell, with those before, what one node has added."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import MessageType, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from client import policy
from client.sets import remember_set, tells_of_one
from fedlearn.config import RunConfig
from fedlearn.words.errors import Refused
from fedlearn.words.refusals import REFUSALS

SETS = st.lists(st.sets(st.sampled_from("abcdef"), min_size=1), min_size=1, max_size=5)


def visit_of(folder, *, model="statistics", real=True, **node_config):
    config = RunConfig(model={"name": model}, secure={"sums": "masked"})
    message = SimpleNamespace(metadata=SimpleNamespace(message_type=MessageType.TRAIN))
    node_config = {"ledger": str(folder), "data-name": "patients", **node_config}
    context = SimpleNamespace(node_config={name: each for name, each in node_config.items() if each is not None})
    return SimpleNamespace(context=context, config=config, is_real=real, message=message, content=RecordDict())


def keys(*names):
    return [name.encode() for name in names]


@given(SETS)
def test_it_tells_of_one_where_the_equations_have_one_solution_for_it(sets):
    """Compare with the null space: sets tell of a node whose number no solution of the homogeneous equations moves."""
    names = sorted(set().union(*sets))
    matrix = np.array([[name in each for name in names] for each in sets], float)
    _, sizes, rows = np.linalg.svd(matrix)
    free = rows[(sizes > 1e-9).sum() :]
    assert tells_of_one(sets) == bool((np.abs(free) < 1e-9).all(axis=0).any())


def test_the_same_set_may_be_asked_again_and_one_that_differs_by_a_node_is_refused(tmp_path):
    for _ in range(2):  # another run, another question: the same nodes
        remember_set(visit_of(tmp_path), keys("a", "b", "c", "d", "e"))
    for other in (keys("a", "b", "c", "d"), keys("a", "b", "c", "d", "e", "f")):
        with pytest.raises(Refused, match="tells-of-one"):
            remember_set(visit_of(tmp_path), other)
    assert len((tmp_path / "patients.sets").read_text().splitlines()) == 1  # what was refused was not signed
    remember_set(visit_of(tmp_path), keys("a", "b", "c"))  # tells the sum of d and e


def test_sets_of_which_no_two_differ_by_one_node_are_refused_once_they_tell_of_one(tmp_path):
    first, second, third = (keys("x", "y", *pair) for pair in combinations("abc", 2))
    remember_set(visit_of(tmp_path), first)
    remember_set(visit_of(tmp_path), second)
    remember_set(visit_of(tmp_path), third)
    with pytest.raises(Refused, match="tells-of-one"):  # (first + second - third - this) / 2 are the numbers of a
        remember_set(visit_of(tmp_path), keys("x", "y"))


@pytest.mark.parametrize("changes", [{"model": "dp-statistics"}, {"real": False}])
def test_nothing_is_remembered_of_sums_with_noise_and_by_virtual_nodes(tmp_path, changes):
    for names in ("abc", "ab"):
        remember_set(visit_of(tmp_path, **changes), keys(*names))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("missing", ["peers", "ledger"])
def test_a_real_node_without_peers_or_ledger_adds_nothing_exact(tmp_path, missing):
    whole = {"peers": "peers", "largest-epsilon": 1.0, "models": "statistics"}
    assert policy.refused(visit_of(tmp_path, **whole)) == ""
    assert policy.refused(visit_of(tmp_path, **{**whole, missing: None})) == "sets-not-remembered"
    assert "sets-not-remembered" in REFUSALS


def test_an_owner_who_does_not_name_the_model_gives_no_exact_statistics(tmp_path):
    visit = visit_of(tmp_path, peers="peers", **{"largest-epsilon": 1.0})
    assert policy.refused(visit) == "model-not-allowed"
