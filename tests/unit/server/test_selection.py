"""Which nodes are asked whether they are ready, and which of those that are take part."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.config import config_from
from fedlearn.core.errors import RunFailed
from server.exchange.node_directory import without
from server.phases.quorum import quorum_of
from server.selectors import Selector
from tests.unit.server.scripted import Node


@given(nodes=st.sets(st.integers(2, 60)), asked=st.sets(st.integers(2, 60), min_size=1))
def test_nobody_is_asked_twice_however_nodes_are_kept(nodes, asked):
    in_order = sorted(nodes)
    left = [node for node in in_order if node not in asked]
    assert without(in_order, asked) == left
    assert list(without(np.array(in_order, np.int64), asked)) == left


class Draws(Selector):
    """Draws what it is made to, whatever is wanted."""

    def __init__(self, *, clients: int, seed: int, drawn: str):
        super().__init__(clients=clients, seed=seed)
        self.drawn = [[int(node) for node in part.split()] for part in drawn.split(",")]

    def draw(self, ready, count, at):
        return self.drawn[min(at.attempt, len(self.drawn)) - 1]


def drawing(drawn, **rounds):
    return {"cohort": 4, "selector": f"{__name__}:Draws", "selector_options": {"drawn": drawn}, **rounds}


@pytest.mark.parametrize("drawn", ["1 3", "0 1 2 3 4 5"])
def test_a_selector_may_draw_another_number_than_is_wanted(scene, drawn):
    run = scene({10 + i: Node(i) for i in range(6)}, rounds=drawing(drawn, quorum=1.0)).run()
    assert run.store.history.rounds[0].reported == len(drawn.split())


def test_a_round_of_which_none_was_drawn_is_tried_again(scene):
    run = scene({10 + i: Node(i) for i in range(6)}, rounds=drawing(",2 4", max_attempts=2)).run()
    assert run.store.history.rounds[0].attempts == 2


def test_a_round_of_which_none_is_ever_drawn_says_so(scene):
    run = scene({10 + i: Node(i) for i in range(6)}, rounds=drawing("", max_attempts=2))
    with pytest.raises(RunFailed, match="the selector drew none of the 6 clients that were ready"):
        run.run()


@pytest.mark.parametrize("drawn", ["1 1", "1 7"])
def test_a_selector_that_draws_a_node_twice_or_one_that_is_not_ready_ends_the_run(scene, drawn):
    run = scene({10 + i: Node(i) for i in range(6)}, rounds=drawing(drawn))
    with pytest.raises(RunFailed, match="selector Draws drew a client twice, or one that was not ready"):
        run.run()


def test_fewer_reports_than_distributed_noise_is_calibrated_to_commit_no_round():
    """Whatever number of nodes a selector draws: each report brings a share of the noise that protects all of them."""
    rounds = {"rounds.cohort": 10, "rounds.quorum": 0.5, "rounds.minimum_ready": 0.8}
    for trust, needed in (("local", 2), ("distributed", 4)):
        config = config_from({"clients": 20, "privacy.trust": trust, **rounds})
        assert quorum_of(config, 3) == needed
        assert quorum_of(config, 10) == 5
