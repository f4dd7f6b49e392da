"""Every malformed tree is refused with its own reason; an honest one passes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

import server.gate.gate
from fedlearn import flower, wire
from fedlearn.aggregation import STATE
from fedlearn.config import to_flower
from fedlearn.core.cohort import At, Fate, Instruction, Member
from fedlearn.core.metric import EPSILON
from fedlearn.core.state import UpdateKind
from fedlearn.engine.apps import load_client_app
from fedlearn.engine.node_calls import run_node
from fedlearn.models.loaded import initial_state
from fedlearn.models.presets import settings_from
from server.gate.gate import ReportGate
from tests.oracles.cohorts import plan_for

FLAT = {
    "clients": 3, "data.dataset": "diabetes", "model.name": "dp-forest",
    "privacy.noise": "seeded", "privacy.epsilon": 50.0,
}  # fmt: skip
NODE, PARTITION = 3, 1


def settings_of(**changes):
    return to_flower(settings_from(FLAT | changes))


def report_of(settings, state, round_number=1):
    """Our own client's answer to an instruction."""
    message = Message(RecordDict({wire.ARRAYS: wire.pack_arrays(state)}), NODE, "train")
    asked = wire.with_instruction(message, Instruction(round_number, 1, 0), ttl=60.0)
    reply, _ = run_node(load_client_app(), flower.with_id(asked), b"", num_nodes=3, settings=settings)
    return reply


@pytest.fixture(scope="module")
def honest():
    """The settings, the state and the arrays of an honest report."""
    settings = settings_of()
    state = initial_state(settings, {})
    return settings, state, wire.unpack_arrays(wire.only(report_of(settings, state).content, ArrayRecord))


def verdict_of(settings, state, arrays=None, round_number=1):
    reply = report_of(settings, state, round_number)
    if arrays is not None:
        reply.content[wire.ARRAYS] = wire.pack_arrays(arrays)
        wire.seal(reply.content)
    collected, at = "strategies.collected:Collected", At(round_number, 1)
    plan = plan_for(collected, state, settings=settings, kind=UpdateKind.ENSEMBLE, at=at, measured=[EPSILON])
    return ReportGate(plan).check(reply, Member(NODE, PARTITION, 0), RecordDict())


def test_an_honest_tree_passes_as_it_is(honest):
    settings, state, arrays = honest
    verdict = verdict_of(settings, state)
    assert verdict.report.fate is Fate.REPORTED, verdict.report.reason
    assert verdict.report.metrics == {"epsilon": 50.0}
    assert verdict.report.num_examples == 1  # how many records a node holds is not for the server to know
    assert len(arrays["feature"]) > 3
    for name, array in arrays.items():
        np.testing.assert_array_equal(verdict.parcels[STATE][name].values, array.reshape(-1))


def with_entry(name, place, value):
    """Change one entry; a place in `inner` or `leaf` counts the nodes of that kind."""

    def spoil(arrays):
        kind, index = place
        leaves = arrays["feature"] < 0
        rows = {"inner": np.flatnonzero(~leaves), "leaf": np.flatnonzero(leaves), "any": np.arange(len(leaves))}[kind]
        arrays[name][rows[index]] = value(arrays, rows[index]) if callable(value) else value
        return arrays

    return spoil


def replaced(**changes):
    return lambda arrays: arrays | {name: change(arrays[name]) for name, change in changes.items()}


def without(name):
    return lambda arrays: {key: array for key, array in arrays.items() if key != name}


MALFORMED = {
    "a column is missing": ("wrong-names", without("threshold")),
    "a column too many": ("wrong-names", lambda a: a | {"more": np.zeros(1)}),
    "thresholds in float32": ("wrong-dtype", replaced(threshold=lambda x: x.astype(np.float32))),
    "children in int64": ("wrong-dtype", replaced(first_child=lambda x: x.astype(np.int64))),
    "big-endian features": ("wrong-dtype", replaced(feature=lambda x: x.astype(">i4"))),
    "flat values": ("wrong-dtype", replaced(value=lambda x: x.reshape(-1))),
    "two outputs": ("wrong-shape", replaced(value=lambda x: np.hstack([x, x]))),
    "a threshold less": ("wrong-shape", replaced(threshold=lambda x: x[:-1])),
    "a child less": ("wrong-shape", replaced(first_child=lambda x: x[:-1])),
    "no tree": ("wrong-shape", lambda a: {name: array[:0] for name, array in a.items()}),
    "child behind the table": ("bad-child", with_entry("first_child", ("inner", -1), 10**6)),
    "negative child": ("bad-child", with_entry("first_child", ("inner", 0), -2)),
    "cycle: its own child": ("bad-child", with_entry("first_child", ("inner", 1), lambda a, row: row)),
    "cycle: back to the root": ("bad-child", with_entry("first_child", ("inner", -1), 0)),
    "two parents": ("bad-child", with_entry("first_child", ("inner", 1), lambda a, row: a["first_child"][row] + 2)),
    "three children": ("bad-child", with_entry("num_children", ("inner", 0), 3)),
    "largest number of children": ("bad-child", with_entry("num_children", ("inner", 0), 2**31 - 1)),
    "a leaf with children": ("bad-child", with_entry("num_children", ("leaf", 0), 2)),
    "a root outside": ("bad-child", replaced(root=lambda x: x + 10**6)),
    "a root inside": ("bad-child", replaced(root=lambda x: x + 1)),
    "a negative root": ("bad-child", replaced(root=lambda x: x - 1)),
    "an undeclared feature": ("bad-feature", with_entry("feature", ("inner", 0), 10)),
    "a very negative feature": ("bad-feature", with_entry("feature", ("inner", 0), -2)),
    "NaN threshold": ("bad-threshold", with_entry("threshold", ("inner", 0), np.nan)),
    "NaN threshold of a leaf": ("bad-threshold", with_entry("threshold", ("leaf", 0), np.nan)),
    "infinite threshold": ("bad-threshold", with_entry("threshold", ("inner", 0), np.inf)),
    "a leaf's threshold": ("bad-threshold", with_entry("threshold", ("leaf", 0), 0.5)),
    "value above the target": ("bad-value", with_entry("value", ("leaf", 0), 350.001)),
    "value below the target": ("bad-value", with_entry("value", ("leaf", 0), -0.001)),
    "inner value outside": ("bad-value", with_entry("value", ("inner", 0), 1e9)),
    "NaN value": ("bad-value", with_entry("value", ("leaf", 0), np.nan)),
    "infinite value": ("bad-value", with_entry("value", ("leaf", -1), np.inf)),
    "weight of two": ("bad-weight", replaced(weight=lambda x: x * 2)),
    "weight of nothing": ("bad-weight", replaced(weight=lambda x: x * 0)),
    "NaN weight": ("bad-weight", replaced(weight=lambda x: x * np.nan)),
}


@pytest.mark.parametrize(("reason", "spoil"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_tree_is_refused_with_its_reason(honest, reason, spoil):
    settings, state, arrays = honest
    verdict = verdict_of(settings, state, spoil({name: array.copy() for name, array in arrays.items()}))
    assert verdict.report.fate is Fate.REFUSED
    assert verdict.report.reason.startswith(f"{reason}: ")
    assert "\n" not in verdict.report.reason
    assert not verdict.parcels


@pytest.mark.parametrize(("setting", "reason"), [("gate.max_depth", "too-deep"), ("gate.max_nodes", "too-large")])
def test_a_tree_beyond_the_limits_is_refused(honest, setting, reason):
    _, state, _ = honest
    verdict = verdict_of(settings_of(**{setting: 1}), state)
    assert verdict.report.reason.startswith(f"{reason}: ")


def test_every_reason_of_the_table_is_tested():
    words = set(re.findall(r"``([a-z-]+)``", server.gate.gate.__doc__.split("|---|---|")[2]))
    tested = {reason for reason, _ in MALFORMED.values()} | {"too-deep", "too-large"}
    assert words == {reason for reason in tested if not reason.startswith("wrong-")}


def test_a_relay_tree_beyond_its_step_is_refused_though_the_target_reaches_as_far():
    settings = settings_of(**{"model.name": "dp-relay"})
    first = initial_state(settings, {})
    verdict = verdict_of(settings, first)
    assert verdict.report.fate is Fate.REPORTED, verdict.report.reason
    dense = wire.unpack_arrays(wire.only(report_of(settings, first).content, ArrayRecord))
    again = verdict_of(settings, dense, round_number=2)
    assert again.report.fate is Fate.REPORTED, again.report.reason
    beyond = verdict_of(settings, dense, dense, round_number=2)
    assert beyond.report.reason.startswith("bad-value: ")


@pytest.mark.parametrize(("public_sizes", "fate"), [(False, Fate.REFUSED), (True, Fate.REPORTED)])
def test_a_node_that_hides_its_size_has_one_vote(public_sizes, fate):
    settings = settings_of(**{"privacy.public_sizes": public_sizes})
    state = initial_state(settings, {})
    reply = report_of(settings, state)
    wire.only(reply.content, MetricRecord)[wire.NUM_EXAMPLES] = 2
    wire.seal(reply.content)
    plan = plan_for("strategies.collected:Collected", state, settings=settings, kind=UpdateKind.ENSEMBLE, at=At(1, 1))
    report = ReportGate(plan).check(reply, Member(NODE, PARTITION, 0), RecordDict()).report
    assert report.fate is fate
    assert fate is Fate.REPORTED or report.reason == "wrong-count: 2 examples, allowed are from 1 to 1"
