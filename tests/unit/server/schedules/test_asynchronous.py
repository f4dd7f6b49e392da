"""Asynchronous rounds on nodes that follow a script: who counts when, how much, and what becomes of the others."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from flwr.app import ConfigRecord, Error, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from fedlearn import wire
from fedlearn.aggregation import ParcelPlan
from fedlearn.core.errors import RunFailed, SettingError
from fedlearn.core.seeding import report_seed
from fedlearn.core.state import Entries, layout_of
from fedlearn.runs.checkpoint import RunStore
from server.schedules.asynchronous.buffer import discounted
from server.schedules.asynchronous.staleness import Staleness
from strategies.fedavg import FedAvg
from tests.plain_reports import dense_report
from tests.unit.server.scripted import STATE, NetworkGrid, Node, honest_content

SLOW, FAST = 35.0, 10.0  # seconds of a training; looks are half a second apart


def nodes_of(number, **changes):
    """Return nodes 10, 11, ... holding partitions 0, 1, ...; all take ten seconds but those that are given."""
    nodes = {10 + partition: Node(partition, report_after=FAST) for partition in range(number)}
    return nodes | {10 + int(name[1:]): node for name, node in changes.items()}


def too_far(message, node):
    reply = dense_report(message, {n: a + a.dtype.type(1000) for n, a in STATE.items()}, {}, 10)
    instruction = wire.read_instruction(message.content)
    seed = report_seed(1, round_number=instruction.round_number, node=node.partition_id)
    reply.content[wire.REPORT] = wire.report_record(
        instruction, partition_id=node.partition_id, seed=seed, sends="weights"
    )
    wire.seal(reply.content)
    return [reply.content]


def rounds_of(schedule="buffered", total=4, options="", **changes):
    return {"total": total, "schedule": schedule, "schedule_options": options, "max_attempts": 2, **changes}


def in_rounds(run):
    """Return the reports that were counted in each committed round: (partition, round of the instruction)."""
    rounds, reported = [], []
    for event in run.events("reported", "committed"):
        if event["event"] == "reported":
            reported.append((event["partition"], event["round"]))
        else:
            rounds.append(reported)
            reported = []
    return rounds


def change_of(partition):
    """The number that a scripted node adds to every entry of any state (`scripted.trained`)."""
    return partition + 1


# --- what a report is worth -------------------------------------------------------------------------------------------


@given(st.sampled_from(["constant", "polynomial", "hinge"]), st.floats(0, 5), st.floats(0, 20), st.integers(0, 9))
def test_a_staler_report_never_counts_more_and_a_fresh_one_counts_whole(form, power, slope, grace):
    weights = [Staleness(form, power, slope, grace)(each) for each in range(30)]
    assert weights[0] == 1.0
    assert all(0 < later <= earlier for earlier, later in pairwise(weights))


@given(st.lists(st.floats(-9, 9), min_size=4, max_size=4), st.sets(st.integers(0, 3)), st.floats(0, 1), st.booleans())
def test_what_was_not_sent_stays_null_whatever_a_change_is_measured_from(values, sent, factor, has_offset):
    positions = np.array(sorted(sent), np.int64)
    entries = Entries(np.array(values)[positions], positions)
    offset = {"w": np.arange(4.0).reshape(2, 2)} if has_offset else None
    found = discounted({"w": entries}, factor, offset)["w"]
    assert found.positions is positions
    moved = np.array(values) + (np.arange(4.0) if has_offset else 0.0)
    np.testing.assert_allclose(found.values, factor * moved[positions])


def test_a_buffer_is_the_mean_of_changes_each_times_the_weight_of_its_staleness(scene):
    nodes = nodes_of(7, n2=Node(2, report_after=SLOW))
    run = scene(nodes, rounds=rounds_of(total=5, options={"in_flight": 4, "buffer_size": 2})).run()
    state, found = STATE["w"].astype(np.float64), in_rounds(run)
    assert any(round_number < number for number, each in enumerate(found, start=1) for _, round_number in each)
    for number, reports in enumerate(found, start=1):
        assert len(reports) == 2
        weights = [10 * (partition + 1) for partition, _ in reports]
        stale = [(1 + number - sent_in) ** -0.5 for _, sent_in in reports]  # Nguyen et al. 2022, section 5
        changes = [change_of(partition) for partition, _ in reports]
        state = state + sum(n * s * c for n, s, c in zip(weights, stale, changes, strict=True)) / sum(weights)
    np.testing.assert_allclose(run.state["w"], state, rtol=1e-6)


def test_immediate_mixes_what_a_node_has_made_of_its_own_state_into_the_latest(scene):
    nodes = nodes_of(5, n1=Node(1, report_after=SLOW))
    options = {"in_flight": 3, "mixing": 0.5, "staleness": "hinge", "slope": 2.0, "grace": 1}
    run = scene(nodes, rounds=rounds_of("immediate", total=8, options=options)).run()
    states = [STATE["w"].astype(np.float64)]  # after each round
    for number, ((partition, sent_in),) in enumerate(in_rounds(run), start=1):
        staleness = number - sent_in
        alpha = 0.5 * (1.0 if staleness <= 1 else 1 / (2.0 * (staleness - 1) + 1))  # Xie et al. 2019, section 5.2
        made = states[sent_in - 1] + change_of(partition)
        states.append((1 - alpha) * states[-1] + alpha * made)
    np.testing.assert_allclose(run.state["w"], states[-1], rtol=1e-6)
    assert max(event["staleness_largest"] for event in run.events("committed")) >= 2


@pytest.mark.parametrize("schedule", ["buffered", "immediate"])
def test_weights_and_changes_make_the_same_model(scene, schedule):
    def change(message, node):
        content = honest_content(message, node.partition_id)
        sent = wire.read_state(message.content)
        arrays = {name: np.full_like(array, change_of(node.partition_id)) for name, array in sent.items()}
        reply = dense_report(message, arrays, {"train_loss": 0.5}, 10 * change_of(node.partition_id))
        instruction = wire.read_instruction(message.content)
        seed = report_seed(1, round_number=instruction.round_number, node=node.partition_id)
        reply.content[wire.REPORT] = wire.report_record(
            instruction, partition_id=node.partition_id, seed=seed, sends="update"
        )
        wire.seal(reply.content)
        assert reply.content.keys() == content.keys()
        return [reply.content]

    def nodes(report):
        return {10 + p: Node(p, report_after=FAST + 3 * p, report=report) for p in range(5)}

    rounds = rounds_of(schedule, total=6, options={"in_flight": 3})
    weights = scene(nodes(None), rounds=rounds).run()
    changes = scene(nodes(change), rounds=rounds, compression={"send": "update"}).run()
    assert in_rounds(weights) == in_rounds(changes)
    for name, array in weights.state.items():
        np.testing.assert_allclose(changes.state[name], array, rtol=1e-5)


def test_reports_that_wait_when_the_run_is_over_count_among_the_bytes(scene):
    sizes = []

    def report(message, node):
        content = honest_content(message, node.partition_id)
        sizes.append(wire.bytes_of(content))
        return [content]

    nodes = {10 + partition: Node(partition, report_after=FAST, report=report) for partition in range(3)}
    run = scene(nodes, rounds=rounds_of(total=1, options={"in_flight": 3, "buffer_size": 1})).run()
    assert [event["reason"] for event in run.events("late")] == ["the run is over"] * 2
    assert run.store.history.rounds[0].bytes_up + run.server.exchange.traffic.up == sum(sizes)


# --- who is in flight -------------------------------------------------------------------------------------------------


def test_as_many_are_in_flight_as_are_wanted_and_nobody_twice(scene):
    nodes = nodes_of(9, n4=Node(4, report_after=SLOW))
    run = scene(nodes, rounds=rounds_of(total=6, options={"in_flight": 4, "buffer_size": 2})).run()
    at_work = 0
    for event in run.events("configured", "reported", "committed"):
        at_work += event["cohort"] if event["event"] == "configured" else -(event["event"] == "reported")
        assert at_work <= 4
    told = [(i.round_number, i.attempt, node) for node, each in nodes.items() for i in each.instructions]
    assert len(told) == len({*told})
    ends = [(e["round"], e["attempt"], e["node"]) for e in run.events("reported", "failed", "refused", "late")]
    assert sorted(told) == sorted(ends)


def test_fewer_in_flight_than_make_a_buffer_are_replaced_until_it_is_full(scene):
    run = scene(nodes_of(6), rounds=rounds_of(total=1, options={"in_flight": 2, "buffer_size": 5})).run()
    (record,) = run.store.history.rounds
    assert record.reported == 5
    assert [event["cohort"] for event in run.events("configured")] == [2, 1, 1, 1, 1]


def test_who_works_on_too_old_a_state_is_stopped_and_what_it_sends_is_late(scene):
    nodes = nodes_of(4, n0=Node(0, report_after=SLOW))
    options = {"in_flight": 2, "largest_staleness": 2}
    run = scene(nodes, rounds=rounds_of("immediate", total=12, options=options)).run()
    stale = [event for event in run.events("late") if event["reason"].startswith("stale: ")]
    assert [event["node"] for event in stale] == [10] * len(stale)
    assert stale
    assert {event["reason"] for event in stale} == {"stale: 3 commits since it was sent the state, allowed are 2"}
    assert all((10, "late", event["round"], event["attempt"]) in run.grid.told for event in stale)
    assert all(event["partition"] != 0 for event in run.events("reported"))
    assert {event["node"] for event in run.events("late-report-refused")} <= {10}


def test_who_says_nothing_is_replaced_at_its_deadline(scene):
    nodes = nodes_of(6, n3=Node(3, report_after=None))
    rounds = rounds_of(total=3, options={"in_flight": 5, "buffer_size": 2}, reporting_deadline=15.0)
    run = scene(nodes, rounds=rounds).run()
    silent = [event for event in run.events("late") if event["reason"] == "no report by the reporting deadline"]
    assert {event["node"] for event in silent} <= {13}
    assert all(record.reported == 2 for record in run.store.history.rounds)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_report_is_judged_by_the_round_that_its_node_was_sent(scene):
    def of_the_next(message, node):
        content = honest_content(message, node.partition_id)
        instruction = wire.read_instruction(message.content)
        later = instruction._replace(round_number=instruction.round_number + 1)
        seed = report_seed(1, round_number=later.round_number, node=node.partition_id)
        content[wire.REPORT] = wire.report_record(later, partition_id=node.partition_id, seed=seed, sends="weights")
        wire.seal(content)
        return [content]

    nodes = nodes_of(5, n2=Node(2, report_after=SLOW, report=of_the_next))
    run = scene(nodes, rounds=rounds_of("immediate", total=16, options={"in_flight": 5})).run()
    refused = run.events("refused")
    assert {event["node"] for event in refused} == {12}
    assert all(event["reason"].startswith("wrong-round: ") and event["staleness"] > 0 for event in refused)


def shrinking(message, node):
    """A node whose changes are a tenth as long for each later version of the state."""
    instruction = wire.read_instruction(message.content)
    state = wire.read_state(message.content)
    factor = 0.1**instruction.round_number
    arrays = {n: a + a.dtype.type(factor * (node.partition_id + 1)) for n, a in state.items()}
    reply = dense_report(message, arrays, {"train_loss": 0.5}, 10)
    seed = report_seed(1, round_number=instruction.round_number, node=node.partition_id)
    reply.content[wire.REPORT] = wire.report_record(
        instruction, partition_id=node.partition_id, seed=seed, sends="weights"
    )
    wire.seal(reply.content)
    return [reply.content]


def test_a_stale_report_is_compared_with_what_was_usual_of_its_own_state(scene):
    nodes = {10 + p: Node(p, report_after=FAST, report=shrinking) for p in range(8)}
    nodes[12].report_after = SLOW
    run = scene(nodes, rounds=rounds_of(total=6, options={"in_flight": 8, "buffer_size": 4})).run()
    late_one = [event for event in run.events("reported", "refused") if event["node"] == 12]
    assert late_one[0]["event"] == "reported"
    assert late_one[0]["staleness"] > 0
    assert late_one[0]["norm"] > 5 * run.store.typical.norm  # by what is usual now it would be refused


@pytest.mark.parametrize("schedule", ["buffered", "immediate"])
def test_who_goes_too_far_is_refused_once_three_reports_are_known(scene, schedule):
    nodes = nodes_of(8, n5=Node(5, report_after=FAST + 5, report=too_far))
    run = scene(nodes, rounds=rounds_of(schedule, total=8, options={"in_flight": 8})).run()
    refused = run.events("refused")
    assert refused
    assert {event["node"] for event in refused} == {15}
    assert all("norm-too-large" in event["reason"] for event in refused)
    assert np.abs(run.state["w"]).max() < 100


def test_a_second_report_is_refused_and_the_first_stands(scene):
    def twice(message, node):
        return [honest_content(message, node.partition_id)] * 2

    nodes = nodes_of(4, n1=Node(1, report_after=FAST, report=twice))
    run = scene(nodes, rounds=rounds_of("buffered", total=1, options={"buffer_size": 4})).run()
    assert run.reasons("refused") == {11: "duplicate: client 11 has already reported"}
    assert [event["node"] for event in run.events("reported")].count(11) == 1
    assert run.store.history.rounds[0].uploads == 5


class Asking(FedAvg):
    def answers(self, state):
        return {"control": ParcelPlan(layout_of(state), self.accumulator)}


def test_a_strategy_that_asks_for_more_than_the_state_is_refused(scene):
    with pytest.raises(SettingError, match="sends parcels beside the state: use 'synchronous'"):
        scene(nodes_of(3), strategy=Asking(), rounds=rounds_of()).run()


# --- where nobody is left ---------------------------------------------------------------------------------------------


def test_a_buffer_that_holds_the_quorum_is_committed_when_nobody_is_left(scene):
    nodes = nodes_of(4, n0=Node(0, failing="no disk", report_after=FAST))
    run = scene(nodes, rounds=rounds_of(total=1, options={"buffer_size": 4}, quorum=0.75)).run()
    (record,) = run.store.history.rounds
    assert (record.reported, record.failed, record.attempts) == (3, 1, 1)


def test_who_is_abandoned_is_told_of_the_attempt_that_its_instruction_was_of(scene):
    def report(message, node):
        if wire.read_instruction(message.content).attempt == 2:
            return [Error(2, "not again")]
        return too_far(message, node) if node.partition_id == 2 else [honest_content(message, node.partition_id)]

    nodes = {10 + partition: Node(partition, report_after=FAST, report=report) for partition in range(3)}
    nodes[13] = Node(3, report_after=SLOW)
    rounds = rounds_of(total=1, max_attempts=1, quorum=1.0, options={"in_flight": 4, "buffer_size": 3})
    run = scene(nodes, rounds=rounds)
    with pytest.raises(RunFailed):  # the first attempt is judged anew; the second has but two reports of one node
        run.run()
    told = [(round_number, attempt) for node, why, round_number, attempt in run.grid.told
            if (node, why) == (13, "abandoned")]  # fmt: skip
    assert told == [(1, 1), (1, 2)]


def test_below_the_quorum_the_attempt_is_abandoned_and_its_reports_never_count(scene):
    nodes = nodes_of(4, n0=Node(0, failing="no disk", report_after=FAST))
    run = scene(nodes, rounds=rounds_of(total=1, options={"buffer_size": 4}, quorum=1.0))
    with pytest.raises(RunFailed, match="3 of 4 clients reported, quorum is 4; first reason: no disk"):
        run.run()
    assert all(np.array_equal(run.state[name], STATE[name]) for name in STATE)
    assert {(node, attempt) for node, why, _, attempt in run.grid.told if why == "abandoned"} == {
        (node, attempt) for node in (11, 12, 13) for attempt in (1, 2)
    }


# --- on a network -----------------------------------------------------------------------------------------------------


def test_it_runs_in_wall_time_on_nodes_of_which_a_network_says_nothing(scene):
    nodes = {701: Node(3, report_after=FAST), 44: Node(0, report_after=FAST), 90: Node(2, report_after=SLOW)}
    nodes |= {5: Node(1, report_after=FAST), 6: Node(4, connected=False)}
    rounds = rounds_of(total=5, options={"in_flight": 3, "buffer_size": 2})
    run = scene(nodes, grid=NetworkGrid, rounds=rounds).run()
    assert [record.reported for record in run.store.history.rounds] == [2] * 5
    assert max(event["staleness_largest"] for event in run.events("committed")) >= 1
    assert nodes[6].instructions == []


def test_who_could_not_say_what_it_holds_is_asked_again_in_the_next_round(scene):
    first = []

    def ready(message, node):
        if not first:
            first.append(message)
            return [Error(2, "no data yet")]
        return [RecordDict({wire.CONFIG: ConfigRecord({"partition_id": node.partition_id, "why_not": ""})})]

    node = Node(3, report_after=FAST, ready=ready)
    rounds = rounds_of(options={"in_flight": 2, "buffer_size": 2})
    run = scene(nodes_of(4, _3=node), grid=NetworkGrid, rounds=rounds).run()
    assert run.reasons("unknown-node") == {13: "no data yet"}
    assert 3 in {partition for reports in in_rounds(run) for partition, _ in reports}


def test_who_never_says_what_it_holds_is_asked_once_a_round_and_holds_up_nobody(scene):
    hostile = Node(3, ready=lambda message, node: [Error(2, "never")])
    rounds = rounds_of(options={"in_flight": 2, "buffer_size": 2})
    run = scene(nodes_of(4, _3=hostile), grid=NetworkGrid, rounds=rounds).run()
    assert [record.reported for record in run.store.history.rounds] == [2] * 4
    assert 2 <= run.grid.asked.count(13) <= 1 + 4  # at the roll call, and in each round
    assert not hostile.instructions


def test_who_is_gone_after_a_resume_has_failed_and_the_others_are_sent_the_same_again(scene):
    nodes = {44: Node(0, report_after=SLOW), 90: Node(1, report_after=SLOW), 5: Node(2, report_after=FAST)}
    nodes |= {6: Node(3, report_after=FAST)}
    rounds = rounds_of(total=1, options={"in_flight": 4, "buffer_size": 2})
    run = scene(nodes, grid=NetworkGrid, rounds=rounds).run()
    first = nodes[90].instructions[0]
    nodes[44].connected = False
    run.grid.nodes[44].connected = False
    run.with_settings(rounds={"total": 3}).run()
    assert nodes[90].instructions[1] == first
    assert run.reasons("failed") == {-1: "the client is not connected"}
    assert len(run.store.history.rounds) == 3


# --- after a stop -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [1, 2, 3, 4])
@pytest.mark.parametrize("schedule", ["buffered", "immediate"])
def test_reports_that_wait_at_a_commit_are_taken_in_after_a_resume(scene, schedule, stop):
    """All answer at once, so that most reports have come when a round is committed, and wait."""

    def fresh():
        return {10 + p: Node(p) for p in range(7)}

    rounds = rounds_of(schedule, total=6, options={"in_flight": 5})
    whole = scene(fresh(), rounds=rounds).run()
    run = scene(fresh(), rounds={**rounds, "total": stop}).run()
    stored = RunStore(run.folder.path, run.store.metrics)
    stored.load()
    assert any(name.startswith("schedule/landed/") for name in stored.memory)
    run.with_settings(rounds={"total": 6}).run()
    assert run.store.model_sha256 == whole.store.model_sha256
    assert in_rounds(run) == in_rounds(whole)
