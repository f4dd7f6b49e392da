"""Parcels beside the state: sent by the strategy, answered by the nodes, checked by the gate, added up on their own."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from fedlearn import flower, wire
from fedlearn.aggregation import STATE, Fold, ParcelPlan
from fedlearn.compression import parcel_codec
from fedlearn.core.cohort import Fate, Instruction, Member
from fedlearn.core.seeding import parcel_seed, report_seed
from fedlearn.core.state import layout_of
from server.gate.gate import ReportGate
from strategies.base import Step
from strategies.fedavg import FedAvg
from tests.oracles.cohorts import plan_for
from tests.plain_reports import dense_report
from tests.unit.server import scripted
from tests.unit.server.scripted import Node, answer, honest_content

CONTROL = {"c": np.arange(4, dtype=np.float32), "n": np.array([7], np.int64)}
MEAN = "strategies.masked_mean:MaskedSum"


def plan_of(**changes):
    return ParcelPlan(layout_of(CONTROL), MEAN, **{"uniform": True, **changes})


def content_with(parcels):
    message = wire.with_instruction(
        Message(RecordDict({wire.ARRAYS: wire.pack_arrays(scripted.STATE)}), 12, "train"),
        Instruction(1, 1, 2), ttl=60.0,
    )  # fmt: skip
    content = honest_content(message, 2)
    for name, arrays in parcels.items():
        content[name] = wire.pack_arrays(arrays)
    wire.seal(content)
    return content


def verdict_of(content, **plan):
    gate = ReportGate(plan_for(MEAN, scripted.STATE, control=plan_of(**plan)))
    reply = flower.reply_from(node_id=12, message_type="train", reply_to="m", content=content, error=None)
    return gate.check(reply, Member(12, 2, 2), RecordDict())


def test_a_parcel_that_was_asked_for_comes_through_as_it_was_sent():
    verdict = verdict_of(content_with({"control": CONTROL}))
    assert verdict.report.fate is Fate.REPORTED, verdict.report.reason
    assert list(verdict.parcels) == [STATE, "control"]
    for name, array in CONTROL.items():
        np.testing.assert_array_equal(verdict.parcels["control"][name].values, array)


def test_a_parcel_is_decoded_by_the_codec_that_it_was_asked_for_by():
    floats = {"c": CONTROL["c"]}
    seed = parcel_seed(report_seed(1, round_number=1, node=2), "control")
    payload = parcel_codec("drop:0.5").encode(floats, seed=seed)
    gate = ReportGate(plan_for(MEAN, scripted.STATE, control=ParcelPlan(layout_of(floats), MEAN, codec="drop:0.5")))
    reply = flower.reply_from(
        node_id=12, message_type="train", reply_to="m", content=content_with({"control": payload}), error=None
    )
    verdict = gate.check(reply, Member(12, 2, 2), RecordDict())
    assert verdict.report.fate is Fate.REPORTED, verdict.report.reason
    assert len(verdict.parcels["control"]["c"].values) == 2


@pytest.mark.parametrize(
    ("parcels", "reason"),
    [
        ({}, "wrong-parcels"),
        ({"control": CONTROL, "more": CONTROL}, "wrong-parcels"),
        ({"controls": CONTROL}, "wrong-parcels"),
        ({"control": {"c": CONTROL["c"]}}, "wrong-names"),
        ({"control": {**CONTROL, "c": CONTROL["c"][:3]}}, "wrong-shape"),
        ({"control": {**CONTROL, "c": CONTROL["c"].astype(np.float64)}}, "wrong-dtype"),
        ({"control": {**CONTROL, "c": np.float32([0, 1, np.nan, 0])}}, "not-finite"),
    ],
)  # fmt: skip
def test_a_report_with_other_parcels_is_refused_as_a_whole(parcels, reason):
    verdict = verdict_of(content_with(parcels))
    assert verdict.report.fate is Fate.REFUSED
    assert verdict.report.reason.startswith(f"{reason}: ")
    assert not verdict.parcels


def test_a_parcel_that_was_changed_on_the_way_is_refused_by_the_checksum():
    content = content_with({"control": CONTROL})
    content["control"] = wire.pack_arrays({**CONTROL, "c": CONTROL["c"] + 1})
    assert verdict_of(content).report.reason.startswith("wrong-checksum: ")


def test_each_parcel_is_weighed_by_its_own_plan():
    fold = Fold(plan_for(MEAN, scripted.STATE, control=plan_of()))
    verdict = verdict_of(content_with({"control": CONTROL}))
    sums = fold.of([verdict])
    assert sums[STATE].reports.tolist() == [1, verdict.report.num_examples]
    assert sums["control"].reports.tolist() == [1, 1]
    again = fold.from_arrays(fold.to_arrays(sums))
    np.testing.assert_array_equal(again["control"].mean(otherwise=CONTROL)["c"], CONTROL["c"])


class Counting(FedAvg):
    """Sends every node how often it has stepped, and adds up what they answer."""

    steps_made = 0
    answered = 0.0

    def parcels(self, state):
        return {"count": {"n": np.array([self.steps_made], np.int64)}}

    def answers(self, state):
        return {"count": ParcelPlan(layout_of({"n": np.zeros(1)}), MEAN, uniform=True)}

    def next_state(self, turn) -> Step:
        self.steps_made += 1
        self.answered = float(turn.parcels["count"].totals["n"][0])
        return super().next_state(turn)


def test_a_strategy_sends_its_parcels_and_gets_the_sum_of_the_answers(scene):
    received = []

    def report(message, node):
        received.append(int(wire.unpack_arrays(wire.parcels_of(message.content)["count"])["n"][0]))
        assert wire.wanted_parcels(message.content) == {"count": "identity"}
        content = honest_content(message, node.partition_id)
        content["count"] = wire.pack_arrays({"n": np.array([node.partition_id + 1.0])})
        wire.seal(content)
        return [content]

    strategy = Counting()
    run = scene({10 + i: Node(i, report=report) for i in range(3)}, strategy=strategy, rounds={"total": 2}).run()
    assert received == [0, 0, 0, 1, 1, 1]
    assert strategy.answered == 1 + 2 + 3
    assert [record.reported for record in run.store.history.rounds] == [3, 3]


def test_flowers_own_loop_adds_up_the_parcels_too():
    class OneGrid:
        def get_node_ids(self):
            return [12]

    strategy = Counting()
    (message,) = strategy.configure_train(1, wire.pack_arrays(scripted.STATE), ConfigRecord(), OneGrid())
    reply = dense_report(message, scripted.STATE, {}, 5, {"count": {"n": np.array([4.0])}})
    strategy.aggregate_train(1, [answer(message, reply.content)])
    assert (strategy.answered, strategy.steps_made) == (4.0, 1)
