"""On a network the server learns once which partition each node holds, and draws as a simulation does."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.core.errors import RunFailed
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
    with pytest.raises(RunFailed, match=r"0 clients were ready .*no data here"):
        run.run()
    assert run.reasons("unknown-node") == dict.fromkeys(nodes, "no data here")
    assert run.clock.now() < 2.5  # nobody else can come, so nobody is waited for


def test_of_two_nodes_with_one_partition_one_takes_part_and_the_other_is_refused(scene):
    nodes = {101: Node(0), 102: Node(1), 103: Node(1)}
    run = scene(nodes, grid=NetworkGrid, rounds={"minimum_ready": 0.5})
    run.run()
    assert cohorts(run) == [[0, 1]]
    assert list(run.reasons("not-ready").values()) == ["partition 1 is already held by client 102"]


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


def test_a_node_that_answers_after_the_window_is_named_with_its_seconds(scene):
    nodes = made_nodes(3)
    slow = next(iter(nodes.values()))
    rounds = {"total": 2, "selection_window": 10.0, "minimum_ready": 1.0, "max_attempts": 4, "backoff": 1.0}
    run = scene(nodes, grid=NetworkGrid, rounds=rounds)
    write = run.log.write

    def slow_after_round_one(event, **fields):
        write(event, **fields)
        slow.ready_after = {"committed": 14.0, "answered-late": 0.0}.get(event, slow.ready_after)

    run.log.write = slow_after_round_one
    run.run()
    first, second = run.events("too-few-ready")  # it is quick again when its first answer has come, in the second
    late = run.events("answered-late")[0]
    assert (late["round"], late["attempt"], late["partition"]) == (2, 1, slow.partition_id)
    assert late["seconds"] == pytest.approx(4.0, abs=1.5)
    assert late["reason"] == (
        f"an answer came after the selection window: partition {slow.partition_id} by {late['seconds']:.1f} s"
    )
    assert "came after" not in first["reason"]
    assert second["reason"].endswith(f"; 1 answer to an earlier question came after the window: {_end(late)}")
    assert run.events("committed")[-1]["attempt"] == 3


def _end(late):
    return late["reason"].partition(": ")[2]


def test_too_few_ready_nodes_are_said_with_the_answers_that_came_too_late_before(scene):
    nodes = made_nodes(2)
    for node in nodes.values():
        node.ready_after = 14.0
    rounds = {"total": 1, "selection_window": 10.0, "minimum_ready": 1.0, "max_attempts": 3, "backoff": 1.0}
    run = scene(nodes, grid=NetworkGrid, rounds=rounds)
    with pytest.raises(RunFailed):
        run.run()
    first, second, third = [event["reason"] for event in run.events("too-few-ready")]
    assert first == "0 clients were ready within 10 s, 2 are needed"  # who they are was known too late
    for reason in (second, third):
        assert reason.startswith(f"{first}; 2 answers to earlier questions came after the window: partition 0 by ")
        assert "partition 1 by " in reason


def test_a_simulated_node_is_not_waited_for_after_its_window(scene):
    nodes = {2 + partition: Node(partition) for partition in range(3)}
    nodes[2].ready_after = 14.0
    rounds = {"total": 2, "selection_window": 10.0, "minimum_ready": 0.5, "quorum": 0.5}
    run = scene(nodes, grid=ScriptedGrid, rounds=rounds).run()
    assert run.events("answered-late") == []
