from __future__ import annotations

import random

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Error, RecordDict

from fedlearn import wire
from fedlearn.core.cohort import needed_of
from fedlearn.core.errors import RunFailed
from fedlearn.core.metric import Metric
from fedlearn.core.metrics import NEURAL_CLASSIFIER
from fedlearn.flower import ErrorCode
from fedlearn.runs.checkpoint import RunStore
from server.schedules.synchronous import Synchronous
from tests.oracles import averaging
from tests.unit.server.scripted import STATE, NetworkGrid, Node, honest_content, trained


def nodes_of(number, **changes):
    """Return nodes 10, 11, ... holding partitions 0, 1, ...; `changes` by name, as n1=Node(...)."""
    nodes = {10 + partition: Node(partition) for partition in range(number)}
    return nodes | {10 + int(name[1:]): node for name, node in changes.items()}


def mean_of(partitions, state=STATE):
    """FedAvg's mean of the honest reports of some partitions, by the oracle."""
    after = {}
    for name, old in state.items():
        rows = [(10 * (p + 1), trained(state, p)[name], np.ones(old.shape, bool)) for p in partitions]
        exact = averaging.combined(old, rows, averaging.mean, update=False)
        after[name] = np.asarray(np.rint(exact) if old.dtype.kind == "i" else exact).astype(old.dtype)
    return after


def assert_state(found, expected):
    assert {n: a.tobytes() for n, a in found.items()} == {n: a.tobytes() for n, a in expected.items()}


# --- a round that commits ---------------------------------------------------------------------------------------------


def test_round_commits_the_mean_of_all_reports(scene):
    run = scene(nodes_of(4)).run()
    assert_state(run.state, mean_of(range(4)))
    (record,) = run.store.history.rounds
    assert (record.ready, record.cohort, record.reported, record.attempts) == (4, 4, 4, 1)
    assert record.measured["train_loss"] == 0.5


def test_next_round_starts_from_the_committed_state(scene):
    run = scene(nodes_of(3), rounds={"total": 2}).run()
    assert_state(run.state, mean_of(range(3), mean_of(range(3))))


def test_events_of_a_committed_round_tell_each_transition(scene):
    run = scene(nodes_of(3)).run()
    kinds = [event["event"] for event in run.events()]
    assert kinds == [
        "round-started", *["ready"] * 3, "selected", "configured", *["reported"] * 3, "committed",
    ]  # fmt: skip
    assert all((event["round"], event["attempt"]) == (1, 1) for event in run.events())
    reported = run.events("reported")
    assert [(e["node"], e["partition"]) for e in reported] == [(10, 0), (11, 1), (12, 2)]
    (committed,) = run.events("committed")
    assert sum(e["bytes"] for e in reported) == committed["bytes_up"] > 0
    assert run.events("configured")[0]["bytes"] == committed["bytes_down"] > 0
    assert committed["bytes_protocol"] > 0


def test_bytes_are_those_of_the_serialised_messages(scene):
    sizes = []

    def report(message, node):
        sizes.append(wire.bytes_of(honest_content(message, node.partition_id)))
        return [honest_content(message, node.partition_id)]

    run = scene({10: Node(0, report=report), 11: Node(1, report=report)}).run()
    assert run.store.history.rounds[0].bytes_up == sum(sizes)


def test_two_late_answers_in_one_look_are_refused_once_and_counted_twice_among_the_bytes(scene):
    def twice(message, node):
        return [honest_content(message, node.partition_id)] * 2

    nodes = nodes_of(5, n2=Node(2, report_after=130.0, report=twice))
    run = scene(nodes, rounds={"reporting_deadline": 100.0, "total": 2}).run()
    (refused,) = run.events("late-report-refused")
    traffic = run.server.exchange.traffic  # after the last commit
    assert (traffic.up, traffic.uploads) == (2 * refused["bytes"], 2)


# --- selection --------------------------------------------------------------------------------------------------------


def test_too_few_ready_gives_up_backs_off_twice_as_long_each_time_and_tries_again(scene):
    slow = {f"n{i}": Node(i, ready_after=None) for i in range(2, 5)}
    run = scene(nodes_of(5, **slow), rounds={"selection_window": 60.0, "max_attempts": 4, "backoff": 3.0})
    starts = []
    write = run.log.write

    def watch(event, **fields):
        if event == "round-started":
            starts.append(run.clock.now())
            if fields["attempt"] == 4:  # at last they are there
                for node in run.grid.nodes.values():
                    node.ready_after = 0.0
        write(event, **fields)

    run.log.write = watch
    run.run()
    assert np.allclose(np.diff(starts), [60 + 3, 60 + 6, 60 + 12], atol=0.06)
    assert [e["seconds"] for e in run.events("backing-off")] == [3, 6, 12]
    few = run.events("too-few-ready")
    assert [(e["attempt"], e["ready"], e["needed"]) for e in few] == [(1, 2, 4), (2, 2, 4), (3, 2, 4)]
    assert "2 clients were ready within 60 s, 4 are needed" in few[0]["reason"]
    assert run.store.history.rounds[0].attempts == 4


@pytest.mark.parametrize(("others", "said"), [(1, "only 3 clients were ready"), (3, "only 1 client was ready")])
def test_no_node_is_instructed_when_too_few_are_ready(scene, others, said):
    absent = {f"n{i}": Node(i, ready_after=None) for i in range(others)}
    run = scene(nodes_of(4, **absent), rounds={"minimum_ready": 1.0, "max_attempts": 2})
    with pytest.raises(RunFailed, match=said):
        run.run()
    assert not any(node.instructions for node in run.grid.nodes.values())


def test_backoff_is_never_longer_than_a_minute(scene):
    run = scene({10: Node(0, ready_after=None)}, rounds={"selection_window": 1.0, "max_attempts": 9, "backoff": 20.0})
    with pytest.raises(RunFailed):
        run.run()
    assert [e["seconds"] for e in run.events("backing-off")] == [20, 40, 60, 60, 60, 60, 60, 60]


class ImpatientSchedule(Synchronous):
    def pause_before(self, attempt):
        return 0.5 if attempt == 2 else 0.0


def test_a_schedule_says_itself_how_long_it_waits_before_an_attempt(scene):
    run = scene(
        {10: Node(0, ready_after=None)}, rounds={"max_attempts": 3, "schedule": f"{__name__}:ImpatientSchedule"}
    )
    with pytest.raises(RunFailed):
        run.run()
    assert [e["seconds"] for e in run.events("backing-off")] == [0.5, 0.0]


def test_ready_nodes_that_are_not_drawn_are_told_so_and_get_no_instruction(scene):
    run = scene(nodes_of(6), rounds={"cohort": 4, "invited": 6}).run()
    rejected = {e["node"] for e in run.events("rejected")}
    assert len(rejected) == 2
    assert {(node, why) for node, why, *_ in run.grid.told} == {(node, "rejected") for node in rejected}
    assert {n for n, node in run.grid.nodes.items() if node.instructions} == run.grid.nodes.keys() - rejected
    assert run.events("selected")[0] | {"time": 0} == {
        "time": 0, "event": "selected", "round": 1, "attempt": 1, "ready": 6, "cohort": 4, "rejected": 2,
    }  # fmt: skip


def test_not_ready_node_is_logged_with_its_reason_and_left_out(scene):
    run = scene(nodes_of(5, n3=Node(3, why_not="it has no examples"))).run()
    assert run.reasons("not-ready") == {13: "it has no examples"}
    assert_state(run.state, mean_of([0, 1, 2, 4]))


def test_another_node_is_asked_in_place_of_one_that_is_not_ready(scene):
    nodes = nodes_of(10)
    for node in nodes.values():
        node.why_not = "battery low" if node.partition_id < 7 else ""
    run = scene(nodes, rounds={"cohort": 3, "invited": 3}).run()
    assert_state(run.state, mean_of([7, 8, 9]))


MALFORMED = {
    "nothing at all": RecordDict(),
    "no partition": RecordDict({"config": ConfigRecord({"why_not": ""})}),
    "no word": RecordDict({"config": ConfigRecord({"partition_id": 1})}),
    "negative partition": RecordDict({"config": ConfigRecord({"partition_id": -1, "why_not": ""})}),
    "partition as text": RecordDict({"config": ConfigRecord({"partition_id": "1", "why_not": ""})}),
    "partition as float": RecordDict({"config": ConfigRecord({"partition_id": 1.0, "why_not": ""})}),
    "partition as list": RecordDict({"config": ConfigRecord({"partition_id": [1], "why_not": ""})}),
    "truth for a partition": RecordDict({"config": ConfigRecord({"partition_id": True, "why_not": ""})}),
    "number for a word": RecordDict({"config": ConfigRecord({"partition_id": 1, "why_not": 0})}),
    "arrays for a record": RecordDict({"config": ArrayRecord()}),
}


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_ready_answer_is_a_node_that_is_not_ready(scene, content):
    run = scene(nodes_of(5, n1=Node(1, ready=lambda message, node: [content]))).run()
    assert run.reasons("not-ready") == {11: "malformed answer"}
    assert_state(run.state, mean_of([0, 2, 3, 4]))


@pytest.mark.parametrize(("text", "reason"), [("no data", "no data"), (None, "no reason given")])
def test_node_whose_ready_answer_is_an_error_is_not_ready(scene, text, reason):
    run = scene(nodes_of(5, n1=Node(1, ready=lambda message, node: [Error(2, text)]))).run()
    assert run.reasons("not-ready") == {11: reason}


def test_second_ready_answer_of_the_same_node_changes_nothing(scene):
    def twice(message, node):
        said = RecordDict({"config": ConfigRecord({"partition_id": node.partition_id, "why_not": ""})})
        return [said, said]

    run = scene(nodes_of(3, n1=Node(1, ready=twice))).run()
    assert_state(run.state, mean_of(range(3)))


def test_of_two_nodes_that_claim_one_partition_the_first_to_answer_takes_part(scene):
    nodes = nodes_of(3) | {99: Node(1, ready_after=5.0)}
    run = scene(nodes, grid=NetworkGrid, rounds={"minimum_ready": 0.7, "quorum": 0.7}).run()
    assert run.reasons("not-ready") == {99: "partition 1 is already held by client 11"}
    assert_state(run.state, mean_of(range(3)))


def test_where_the_grid_knows_what_nodes_hold_none_can_claim_anothers_partition(scene):
    says = RecordDict({wire.CONFIG: ConfigRecord({"partition_id": 1, "why_not": ""})})
    run = scene(nodes_of(3, n2=Node(2, ready=lambda *_: [says])), rounds={"minimum_ready": 0.6}).run()
    assert run.reasons("not-ready") == {12: "it says that it holds partition 1, which client 11 holds"}


def test_answer_after_the_window_comes_too_late(scene):
    run = scene(nodes_of(5, n4=Node(4, ready_after=60.1)), rounds={"selection_window": 60.0}).run()
    assert run.store.history.rounds[0].ready == 4
    assert not run.grid.nodes[14].instructions


def test_selection_ends_as_soon_as_all_have_answered(scene):
    run = scene(nodes_of(5, n4=Node(4, ready_after=2.0))).run()
    assert run.store.history.rounds[0].selection_seconds == pytest.approx(2.0, abs=0.1)


def test_node_that_cannot_be_written_to_does_not_hold_up_the_selection(scene):
    run = scene(nodes_of(5, n2=Node(2, connected=False))).run()
    assert run.store.history.rounds[0].selection_seconds < 1
    assert_state(run.state, mean_of([0, 1, 3, 4]))


def test_server_waits_for_nodes_that_connect_within_the_window(scene):
    run = scene(nodes_of(4))
    late_comer = run.grid.nodes.pop(13)
    sleep = run.clock.sleep

    def connects(seconds):
        sleep(seconds)
        if run.clock.now() > 20:
            run.grid.nodes.setdefault(13, late_comer)

    run.clock.sleep = connects
    run.run()
    assert_state(run.state, mean_of(range(4)))
    assert 20 < run.store.history.rounds[0].selection_seconds < 25


def drawn(scene, nodes, **settings):
    for node in nodes.values():
        node.run_seed = settings.get("seed", 1)
    run = scene(nodes, rounds={"cohort": 5, "invited": len(nodes)}, **settings).run()
    return sorted(node.partition_id for node in run.grid.nodes.values() if node.instructions)


def test_cohort_does_not_depend_on_node_ids_or_on_the_order_of_answers(scene):
    expected = drawn(scene, nodes_of(12))
    for seed in range(3):
        shuffled = random.Random(seed)
        ids = shuffled.sample(range(2, 2**63), 12)
        nodes = {node_id: Node(partition, ready_after=shuffled.random()) for partition, node_id in enumerate(ids)}
        assert drawn(scene, nodes) == expected


def test_cohort_changes_with_seed_and_round(scene):
    assert len({tuple(drawn(scene, nodes_of(12), seed=seed)) for seed in range(6)}) > 3
    run = scene(nodes_of(12), rounds={"cohort": 5, "total": 6}).run()
    by_round = [
        tuple(n.partition_id for n in run.grid.nodes.values() if r in [i.round_number for i in n.instructions])
        for r in range(1, 7)
    ]
    assert len(set(by_round)) > 3


def test_positions_follow_partition_ids_not_node_ids(scene):
    ids = [40, 30, 20, 10]
    run = scene({node_id: Node(partition) for partition, node_id in enumerate(ids)}).run()
    assert [run.grid.nodes[node_id].instructions[0].position for node_id in ids] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("share", "count", "needed"),
    [(1.0, 7, 7), (0.8, 10, 8), (0.8, 5, 4), (0.5, 3, 2), (0.55, 100, 55), (0.07, 100, 7), (1e-9, 5, 1), (0.3, 0, 1)],
)
def test_share_of_nodes_is_rounded_up_but_not_by_rounding_errors(share, count, needed):
    assert needed_of(share, count) == needed


@pytest.mark.parametrize(("missing", "commits"), [(1, True), (2, False)])
@pytest.mark.parametrize("phase", ["minimum_ready", "quorum"])
def test_exactly_the_needed_share_is_enough_and_one_less_is_not(scene, phase, missing, commits):
    slow = {"ready_after": None} if phase == "minimum_ready" else {"report_after": None}
    other = {"quorum": 0.1} if phase == "minimum_ready" else {"minimum_ready": 0.1}
    changes = {f"n{i}": Node(i, **slow) for i in range(missing)}
    run = scene(nodes_of(5, **changes), rounds={phase: 0.8, "max_attempts": 1, **other})
    if commits:
        run.run()
        assert_state(run.state, mean_of([1, 2, 3, 4]))
    else:
        with pytest.raises(RunFailed):
            run.run()


# --- reporting --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [("\n\nValueError: bad\n  at line 3", "ValueError: bad"), (" ", "no reason given"), (None, "no reason given")],
)
def test_failed_node_is_skipped_and_its_reason_logged_in_one_line(scene, text, reason):
    run = scene(nodes_of(5, n2=Node(2, failing=text))).run()
    assert run.reasons("failed") == {12: reason}
    assert_state(run.state, mean_of([0, 1, 3, 4]))
    assert run.store.history.rounds[0].failed == 1


def test_node_that_left_after_saying_ready_has_failed_and_is_not_waited_for(scene):
    nodes = nodes_of(5)

    def leaves(message, node):
        node.connected = False
        return [RecordDict({"config": ConfigRecord({"partition_id": node.partition_id, "why_not": ""})})]

    nodes[12].ready = leaves
    run = scene(nodes).run()
    assert run.reasons("failed") == {12: "the client is not connected"}
    assert run.clock.now() < 1
    assert_state(run.state, mean_of([0, 1, 3, 4]))


def test_round_commits_at_the_deadline_without_the_late_node_who_is_told(scene):
    run = scene(nodes_of(5, n2=Node(2, report_after=None)), rounds={"reporting_deadline": 100.0}).run()
    assert run.reasons("late") == {12: "no report by the reporting deadline"}
    assert run.store.history.rounds[0].training_seconds == pytest.approx(100.0)
    assert (12, "late", 1, 1) in run.grid.told
    assert_state(run.state, mean_of([0, 1, 3, 4]))


def test_report_at_the_deadline_still_counts(scene):
    run = scene(nodes_of(5, n2=Node(2, report_after=100.0)), rounds={"reporting_deadline": 100.0}).run()
    assert_state(run.state, mean_of(range(5)))


def test_late_report_is_refused_later_and_does_not_touch_the_model(scene):
    nodes = nodes_of(5, n2=Node(2, report_after=130.0), n3=Node(3, report_after=90.0))
    settings = {"reporting_deadline": 100.0, "total": 3}
    run = scene(nodes, rounds=settings).run()
    refused = run.events("late-report-refused")
    # Round 1's comes in the middle of round 2, round 2's when the run ends, round 3's never.
    assert [(e["round"], e["node"], e["partition"]) for e in refused] == [(1, 12, 2), (2, 12, 2)]
    assert "deadline" in refused[0]["reason"]
    assert run.grid.told.count((12, "late", 1, 1)) == 2  # at the deadline, and when the report came after all
    expected = STATE
    for _ in range(3):
        expected = mean_of([0, 1, 3, 4], expected)
    assert_state(run.state, expected)


def test_second_report_of_the_same_node_is_ignored(scene):
    def twice(message, node):
        second = honest_content(message, node.partition_id)
        second[wire.ARRAYS] = wire.pack_arrays({name: array * 0 for name, array in STATE.items()})
        return [honest_content(message, node.partition_id), second]

    run = scene(nodes_of(5, n1=Node(1, report=twice), n4=Node(4, report_after=3.0))).run()
    assert_state(run.state, mean_of(range(5)))
    assert run.reasons("refused") == {11: "duplicate: client 11 has already reported"}
    record = run.store.history.rounds[0]
    assert (record.reported, record.refused) == (5, 0)


def test_error_after_a_report_changes_nothing(scene):
    both = Node(1, report=lambda message, node: [honest_content(message, 1), Error(2, "crash at exit")])
    run = scene(nodes_of(5, n1=both, n4=Node(4, report_after=3.0))).run()
    assert_state(run.state, mean_of(range(5)))


# --- abandon and restart ----------------------------------------------------------------------------------------------


def test_below_quorum_the_round_is_abandoned_the_reported_are_told_and_the_next_attempt_commits(scene):
    nodes = nodes_of(5)
    for partition in (1, 3):
        nodes[10 + partition].report = lambda message, node: (
            [Error(2, "out of memory")] if len(node.instructions) == 1 else [honest_content(message, node.partition_id)]
        )
    run = scene(nodes).run()
    (abandoned,) = run.events("abandoned")
    assert (abandoned["round"], abandoned["attempt"]) == (1, 1)
    assert abandoned["reason"] == "3 of 5 clients reported, quorum is 4; first reason: out of memory"
    assert sorted(told for told in run.grid.told) == [(n, "abandoned", 1, 1) for n in (10, 12, 14)]
    assert [i.attempt for i in nodes[10].instructions] == [1, 2]
    assert_state(run.state, mean_of(range(5)))  # nothing of the first attempt is left in it
    assert run.store.history.rounds[0].attempts == 2


def test_when_all_attempts_are_used_up_the_run_fails_with_the_reason_and_the_state_stays_stored(scene):
    nodes = nodes_of(4)
    for node in nodes.values():
        node.report = lambda message, node: (
            [honest_content(message, node.partition_id)]
            if node.instructions[-1].round_number == 1
            else [Error(2, "disk full")]
        )
    run = scene(nodes, rounds={"total": 3, "max_attempts": 3})
    with pytest.raises(
        RunFailed, match=r"round 2 never committed .rounds.max_attempts = 3.*0 of 4 clients reported.*disk full"
    ) as failed:
        run.run()
    assert "\n" not in str(failed.value)
    again = RunStore(run.folder.path)
    again.load()
    assert_state(again.state, mean_of(range(4)))
    assert len(again.history.rounds) == 1
    assert [e["attempt"] for e in run.events("abandoned")] == [1, 2, 3]
    assert len(run.events("backing-off")) == 2  # none after the last attempt


def failing(node, *answers):
    """Let the node answer instructions with these errors, one after the other, and then honestly."""
    left = list(answers)
    node.report = lambda message, node: [left.pop(0) if left else honest_content(message, node.partition_id)]


RAISED, CRASHED = ErrorCode.CLIENT_APP_RAISED_EXCEPTION, ErrorCode.CLIENT_APP_CRASHED


def test_a_run_all_of_whose_nodes_raise_alike_before_any_has_reported_ends_at_once(scene):
    nodes = nodes_of(4)
    for place, node in enumerate(nodes.values()):
        failing(node, Error(RAISED, f"ValueError: got {place} rows"))
    run = scene(nodes)
    with pytest.raises(RunFailed, match=r"every client fails alike, .*0 of 4 clients reported.*ValueError: got 0 rows"):
        run.run()
    assert len(run.events("round-started")) == 1


def test_a_run_none_of_whose_nodes_can_say_that_it_is_ready_ends_at_once(scene):
    nodes = nodes_of(4)
    for node in nodes.values():
        node.ready = lambda message, node: [Error(RAISED, "KeyError: 'x'")]
    run = scene(nodes)
    with pytest.raises(RunFailed, match=r"every client fails alike, .*only 0 clients were ready.*KeyError: 'x'"):
        run.run()
    assert len(run.events("round-started")) == 1


@pytest.mark.parametrize(
    "errors",
    [
        [Error(RAISED, "ValueError: a")] * 3 + [Error(RAISED, "ValueError: b")],
        [Error(RAISED, "ValueError: a")] * 3,
        [Error(CRASHED, "its worker process died")] * 4,
    ],
    ids=["another error", "one has reported", "not raised"],
)
def test_nodes_that_do_not_all_raise_alike_are_asked_again(scene, errors):
    nodes = nodes_of(4)
    for node, error in zip(nodes.values(), errors, strict=False):
        failing(node, error)
    assert scene(nodes).run().store.history.rounds[0].attempts == 2


def test_nodes_that_raise_alike_in_a_later_round_are_asked_again(scene):
    nodes = nodes_of(4)
    for node in nodes.values():
        node.report = lambda message, node: (
            [Error(RAISED, "OSError: disk full")]
            if node.instructions[-1][:2] == (2, 1)
            else [honest_content(message, node.partition_id)]
        )
    run = scene(nodes, rounds={"total": 2}).run()
    assert [record.attempts for record in run.store.history.rounds] == [1, 2]


def test_run_goes_on_after_a_failure_from_the_stored_state(scene):
    nodes = nodes_of(4)
    run = scene(nodes, rounds={"total": 2, "max_attempts": 1})
    for node in nodes.values():
        node.failing = "maintenance"
    with pytest.raises(RunFailed):
        run.run()
    for node in nodes.values():
        node.failing = ""
    run.run()
    assert_state(run.state, mean_of(range(4), mean_of(range(4))))


# --- evaluation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("every", "total", "evaluated"), [(1, 3, [1, 2, 3]), (2, 5, [2, 4, 5]), (9, 4, [4])])
def test_state_is_evaluated_every_k_rounds_and_in_the_last(scene, every, total, evaluated):
    run = scene(nodes_of(3), rounds={"total": total}, evaluation={"where": "nodes", "every": every}).run()
    assert [e["round"] for e in run.events("evaluating")] == evaluated
    records = run.store.history.rounds
    assert [r.round_number for r in records if r.measured["accuracy"] is not None] == evaluated
    assert records[-1].measured["loss"] == 1.0


def test_evaluation_through_nodes_asks_the_cohort_and_no_others(scene):
    run = scene(nodes_of(6), rounds={"cohort": 4}, evaluation={"where": "nodes"}).run()
    assert sorted(run.grid.evaluated) == [n for n, node in run.grid.nodes.items() if node.instructions]


def test_mean_of_the_nodes_evaluations_does_not_depend_on_who_answers_first(scene):
    def run(seconds):
        nodes = [Node(i, evaluate_after=s, metrics={"loss": 10.0**-i / 3}) for i, s in enumerate(seconds)]
        settings = {"evaluation": {"where": "nodes"}, "rounds": {"reporting_deadline": 60.0}}
        return scene(dict(enumerate(nodes, start=10)), **settings).run().store.history.rounds[0].measured["loss"]

    assert run(range(9)) == run(reversed(range(9))) == run([0, 3, 6, 1, 4, 7, 2, 5, 8])


def test_node_that_does_not_answer_is_left_out_of_the_evaluation(scene):
    silent = Node(1, evaluate_after=None, metrics={"loss": 9.0})
    run = scene(nodes_of(3, n1=silent), evaluation={"where": "nodes"}).run()
    assert run.store.history.rounds[0].measured["loss"] == 1.0


@pytest.mark.parametrize(
    "metrics",
    [
        {"loss": float("nan"), "accuracy": 0.9},
        {"loss": 9.0, "accuracy": 0.9, "num-examples": 0},
        {"loss": 9.0, "accuracy": 0.9, "num-examples": -5},
        {"loss": 9.0, "accuracy": 0.9, "num-examples": 1e300},
        {"loss": 9.0, "accuracy": [0.9, 0.9]},
        {"loss": 9.0},
        {"loss": 9.0, "accuracy": 0.9, "more": 1.0},
    ],
)
def test_one_bad_evaluation_neither_ends_the_run_nor_spoils_the_mean(scene, metrics):
    run = scene(nodes_of(5, n2=Node(2, metrics=metrics)), evaluation={"where": "nodes"}).run()
    record = run.store.history.rounds[0]
    assert (record.measured["loss"], record.measured["accuracy"]) == (1.0, 0.5)


AUC = Metric("auc", better="up", headline=True, low=0, high=1, is_score=True)
SCORED = NEURAL_CLASSIFIER.with_scores([AUC])


def scoring(**metrics):
    return {"metrics": {"loss": 1.0, "accuracy": 0.5, **metrics}}


def test_score_that_some_nodes_lack_is_the_mean_of_those_that_have_it(scene):
    nodes = {10: Node(0, **scoring(auc=0.9), evaluated=30), 11: Node(1, **scoring(auc=0.5)), 12: Node(2, **scoring())}
    run = scene(nodes, metrics=SCORED, evaluation={"where": "nodes"}).run()
    assert run.store.history.rounds[0].measured == {"auc": 0.8, "loss": 1.0, "accuracy": 0.5, "train_loss": 0.5}
    assert run.store.history.best.measured["auc"] == 0.8 and not run.events("evaluation-refused")


def test_score_that_no_node_has_is_missing(scene):
    run = scene(
        {10: Node(0, **scoring()), 11: Node(1, **scoring())}, metrics=SCORED, evaluation={"where": "nodes"}
    ).run()
    assert run.store.history.rounds[0].measured["auc"] is None


@pytest.mark.parametrize("claim", [7.0, -1.0, float("nan"), [0.9]])
def test_score_outside_of_its_range_is_named_and_not_counted(scene, claim):
    nodes = {10: Node(0, **scoring(auc=0.7)), 11: Node(1, **scoring(auc=claim)), 12: Node(2, **scoring())}
    run = scene(nodes, metrics=SCORED, evaluation={"where": "nodes"}).run()
    assert run.store.history.rounds[0].measured["auc"] == 0.7
    assert run.reasons("evaluation-refused").keys() == {11}


def test_a_selection_that_is_cancelled_tells_all_that_had_said_ready(scene):
    nodes = nodes_of(4, n3=Node(3, ready_after=None))
    run = scene(nodes, rounds={"minimum_ready": 1.0, "max_attempts": 2, "selection_window": 5.0})
    with pytest.raises(RunFailed):
        run.run()
    assert sorted(run.grid.told) == [(n, "cancelled", 1, attempt) for n in (10, 11, 12) for attempt in (1, 2)]


# --- what another attempt would not change ----------------------------------------------------------------------------


def diverging(message, node):
    """A report that holds NaN, as of a node whose training has diverged; the gate refuses it."""
    content = honest_content(message, node.partition_id)
    content["arrays"] = wire.pack_arrays({**STATE, "w": np.full((2, 3), np.nan, np.float32)})
    wire.seal(content)
    return [content]


def test_round_in_which_the_same_nodes_report_the_same_is_tried_twice(scene):
    nodes = {10 + partition: Node(partition, report=diverging) for partition in range(3)}
    run = scene(nodes, rounds={"total": 1, "max_attempts": 5})
    with pytest.raises(RunFailed, match="round 1 was tried twice by the same clients, which reported the same"):
        run.run()
    assert len(run.events("round-started")) == 2


def test_round_in_which_a_node_fails_is_tried_on(scene):
    nodes = {10 + partition: Node(partition, report=diverging) for partition in range(3)}
    run = scene({**nodes, 10: Node(0, failing="no memory")}, rounds={"total": 1, "max_attempts": 4, "backoff": 0})
    with pytest.raises(RunFailed, match=r"round 1 never committed .rounds.max_attempts = 4"):
        run.run()
