"""Flower's client mods around training: they see one record of each kind, and what they change passes the gate."""

from __future__ import annotations

import json

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from fedlearn import flower, wire
from fedlearn.aggregation import STATE
from fedlearn.config import RunConfig, config_from, to_flower
from fedlearn.core.cohort import Fate, Instruction, Member
from fedlearn.core.errors import SettingError
from fedlearn.engine.node_calls import run_node
from fedlearn.engine.prepare import prepared
from fedlearn.flower.named_mods import load_mods
from fedlearn.models.loaded import initial_state
from server.gate.gate import ReportGate
from tests.oracles.cohorts import plan_for
from tests.unit.client.test_app import FLAT, OneNode

MODS = "flwr.clientapp.mod"
HERE = "tests.unit.client.test_mods"
LOCAL_DP = {f"{MODS}:LocalDpMod": {"clipping_norm": 0.5, "sensitivity": 0.01, "epsilon": 1.0, "delta": 1e-3}}
CLIPPING = f"{MODS}:fixedclipping_mod"
SEEN: list[tuple[list[str], list[str]]] = []


def watching(message, context, call_next):
    def kinds(content):
        return sorted(type(record).__name__ for record in content.values())

    asked = kinds(message.content)
    reply = call_next(message, context)
    SEEN.append((asked, kinds(reply.content)))
    return reply


def spoiling(message, context, call_next):
    """Writes into the state that it was given, which other nodes of the process are given as well."""
    reply = call_next(message, context)
    record = next(r for r in message.content.values() if isinstance(r, ArrayRecord))
    record.clear()
    return reply


def broken(message, context, call_next):
    raise ValueError("no luck")


@pytest.fixture(scope="module")
def state():
    return initial_state(to_flower(config_from(FLAT)), {})


def message(state, *, round_number=1, attempt=1, **told):
    content = RecordDict({wire.ARRAYS: wire.pack_arrays(state), wire.CONFIG: ConfigRecord(told)})
    asked = flower.received(content, node_id=5, message_type="train", message_id="m", ttl=60.0)
    return wire.with_instruction(asked, Instruction(round_number, attempt, 2), ttl=60.0)


def trained(mods, asked, *, noise="seeded", **settings):
    node = OneNode(**{"client.mods": json.dumps(mods), "privacy.noise": noise, **settings})
    return node, node.hears(asked)


def distance(reply, state):
    arrays = wire.unpack_arrays(wire.state_record(reply.content))
    return np.sqrt(sum(float(np.square(arrays[name] - state[name]).sum()) for name in state))


def arrays_of(reply):
    return {name: array.data for name, array in wire.state_record(reply.content).items()}


def test_they_see_one_record_of_each_kind(state):
    SEEN.clear()
    trained([f"{HERE}:watching"], message(state, lr=0.1))
    assert SEEN == [(["ArrayRecord", "ConfigRecord"], ["ArrayRecord", "MetricRecord"])]


def test_one_that_changes_nothing_changes_no_byte(state):
    _, plain = trained([], message(state))
    _, watched = trained([f"{HERE}:watching", f"{MODS}:message_size_mod"], message(state))
    assert arrays_of(watched) == arrays_of(plain)


@pytest.mark.parametrize("mods", [[LOCAL_DP], [CLIPPING], [f"{MODS}:adaptiveclipping_mod"], [CLIPPING, LOCAL_DP]])
@pytest.mark.parametrize("codec", ["identity", "drop"])
def test_what_they_make_passes_the_gate(state, mods, codec):
    node, reply = trained(mods, message(state, clipping_norm=0.05), **{"compression.codec": codec})
    plan = plan_for("strategies.masked_mean:MaskedSum", state, settings=node.settings)
    verdict = ReportGate(plan).check(reply, Member(5, 3, 2), message(state).content)
    assert verdict.report.fate is Fate.REPORTED, verdict.report.reason
    assert STATE in verdict.parcels


def test_clipping_clips_and_noise_is_added(state):
    _, clipped = trained([CLIPPING], message(state, clipping_norm=0.05))
    assert distance(clipped, state) == pytest.approx(0.05, rel=1e-4)
    _, noisy = trained([LOCAL_DP], message(state))
    assert distance(noisy, state) > 1.0


def test_the_norm_bit_of_adaptive_clipping_is_reported(state):
    _, reply = trained([f"{MODS}:adaptiveclipping_mod"], message(state, clipping_norm=0.05))
    assert wire.only(reply.content, MetricRecord)["norm_bit"] == 1


def test_their_noise_is_the_same_for_the_same_seed_round_attempt_and_node(state):
    def noise(round_number, attempt):
        return arrays_of(trained([LOCAL_DP], message(state, round_number=round_number, attempt=attempt))[1])

    assert noise(1, 1) == noise(1, 1)
    assert noise(1, 2) != noise(1, 1) != noise(2, 1)


@pytest.mark.parametrize("chosen", ["secure", "auto"])
def test_noise_on_a_network_is_another_each_time_also_in_forked_processes(state, chosen):
    np.random.seed(0)
    first = arrays_of(trained([LOCAL_DP], message(state), noise=chosen)[1])
    np.random.seed(0)  # as in another process that was forked from the same one
    assert arrays_of(trained([LOCAL_DP], message(state), noise=chosen)[1]) != first


def test_a_simulation_seeds_them():
    assert prepared(config_from(FLAT | {"client.mods": CLIPPING})).privacy.noise == "seeded"
    learner = "tests.end_to_end.plugins.noisy_counts:NoisyCounts"
    assert prepared(config_from(FLAT | {"training.learner": learner})).privacy.noise == "seeded"
    assert prepared(config_from(FLAT)).privacy.noise == "auto"


def test_one_that_writes_into_the_state_spoils_no_other_nodes(state):
    node = OneNode(**{"client.mods": f"{HERE}:spoiling"})
    asked = message(state)
    reply, _ = run_node(node.app, flower.with_id(asked), b"", num_nodes=4, settings=node.settings)
    assert not reply.has_error()
    assert wire.read_state(asked.content).keys() == state.keys()


@pytest.mark.parametrize(
    ("mods", "said"),
    [
        ([f"{HERE}:broken"], f"client.mods: {HERE}:broken raised ValueError: no luck"),
        ([CLIPPING], "fixedclipping_mod requires the key 'clipping_norm'"),
    ],
)
def test_what_goes_wrong_in_one_names_it(state, mods, said):
    _, reply = trained(mods, message(state))
    assert said in reply.error.reason


def test_what_training_raises_is_not_blamed_on_them(state):
    _, reply = trained([f"{HERE}:watching"], message({"no": np.zeros(3, np.float32)}))
    assert reply.has_error()
    assert "client.mods" not in reply.error.reason


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("nowhere:mod", "client.mods = 'nowhere:mod': there is no module nowhere here or installed"),
        ("math:tau", "it is not a mod"),
        (f"{MODS}:LocalDpMod", "missing 4 required positional arguments"),
        ([{f"{MODS}:LocalDpMod": {"epsilonn": 1}}], "did you mean epsilon?"),
        ([[1]], "each is a name"),
        (7, "it is no list"),
    ],
)
def test_a_wrong_value_is_one_line(value, said):
    with pytest.raises(SettingError) as error:
        load_mods(config_from({"client.mods": value}).client.mods)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_names_may_be_written_in_a_row_or_as_a_list():
    assert config_from({"client.mods": f"{CLIPPING},a:b"}).client.mods == json.dumps([CLIPPING, "a:b"])
    assert RunConfig().client.mods == config_from({"client.mods": []}).client.mods == ""
