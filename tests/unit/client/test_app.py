"""The client app as a node runs it, one message after another."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict

from client.examples import partitions_of
from client.memory import NodeStatus
from fedlearn import flower, wire
from fedlearn.aggregation import STATE
from fedlearn.compression import load_codec
from fedlearn.config import config_from, from_flower, to_flower
from fedlearn.core.cohort import Fate, Instruction, Member
from fedlearn.core.state import layout_of
from fedlearn.data import load_dataset, partition_table
from fedlearn.engine.apps import load_client_app
from fedlearn.engine.node_calls import run_node
from fedlearn.models.loaded import initial_state
from server.gate.gate import ReportGate
from tests.oracles.cohorts import plan_for

FLAT = {"clients": 4, "data.dataset": "digits", "training.local_epochs": 1}


class OneNode:
    """Node 5, which holds partition 3."""

    def __init__(self, **settings):
        self.settings = to_flower(config_from(FLAT | settings))
        self.config = from_flower(self.settings)
        self.kept = b""
        self.app = load_client_app()

    def hears(self, message):
        reply, self.kept = run_node(self.app, flower.with_id(message), self.kept, num_nodes=4, settings=self.settings)
        return reply

    @property
    def state(self):
        return NodeStatus(**flower.from_bytes(self.kept)["node"])


@pytest.fixture(scope="module")
def state():
    return initial_state(to_flower(config_from(FLAT)), {})


def instruction(state, round_number=1):
    message = Message(RecordDict({wire.ARRAYS: wire.pack_arrays(state)}), 5, "train")
    return wire.with_instruction(message, Instruction(round_number, 1, 2), ttl=60.0)


def test_ready_node_names_its_partition():
    answer = OneNode().hears(wire.ready_query(5, round_number=1, attempt=1, ttl=60.0))
    assert wire.read_ready_answer(answer) == (3, "")


@pytest.mark.parametrize("why", ["rejected", "late", "refused", "abandoned"])
def test_node_remembers_what_it_was_told(why):
    node = OneNode()
    node.hears(wire.round_over(5, round_number=1, attempt=1, why=why, ttl=60.0))
    assert (node.state.told, node.state.active) == (why, False)


def test_node_that_has_reported_is_ready_again(state):
    node = OneNode()
    node.hears(instruction(state))
    node.hears(instruction(state, 2))
    assert (node.state.active, node.state.rounds_trained) == (False, 2)


def test_node_whose_training_fails_answers_with_an_error_and_can_be_asked_again(state):
    node = OneNode()
    reply = node.hears(instruction({"no": np.zeros(3, np.float32)}))
    assert reply.has_error()
    assert node.state.active
    assert wire.read_ready_answer(node.hears(wire.ready_query(5, round_number=1, attempt=2, ttl=60.0))) == (3, "")
    assert not node.state.active


@pytest.mark.parametrize("granularity", ["entry", "tensor"])
@pytest.mark.parametrize("codec", ["identity", "drop"])
@pytest.mark.parametrize("send", ["weights", "update"])
def test_report_passes_the_gate_and_holds_what_was_learned(state, codec, send, granularity):
    settings = {"compression.codec": codec, "compression.send": send, "compression.granularity": granularity}
    node, dense = OneNode(**settings, **{"compression.keep_ratio": 0.5}), OneNode()
    plan = plan_for("strategies.masked_mean:MaskedSum", state, settings=node.settings)
    reply = node.hears(instruction(state))
    verdict = ReportGate(plan).check(reply, Member(5, 3, 2), instruction(state).content)
    assert verdict.report.fate is Fate.REPORTED, verdict.report.reason
    assert verdict.report.num_examples == 1442 // 4
    learned = wire.unpack_arrays(dense.hears(instruction(state)).content.array_records[wire.ARRAYS])
    for name, entries in verdict.parcels[STATE].items():
        expected = (learned[name] - state[name] if send == "update" else learned[name]).reshape(-1)
        sent = slice(None) if entries.positions is None else entries.positions
        np.testing.assert_array_equal(entries.values, expected[sent])


class Foreign(OneNode):
    """A node whose learner is from outside, and private; its model is not."""

    def __init__(self, name="NoisyCounts", **settings):
        learner = f"tests.end_to_end.plugins.noisy_counts:{name}"
        super().__init__(**{"model.name": "linear", "training.learner": learner, "privacy.noise": "secure"} | settings)
        self.start = initial_state(self.settings, {})

    def trains(self, round_number=1, **told):
        message = instruction(self.start, round_number)
        if told:
            message.content[wire.CONFIG] = flower.filled(ConfigRecord(), told)
        return self.hears(message)


def test_a_private_learner_from_outside_says_what_it_has_spent_and_nothing_else():
    node = Foreign()
    reply = node.trains()
    assert dict(wire.only(reply.content, MetricRecord)) == {"num-examples": 1, "epsilon": 0.5}
    assert node.hears(wire.evaluation(5, wire.pack_arrays(node.start), round_number=1, ttl=60.0)).error.reason == (
        "Withheld: private-model"
    )
    again = node.trains()
    assert flower.to_bytes(again.content) == flower.to_bytes(reply.content)
    node.trains(2)
    assert node.trains(3).error.reason == "Withheld: budget-spent"
    answer = node.hears(wire.ready_query(5, round_number=3, attempt=1, ttl=60.0))
    assert wire.read_ready_answer(answer) == (3, "budget spent: 1 of epsilon 1")


def test_what_a_private_learner_from_outside_complains_of_stays_at_home():
    assert Foreign().trains(complain=True).error.reason == "Withheld: node-failed"


def test_where_sizes_are_public_a_private_learner_says_its_own():
    node = Foreign(**{"privacy.public_sizes": True})
    said = wire.only(node.trains().content, MetricRecord)["num-examples"]
    assert said == len(partitions_of(node.config).indices(3)) > 300


def test_a_node_without_examples_does_not_say_so_if_its_learner_is_private():
    settings = {"data.partition": "dirichlet", "data.alpha": 0.01, "clients": 60}
    config = config_from(FLAT | settings)
    table = partition_table(
        load_dataset("digits", ""), config.data, num_partitions=60, seed=config.seed, by_record=True
    )
    empty = next(partition for partition in range(60) if not len(table.indices(partition)))
    node = Foreign(**settings)
    query = flower.with_id(wire.ready_query(empty + 2, round_number=1, attempt=1, ttl=60.0))
    answer, _ = run_node(node.app, query, b"", num_nodes=60, settings=node.settings)
    assert wire.read_ready_answer(answer) == (empty, "")


def test_a_learner_that_counts_what_it_spends_has_to_say_that_it_is_private():
    assert "let its class say is_private = True" in Foreign("Silent").trains().error.reason


CHAINS = ["drop:0.3,rotate,quantize:4", "rand-k:0.2", "ternary:0.05", "eden,entropy", "residual,top-k:0.1,quantize:4"]


@pytest.mark.parametrize("codec", CHAINS)
def test_compressed_report_passes_the_gate(state, codec):
    node = OneNode(**{"compression.codec": codec, "compression.send": "update"})
    plan = plan_for("strategies.masked_mean:MaskedSum", state, settings=node.settings)
    verdict = ReportGate(plan).check(node.hears(instruction(state)), Member(5, 3, 2), instruction(state).content)
    assert verdict.report.fate is Fate.REPORTED, verdict.report.reason
    assert verdict.report.bytes_up < 62_006 * 4 / 4


def test_what_a_codec_lost_is_kept_on_the_node_and_sent_the_next_time(state):
    settings = {"compression.send": "update", "training.lr": 1e-9}  # there is next to no change of its own
    node = OneNode(**settings, **{"compression.codec": "residual,top-k:0.1"})
    node.hears(instruction(state))
    owed = wire.unpack_arrays(flower.from_bytes(node.kept)["memory.residual"])
    loud = {name: array + np.float32(1) for name, array in owed.items()}
    kept = flower.from_bytes(node.kept)
    kept["memory.residual"] = wire.pack_arrays(loud)
    node.kept = flower.to_bytes(kept)
    reply = node.hears(instruction(state, 2))
    sent = wire.unpack_arrays(reply.content.array_records[wire.ARRAYS])["float32"]
    np.testing.assert_allclose(sent, 1, atol=1e-3)
    left = wire.unpack_arrays(flower.from_bytes(node.kept)["memory.residual"])
    assert sum(int((np.abs(array) < 0.5).sum()) for array in left.values()) == len(sent)


def test_a_node_on_a_network_whose_process_is_new_reports_what_a_simulated_one_does(state, tmp_path):
    settings = {"compression.send": "update", "compression.codec": "residual,top-k:0.05,quantize:4"}
    simulated = OneNode(**settings)
    for round_number in (1, 2, 3):
        here = Context(1, 5, {"partition-id": 3, "memory": str(tmp_path)}, RecordDict(), simulated.settings)
        simulated.app(wire.ready_query(5, round_number=round_number, attempt=1, ttl=60.0), here)
        reply = simulated.app(flower.with_id(instruction(state, round_number)), here)
        expected = simulated.hears(instruction(state, round_number))
        assert flower.to_bytes(reply.content) == flower.to_bytes(expected.content)
        assert "memory.residual" in flower.from_bytes(simulated.kept)
        assert set(here.state) == {"node"}  # the residual does not travel between SuperNode and task


def test_a_report_is_freed_with_its_last_reader_not_when_python_looks_for_cycles(state):
    node = OneNode(**{"compression.codec": "drop"})
    plan = plan_for("strategies.masked_mean:MaskedSum", state, settings=node.settings)
    gc.disable()
    try:
        reply = node.hears(instruction(state))
        arrays = weakref.ref(wire.only(reply.content, ArrayRecord))
        assert ReportGate(plan).check(reply, Member(5, 3, 2), instruction(state).content).report.fate is Fate.REPORTED
        del reply
        assert arrays() is None
    finally:
        gc.enable()


def test_a_node_that_has_grown_its_trees_is_ready_for_no_other_round():
    node = OneNode(**{"model.name": "dp-forest", "data.dataset": "diabetes", "privacy.noise": "seeded"})
    forest = initial_state(node.settings, {})
    asked = wire.ready_query(5, round_number=1, attempt=1, ttl=60.0)
    assert wire.read_ready_answer(node.hears(asked)) == (3, "")
    assert not node.hears(instruction(forest)).has_error()
    kept = flower.from_bytes(node.kept)["memory"]
    assert set(kept) == {"ledger"}
    assert wire.read_ready_answer(node.hears(asked)) == (3, "")  # for a question that it has answered
    asked = wire.ready_query(5, round_number=2, attempt=1, ttl=60.0)
    assert wire.read_ready_answer(node.hears(asked)) == (3, "budget spent: 1 of epsilon 1")
    again = node.hears(instruction(forest, 2))  # a server that asks for more all the same
    assert again.error.reason == "Withheld: budget-spent"
    assert flower.from_bytes(node.kept)["memory"] == kept


def test_a_node_that_has_nothing_to_remember_keeps_nothing_more_than_its_state(state):
    node = OneNode()
    node.hears(instruction(state))
    assert set(flower.from_bytes(node.kept)) == {"node"}


def test_masks_differ_between_rounds(state):
    node = OneNode(**{"compression.codec": "drop"})
    seeds = [node.hears(instruction(state, r)).content[wire.REPORT]["seed"] for r in (1, 2)]
    codec, layout = load_codec(node.config.compression), layout_of(state)
    first, second = (codec.sparsifier.chosen({}, layout=layout, seed=seed) for seed in seeds)
    assert not np.array_equal(first["fc1.weight"], second["fc1.weight"])


def test_partition_that_the_run_does_not_have_is_an_error_that_says_so():
    node = OneNode(clients=2)
    reply = node.hears(wire.ready_query(5, round_number=1, attempt=1, ttl=60.0))
    assert reply.has_error()
    assert "partition-id = 3" in reply.error.reason


def test_a_node_of_a_private_model_measures_nothing_whoever_asks():
    node = OneNode(**{"model.name": "dp-forest", "data.dataset": "diabetes", "evaluation.nodes": 4})
    arrays = wire.pack_arrays(initial_state(node.settings, {}))
    reply = node.hears(wire.evaluation(5, arrays, round_number=1, ttl=60.0))
    assert reply.has_error()
    assert reply.error.reason == "Withheld: private-model"
    message = Message(RecordDict({wire.ARRAYS: arrays}), 5, "train")
    report = node.hears(wire.with_instruction(message, Instruction(1, 1, 2), ttl=60.0))
    assert set(wire.only(report.content, MetricRecord)) == {wire.NUM_EXAMPLES, "epsilon"}


SECRET = "HIV-positive since 2019"


@pytest.fixture
def table_with_a_secret(tmp_path):
    """The data set of one node: a table without a header, so that its first row is taken for one."""
    table = tmp_path / "patients.csv"
    table.write_text(f"30,{SECRET}\n50,1\n")
    declared = 'data = "patients.csv"\ntarget = "stay"\ntarget_bounds = [0, 9]\nbounds = {age = [0, 99]}\n'
    (tmp_path / "patients.toml").write_text(declared)
    return str(tmp_path / "patients.toml")


@pytest.mark.parametrize(
    ("asked", "word"), [("ready", "data-unreadable"), ("train", "data-unreadable"), ("evaluate", "private-model")]
)
def test_no_cell_leaves_a_private_node_in_an_error(asked, word, table_with_a_secret, caplog):
    node = OneNode(**{"model.name": "dp-forest", "data.dataset": table_with_a_secret, "clients": 4})
    forest = initial_state(to_flower(config_from(FLAT | {"model.name": "dp-forest", "data.dataset": "diabetes"})), {})
    message = {
        "ready": wire.ready_query(5, round_number=1, attempt=1, ttl=60.0),
        "train": instruction(forest),
        "evaluate": wire.evaluation(5, wire.pack_arrays(forest), round_number=1, ttl=60.0),
    }[asked]
    reply = node.hears(message)
    assert reply.error.reason == f"Withheld: {word}"
    assert (SECRET in caplog.text) is (asked != "evaluate")  # its own log has it, if it has looked at its data


def test_no_cell_leaves_a_node_with_own_data_whatever_it_trains(table_with_a_secret, caplog):
    settings = to_flower(config_from(FLAT | {"model.name": "linear", "data.dataset": table_with_a_secret}))
    context = Context(1, 5, {"partition-id": 3, "own-data": "hospital"}, RecordDict(), settings)
    query = flower.with_id(wire.ready_query(5, round_number=1, attempt=1, ttl=60.0))
    assert wire.read_ready_answer(load_client_app()(query, context)) == (3, "not-ready")
    assert "data-unreadable" in caplog.text and SECRET in caplog.text


@pytest.mark.parametrize(("model", "why_not"), [("dp-forest", ""), ("linear", "it has no examples")])
def test_a_private_node_without_examples_does_as_one_with_examples(model, why_not, monkeypatch):
    monkeypatch.setattr("client.handlers.selection_handler.examples_of", lambda request: np.empty(0, np.int64))
    node = OneNode(**{"model.name": model, "data.dataset": "diabetes" if model == "dp-forest" else "digits"})
    ready = wire.read_ready_answer(node.hears(wire.ready_query(5, round_number=1, attempt=1, ttl=60.0)))
    assert ready == (3, why_not)
