"""On a network the server learns once which partition each node holds, and draws as a simulation does."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.words.errors import RunFailed
from tests.unit.server.scripted import NetworkGrid, Node, ScriptedGrid, made_nodes

ROUNDS = {"total": 3, "cohort": 3, "invited": 0}


def cohorts(run) -> list[list[int]]:
    """Return the partitions that reported, round by round."""
    rounds: dict[int, list[int]] = {}
    for event in run.events("reported"):
        rounds.setdefault(event["round"], []).append(event["partition"])
    return [sorted(partitions) for partitions in rounds.values()]


def test_a_network_draws_the_cohorts_of_a_simulation_and_makes_its_model(scene):
    simulated = scene({2 + partition: Node(partition) for partition in range(11)}, rounds=ROUNDS).run()
    network = scene(made_nodes(11), grid=NetworkGrid, rounds=ROUNDS).run()
    assert cohorts(network) == cohorts(simulated)
    assert network.store.model_sha256 == simulated.store.model_sha256


def test_a_simulation_asks_nobody_for_its_partition(scene):
    run = scene(made_nodes(11), grid=ScriptedGrid, rounds=ROUNDS).run()
    assert len(run.grid.asked) == 3 * 4  # 1.3 times the cohort of three, in each round
    assert run.events("roll-called") == []


def test_each_node_of_a_network_is_asked_once_before_the_first_round(scene):
    run = scene(made_nodes(11), grid=NetworkGrid, rounds=ROUNDS).run()
    assert len(run.grid.asked) == 11 + 3 * 4
    assert sorted(run.grid.asked[:11]) == sorted(run.grid.nodes)
    (called,) = run.events("roll-called")
    assert (called["known"], called["clients"]) == (11, 11)


def test_the_roll_waits_one_selection_window_for_nodes_that_are_away(scene):
    nodes = made_nodes(4)
    next(iter(nodes.values())).connected = False
    rounds = {"total": 2, "selection_window": 20.0, "minimum_ready": 0.5, "quorum": 0.5}
    run = scene(nodes, grid=NetworkGrid, rounds=rounds).run()
    (called,) = run.events("roll-called")
    assert (called["known"], called["seconds"]) == (3, pytest.approx(20.0))
    assert [record.cohort for record in run.store.history.rounds] == [3, 3]


def test_a_node_that_comes_later_is_asked_and_takes_part(scene):
    nodes = made_nodes(3)
    away = next(iter(nodes.values()))
    away.connected = False
    rounds = {"total": 2, "selection_window": 10.0, "minimum_ready": 0.5, "quorum": 0.5}
    run = scene(nodes, grid=NetworkGrid, rounds=rounds)
    write = run.log.write

    def connect_after_round_one(event, **fields):
        write(event, **fields)
        away.connected = away.connected or event == "committed"

    run.log.write = connect_after_round_one
    assert [record.cohort for record in run.run().store.history.rounds] == [2, 3]


def test_a_node_that_cannot_say_what_it_holds_is_left_out_and_its_reason_is_the_runs(scene):
    from flwr.app import Error

    def broken(message, node):
        return [Error(2, "no data here")]

    nodes = made_nodes(2)
    for node in nodes.values():
        node.ready = broken
    run = scene(nodes, grid=NetworkGrid, rounds={"max_attempts": 2})
    with pytest.raises(RunFailed, match=r"0 nodes were ready .*no data here"):
        run.run()
    assert run.reasons("unknown-node") == dict.fromkeys(nodes, "no data here")
    assert run.clock.now() < 2.5  # nobody else can come, so nobody is waited for


def test_of_two_nodes_with_one_partition_one_takes_part_and_the_other_is_refused(scene):
    nodes = {101: Node(0), 102: Node(1), 103: Node(1)}
    run = scene(nodes, grid=NetworkGrid, rounds={"minimum_ready": 0.5})
    run.run()
    assert cohorts(run) == [[0, 1]]
    assert list(run.reasons("not-ready").values()) == ["partition 1 is already held by node 102"]


def test_a_network_keeps_an_instruction_beyond_its_deadline_so_that_late_reports_are_found(scene):
    sent = []

    class Recording(NetworkGrid):
        def push_messages(self, messages):
            sent.extend(messages)
            return super().push_messages(messages)

    nodes = made_nodes(6)
    next(iter(nodes.values())).report_after = 30.0
    run = scene(nodes, grid=Recording, rounds={"total": 2, "reporting_deadline": 20.0}).run()
    assert {message.metadata.ttl for message in sent if message.metadata.message_type == "train"} == {40.0}
    assert len(run.events("late-report-refused")) == 1
    assert [why for _, why, _, _ in run.grid.told].count(
        "late"
    ) == 3  # at both deadlines, and when its first report came
    assert all(np.isfinite(array).all() for array in run.state.values())
