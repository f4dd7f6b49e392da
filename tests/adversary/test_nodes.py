"""Hostile nodes on a scripted grid: what they say is cut, checked and remembered; the round goes on without them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from flwr.app import ConfigRecord, Error, MetricRecord, RecordDict

from fedlearn import flower, wire
from fedlearn.core.errors import SettingError
from fedlearn.flower.records import _kept_array_entry
from server.planning.compatibility import check_invited
from tests.unit.server.scripted import NetworkGrid, Node, config_of, honest_content, made_nodes

LONG = "x" * 100_000
ESCAPE = "\x1b]0;owned\x07\x1b[2J"


def ready_with(**changes):
    said = {"partition_id": 0, "why_not": ""}
    return lambda message, node: [RecordDict({wire.CONFIG: ConfigRecord({**said, **changes})})]


def spoiled(change):
    """A report that is honest but for one change; its checksum fits."""

    def report(message, node):
        content = honest_content(message, node.partition_id)
        change(content)
        wire.seal(content)
        return [content]

    return report


def nodes_with(report):
    return {10 + i: Node(i, report=report if i == 1 else None) for i in range(5)}


def longest_line(run):
    run.log.flush()
    return max(map(len, run.folder.events.read_text(encoding="utf-8").splitlines()))


# --- A4: which partition a node holds ---------------------------------------------------------------------------------


def test_A4_a_partition_that_the_run_does_not_have_is_nobodys(scene):
    nodes = made_nodes(4)
    liar = next(iter(nodes))
    nodes[liar].ready = ready_with(partition_id=1009)
    run = scene(nodes, grid=NetworkGrid, rounds={"minimum_ready": 0.5, "quorum": 0.5, "selection_window": 5.0}).run()
    assert "partition 1009, of 4 from 0" in run.reasons("unknown-node")[liar]
    assert run.store.history.rounds[0].cohort == 3


def test_A4_the_first_word_of_a_node_stands(scene):
    nodes = made_nodes(4)
    liar = next(iter(nodes))
    words = iter([nodes[liar].partition_id, nodes[liar].partition_id, *[(nodes[liar].partition_id + 1) % 4] * 9])
    nodes[liar].ready = lambda message, node: ready_with(partition_id=next(words))(message, node)
    rounds = {"total": 2, "minimum_ready": 0.5, "quorum": 0.5, "selection_window": 5.0}
    run = scene(nodes, grid=NetworkGrid, rounds=rounds).run()
    assert [record.cohort for record in run.store.history.rounds] == [4, 3]
    assert "and said" in run.reasons("not-ready")[liar]


def test_A4_a_node_that_names_anothers_partition_first_keeps_nobody_out(scene):
    nodes = {100 + i: Node(i, key=f"partition-{i}", ready_after=1.0) for i in range(4)}
    nodes[100].ready, nodes[100].ready_after = ready_with(partition_id=3), 0.0
    rounds = {"total": 3, "minimum_ready": 0.5, "quorum": 0.5, "selection_window": 5.0}
    run = scene(nodes, grid=NetworkGrid, rounds=rounds).run()
    assert run.reasons("unknown-node") == {100: "it says that it holds partition 3, and its key is registered for 0"}
    assert [record.reported for record in run.store.history.rounds] == [3, 3, 3]
    assert 103 in {event["node"] for event in run.events("reported")}
    run.with_settings(rounds={"total": 4}).run()  # and after a resume
    assert run.store.history.rounds[-1].reported == 3


def test_A4_without_names_of_keys_a_dispute_names_both_nodes(scene):
    nodes = {100: Node(0), 101: Node(1), 102: Node(2), 103: Node(2, ready_after=1.0)}
    run = scene(nodes, grid=NetworkGrid, rounds={"minimum_ready": 0.5, "quorum": 0.5, "selection_window": 5.0}).run()
    assert run.reasons("not-ready") == {103: "partition 2 is already held by client 102"}
    assert run.store.history.rounds[0].reported == 3


# --- A5, A10: what a node says is one short line ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        lambda message, node: [Error(2, LONG)],
        lambda message, node: [Error(2, ESCAPE + LONG)],
        spoiled(lambda c: c[wire.REPORT].__setitem__("round_number", LONG)),
        spoiled(lambda c: c[wire.REPORT].__setitem__("sends", ESCAPE)),
        spoiled(lambda c: c.__setitem__(wire.ARRAYS, wire.pack_arrays({LONG: np.zeros(1)}))),
        spoiled(lambda c: c.__setitem__(LONG, wire.pack_arrays({"w": np.zeros(1)}))),
        spoiled(lambda c: c.__setitem__(ESCAPE, wire.pack_arrays({ESCAPE: np.zeros(1)}))),
    ],
)
def test_A5_A10_a_reason_is_one_short_line_without_escapes(scene, answer):
    run = scene(nodes_with(answer)).run()
    assert longest_line(run) < 1000
    text = run.folder.events.read_text(encoding="utf-8")
    reasons = [json.loads(line).get("reason", "") for line in text.splitlines()]
    assert all(reason.isprintable() for reason in reasons)
    assert run.store.history.rounds[0].reported == 4


@pytest.mark.parametrize("why", [LONG, ESCAPE, "no\nline"])
def test_A5_A10_why_a_node_is_not_ready_is_one_short_line(scene, why):
    nodes = {10 + i: Node(i) for i in range(5)} | {12: Node(2, ready=ready_with(partition_id=2, why_not=why))}
    run = scene(nodes, rounds={"selection_window": 5.0}).run()
    assert longest_line(run) < 1000
    assert run.reasons("not-ready")[12].isprintable()


# --- A6, A7: small messages stay small --------------------------------------------------------------------------------


def test_A6_what_nodes_call_their_arrays_is_not_remembered():
    before = _kept_array_entry.cache_info().currsize
    for name, dtype, dimensions in (("a", "float32" * 1000, 3), ("a" * 1000, "float32", 3), ("a", "float32", 1000)):
        array = flower.array_of(dtype, (1,) * dimensions, "numpy.ndarray", b"x")
        record = flower.filled(wire.pack_arrays({}), {name: array})
        assert flower.size_in_bytes("k", record) == len(flower.to_bytes({"k": record}))
    assert _kept_array_entry.cache_info().currsize == before


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.__setitem__(wire.METRICS, MetricRecord({f"m{i}": 1.0 for i in range(5000)})),
        lambda c: c.__setitem__("more", ConfigRecord({f"c{i}": 1 for i in range(5000)})),
        lambda c: c.__setitem__(wire.ARRAYS, wire.pack_arrays({f"a{i}": np.zeros(0) for i in range(5000)})),
        lambda c: [c.__setitem__(f"r{i}", ConfigRecord()) for i in range(100)],
    ],
)
def test_A7_a_report_of_many_entries_is_refused_before_it_is_read(scene, change):
    run = scene(nodes_with(spoiled(change))).run()
    assert run.reasons("refused")[11].startswith("too-large: ")
    assert run.store.history.rounds[0].reported == 4


def test_A7_metrics_that_nobody_asked_for_are_left_behind(scene):
    many = spoiled(lambda c: c[wire.METRICS].update({f"m{i}": 1.0 for i in range(40)}))
    run = scene(nodes_with(many)).run()
    assert run.store.history.rounds[0].reported == 5
    assert set(run.store.history.rounds[0].measured) == {"train_loss", "loss", "accuracy"}


# --- B: the model and what is stored of it ----------------------------------------------------------------------------


def test_B3_a_loss_that_overflows_the_mean_leaves_valid_json(scene):
    huge = spoiled(lambda c: c.__setitem__(wire.METRICS, MetricRecord({"num-examples": 10**7, "train_loss": 1e308})))
    run = scene(nodes_with(huge), gate={"max_share": 1}).run()
    assert run.store.history.rounds[0].reported == 5
    assert run.store.history.rounds[0].measured["train_loss"] is None
    for line in run.folder.events.read_text(encoding="utf-8").splitlines():
        json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def test_B4_integers_at_the_end_of_their_range_stay_there(scene):
    top = 2**63 - 1

    def report(message, node):
        content = honest_content(message, node.partition_id)
        content[wire.ARRAYS] = wire.pack_arrays({"w": np.zeros((2, 3), np.float32), "steps": np.array(top, np.int64)})
        wire.seal(content)
        return [content]

    run = scene({10 + i: Node(i, report=report) for i in range(3)}).run()
    assert int(run.state["steps"]) == top  # it was -2^63


# --- D4: what a client puts into a report -----------------------------------------------------------------------------


def test_D4_a_number_that_cannot_be_sent_is_its_nodes_failure(scene):
    run = scene(nodes_with(spoiled(lambda c: c[wire.METRICS].__dict__["_data"].update(huge=2**70)))).run()
    assert run.reasons("refused")[11].startswith("undecodable: it cannot be serialised")
    assert run.store.history.rounds[0].reported == 4


# --- E2: settings that cannot succeed ---------------------------------------------------------------------------------


def test_E2_fewer_invited_than_must_be_ready_is_refused_before_the_start():
    check_invited(config_of(20, {"rounds": {"cohort": 10, "invited": 8, "minimum_ready": 0.8}}))
    with pytest.raises(SettingError, match=r"rounds\.invited = 7: 8 clients must be ready"):
        check_invited(config_of(20, {"rounds": {"cohort": 10, "invited": 7, "minimum_ready": 0.8}}))
