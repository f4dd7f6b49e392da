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
from client.sets import check_sets, remember_set, tells_of_one
from fedlearn.config import RunConfig
from fedlearn.privacy.ledger_lines import LedgerDamaged
from fedlearn.runs.ledgers import names_in
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


def remove_all(folder):
    for file in ("patients.sets", "patients.sets-head"):
        (folder / file).unlink()


DAMAGES = {
    "deleted": lambda folder: (folder / "patients.sets").unlink(),
    "deleted with its head": remove_all,
    "emptied": lambda folder: (folder / "patients.sets").write_bytes(b""),
    "last line gone": lambda folder: cut(folder / "patients.sets", slice(0, -1)),
    "first line gone": lambda folder: cut(folder / "patients.sets", slice(1, None)),
    "head deleted": lambda folder: (folder / "patients.sets-head").unlink(),
    "a digest changed": lambda folder: swap(folder / "patients.sets"),
    "no sets": lambda folder: (folder / "patients.sets").write_bytes(b"[1]\n[2]\n"),
}


def cut(file, kept):
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[kept]))


def swap(file):
    lines = file.read_bytes()
    place = lines.index(b'["') + 2
    file.write_bytes(lines[:place] + (b"0" if lines[place : place + 1] != b"0" else b"1") + lines[place + 1 :])


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_node_that_has_lost_sets_is_not_ready_and_signs_nothing(tmp_path, damage):
    remember_set(visit_of(tmp_path), keys("a", "b", "c", "d", "e"))
    remember_set(visit_of(tmp_path), keys("a", "b", "c"))
    check_sets(visit_of(tmp_path))
    damage(tmp_path)
    for look in (check_sets, lambda visit: remember_set(visit, keys("a", "b", "c", "d"))):
        with pytest.raises(LedgerDamaged):
            look(visit_of(tmp_path))


def test_sets_are_no_ledger_and_a_ledger_is_no_sign_of_lost_sets(tmp_path):
    (tmp_path / "patients.published").mkdir()
    (tmp_path / "patients.published" / "answer").touch()
    check_sets(visit_of(tmp_path))
    remember_set(visit_of(tmp_path), keys("a", "b", "c"))
    assert names_in(tmp_path) == ["patients"]


def test_a_node_without_noise_to_lose_checks_nothing(tmp_path):
    remember_set(visit_of(tmp_path), keys("a", "b", "c"))
    remove_all(tmp_path)
    check_sets(visit_of(tmp_path, model="dp-statistics"))
    check_sets(visit_of(tmp_path, real=False))


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
