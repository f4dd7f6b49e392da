"""FLTrust equals its paper on dense changes, leaves out whom it does not trust, and needs the server's own training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.core.errors import UsageError
from fedlearn.core.state import Sends
from tests.oracles import defences as oracle
from tests.unit.strategies.robust.test_defences import made, turn_of


def step_of(rows, own, *, state=None, sends=Sends.UPDATE):
    state = state if state is not None else {"x": np.zeros(rows.shape[1])}
    turn = turn_of(rows, state=state, sends=sends)
    return made("fltrust").next_state(replace(turn, root={"x": state["x"] + own}))


@given(seed=st.integers(0, 2**32 - 1))
def test_dense_changes_give_what_the_paper_says(seed):
    rng = np.random.default_rng(seed)
    own = rng.normal(size=6)
    rows = own + rng.normal(size=(int(rng.integers(2, 12)), 6))
    rows[0] = -own * rng.uniform(0.1, 1e4)  # never trusted
    rows[1] = own * 1e6  # trusted, but no longer than the server's own change
    step = step_of(rows, own)
    np.testing.assert_allclose(step.state["x"], oracle.fltrust(rows, own), rtol=1e-6, atol=1e-9)
    assert 0 in step.left_out
    assert 1 not in step.left_out
    old = {"x": rng.normal(size=6)}
    by_weights = step_of(rows + old["x"], own, state=old, sends=Sends.WEIGHTS).state["x"]
    np.testing.assert_allclose(by_weights - old["x"], step.state["x"], rtol=1e-5, atol=1e-7)


def test_any_number_of_attackers_is_left_out():
    own = np.array([1.0, 2.0, -1.0])
    rows = np.vstack([own * 1.1, *[-own * scale for scale in (1, 10, 100, 1000)]])
    step = step_of(rows, own)
    np.testing.assert_allclose(step.state["x"], own)
    assert list(step.left_out) == [1, 2, 3, 4]


def test_a_round_in_which_no_node_is_trusted_leaves_the_state_as_it_is():
    own = np.array([1.0, 0.0])
    old = {"x": np.array([0.1, 0.2])}
    assert step_of(np.array([[-1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), own, state=old).state["x"].tolist() == [0.1, 0.2]


def test_an_entry_counts_over_the_trusted_nodes_that_sent_it():
    own = np.array([1.0, 1.0])
    step = step_of(np.array([[2.0, np.nan], [1.0, 1.0], [np.nan, -5.0]]), own)
    assert step.state["x"][1] == pytest.approx(1.0)


def test_without_the_rounds_of_our_server_it_is_refused():
    with pytest.raises(UsageError, match="needs the rounds of fedlearn's server"):
        made("fltrust").next_state(turn_of(np.ones((3, 2))))
