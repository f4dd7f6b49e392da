"""The contract of every schedule, whatever the order of its phases, for each one in the table, and a guest."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.core.errors import RunFailed
from fedlearn.runs.checkpoint import RunStore
from server.schedules import SCHEDULES
from tests.unit.server.scripted import STATE, Node

NAMES = [*SCHEDULES, "tests.end_to_end.plugins.two_selections:TwoSelections"]


def nodes_of(number, **changes):
    return {10 + i: Node(i, **changes) for i in range(number)}


def rounds_of(name, **changes):
    return {"total": 3, "schedule": name, "max_attempts": 2, **changes}


@pytest.mark.parametrize("name", NAMES)
def test_it_commits_every_round_once_and_in_order(scene, name):
    run = scene(nodes_of(5), rounds=rounds_of(name)).run()
    assert [record.round_number for record in run.store.history.rounds] == [1, 2, 3]
    assert [event["round"] for event in run.events("committed")] == [1, 2, 3]


@pytest.mark.parametrize("name", NAMES)
def test_it_stores_what_it_commits(scene, name):
    run = scene(nodes_of(4), rounds=rounds_of(name)).run()
    stored = RunStore(run.folder.path, run.store.metrics)
    stored.load()
    assert stored.model_sha256 == run.store.model_sha256
    assert any((stored.state[key] != STATE[key]).any() for key in STATE)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_cannot_commit_fails_with_the_reason_and_leaves_the_state(scene, name):
    run = scene(nodes_of(4, failing="no disk"), rounds=rounds_of(name))
    with pytest.raises(RunFailed, match="no disk"):
        run.run()
    assert all(np.array_equal(run.state[key], STATE[key]) for key in STATE)
    assert run.store.history.rounds == ()


@pytest.mark.parametrize("name", NAMES)
def test_it_goes_on_where_the_store_stands(scene, name):
    whole = scene(nodes_of(4), rounds=rounds_of(name)).run()
    run = scene(nodes_of(4), rounds=rounds_of(name, total=2)).run()
    run.with_settings(rounds={"total": 3}).run()
    assert run.store.model_sha256 == whole.store.model_sha256


@pytest.mark.parametrize("name", NAMES)
def test_every_node_that_was_instructed_meets_one_end_in_each_attempt(scene, name):
    nodes = nodes_of(6)
    nodes[12].failing, nodes[13].report_after = "broken", None
    run = scene(nodes, rounds=rounds_of(name, quorum=0.5)).run()
    ends = [(e["round"], e["attempt"], e["node"]) for e in run.events("reported", "failed", "refused", "late")]
    assert len(ends) == len(set(ends))
    told = [(i.round_number, i.attempt, node) for node, n in nodes.items() for i in n.instructions]
    assert sorted(told) == sorted(ends)
