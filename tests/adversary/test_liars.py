"""Liars whose reports are sound in themselves: refused beside the others, named, and the round goes on without them."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from flwr.app import MetricRecord

from fedlearn import wire
from fedlearn.config.tables.reports import StrategySettings
from fedlearn.core.cohort import Typical
from fedlearn.core.errors import RunFailed
from fedlearn.core.metric import EPSILON, TRAIN_LOSS
from fedlearn.core.metrics import Metrics
from fedlearn.core.seeding import report_seed
from strategies import load_strategy
from tests.unit.server.scripted import STATE, Node, honest_content

LARGEST = float(np.finfo(np.float32).max)
LIAR = 11  # holds partition 1 of six
ROUNDS = {"total": 3, "backoff": 7.0}


def report_of(scale=1.0, *, entry=None, examples=100, sends="weights"):
    """A node that adds its partition and four to all weights, times `scale`; its checksum fits."""

    def report(message, node):
        content = honest_content(message, node.partition_id)
        before = wire.read_state(message.content)
        change = (node.partition_id + 4) * scale * np.ones((2, 3), np.float32)
        w = (change if sends == "update" else before["w"] + change).astype(np.float32)
        if entry is not None:
            w[1, 1] = entry
        steps = np.array(0 if sends == "update" else before["steps"], np.int64)
        content[wire.ARRAYS] = wire.pack_arrays({"w": w, "steps": steps})
        content[wire.METRICS] = MetricRecord({wire.NUM_EXAMPLES: examples, "train_loss": 0.5})
        instruction = wire.read_instruction(message.content)
        seed = report_seed(1, round_number=instruction.round_number, node=node.partition_id)
        partition = node.partition_id
        content[wire.REPORT] = wire.report_record(instruction, partition_id=partition, seed=seed, sends=sends)
        wire.seal(content)
        return [content]

    return report


def nodes_with(lie, *, sends="weights", count=6, honest=None):
    honest = honest or report_of(sends=sends)
    return {10 + i: Node(i, report=lie if 10 + i == LIAR else honest) for i in range(count)}


LIES = {
    "ten million examples": ("share-too-large", {"examples": 10_000_000}),
    "a hundred times the change": ("norm-too-large", {"scale": 100.0}),
    "minus ten times the change": ("norm-too-large", {"scale": -10.0}),
    "the largest float32 in one entry": ("norm-too-large", {"entry": LARGEST}),
    "the smallest float32 in one entry": ("norm-too-large", {"entry": -LARGEST}),
    "NaN": ("not-finite", {"entry": np.nan}),
}


@pytest.mark.parametrize("sends", ["weights", "update"])
@pytest.mark.parametrize(("word", "lie"), LIES.values(), ids=LIES.keys())
def test_B1_a_liar_is_refused_by_name_and_the_model_is_that_of_the_others(scene, word, lie, sends):
    settings = {"rounds": ROUNDS, "compression": {"send": sends}}
    run = scene(nodes_with(report_of(sends=sends, **lie), sends=sends), **settings).run()
    nodes = nodes_with(None, sends=sends)
    nodes[LIAR].failing = "it takes no part"
    without = scene(nodes, **settings).run()
    assert [record.refused for record in run.store.history.rounds] == [1, 1, 1]
    assert [record.reported for record in run.store.history.rounds] == [5, 5, 5]
    assert run.reasons("refused")[LIAR].startswith(f"{word}: ")
    assert {n: a.tobytes() for n, a in run.state.items()} == {n: a.tobytes() for n, a in without.state.items()}


@pytest.mark.parametrize("lie", [{"examples": 10_000_000}, {"scale": -10.0}])
def test_B1_the_first_round_is_run_again_at_once_and_names_the_liar(scene, lie):
    run = scene(nodes_with(report_of(**lie)), rounds={"backoff": 7.0, "max_attempts": 1}).run()
    (event,) = run.events("too-far")
    assert (event["node"], event["partition"], event["attempt"]) == (LIAR, 1, 1)
    assert "1 of 6 reports go too far" in run.events("abandoned")[0]["reason"]
    assert [record.attempts for record in run.store.history.rounds] == [2]
    assert not run.events("backing-off")


def test_B1_a_liar_from_the_second_round_on_costs_no_attempt(scene):
    lie, honest = report_of(scale=100.0), report_of()
    nodes = nodes_with(lambda m, n: (honest if wire.read_instruction(m.content).round_number == 1 else lie)(m, n))
    run = scene(nodes, rounds=ROUNDS).run()
    assert [(record.attempts, record.refused) for record in run.store.history.rounds] == [(1, 0), (1, 1), (1, 1)]


def test_B1_what_is_typical_does_not_follow_a_minority(scene):
    """Two of six go further in each round, in norm and in examples: what they may do does not grow with it."""
    greedy = [report_of(scale=2.0**i, examples=100 * 4**i) for i in range(8)]
    nodes = nodes_with(None)
    for node_id in (10, 11):
        nodes[node_id].report = lambda m, n: greedy[wire.read_instruction(m.content).round_number - 1](m, n)
    run = scene(nodes, rounds={"total": 8, "quorum": 0.5}).run()
    typical = run.store.typical
    assert typical.norm <= 9 * np.sqrt(6)
    assert typical.num_examples == 100
    assert run.store.history.rounds[-1].refused == 2


def test_B1_honest_nodes_that_all_learn_faster_than_before_are_not_locked_out(scene):
    slow, fast = report_of(), report_of(scale=1000.0, examples=100_000)
    later = lambda m, n: (slow if wire.read_instruction(m.content).round_number == 1 else fast)(m, n)  # noqa: E731
    run = scene(nodes_with(later, honest=later), rounds={"total": 3, "max_attempts": 1}).run()
    assert [(record.attempts, record.reported) for record in run.store.history.rounds] == [(1, 6), (2, 6), (1, 6)]
    assert "6 of 6 reports are unlike those of the last round" in run.events("abandoned")[0]["reason"]


def test_B1_so_many_that_the_quorum_is_missed_set_a_new_measure(scene):
    slow, fast = report_of(), report_of(scale=20.0)
    later = lambda m, n: (slow if wire.read_instruction(m.content).round_number == 1 else fast)(m, n)  # noqa: E731
    nodes = nodes_with(later, count=5)
    nodes[10].report = later  # two of five: no majority, but the quorum is four
    run = scene(nodes, rounds={"total": 2, "max_attempts": 1})
    with pytest.raises(RunFailed, match=r"3 of 5 clients reported, quorum is 4; first reason: norm-too-large"):
        run.run()
    assert run.server.typical.norm > run.store.typical.norm


def test_a_defence_that_misses_updates_of_the_gate_names_it_and_what_to_set(scene):
    krum = load_strategy(StrategySettings(name="multi-krum"))
    run = scene(nodes_with(report_of(scale=100.0), count=5), strategy=krum, rounds={"quorum": 0.5, "max_attempts": 1})
    with pytest.raises(RunFailed, match=r"4 of 5 .* needs 5 to stand its attackers: gate.max_ratio = 0 leaves it"):
        run.run()


def test_last_line_of_a_run_that_liars_end_names_the_quorum(scene):
    def further(message, node):  # in each attempt a thousand times further than in the one before
        asked = wire.read_instruction(message.content)
        return report_of(scale=1000.0 ** (asked.round_number + asked.attempt - 2))(message, node)

    run = scene(nodes_with(further, honest=further), rounds={"total": 2, "max_attempts": 1})
    with pytest.raises(RunFailed, match=r"6 of 6 reports are unlike .*; 0 of 6 clients reported, quorum") as failed:
        run.run()
    assert "is run again" not in str(failed.value)


def test_B1_of_two_reports_none_can_be_called_unusual(scene):
    nodes = {10: Node(0, report=report_of()), LIAR: Node(1, report=report_of(scale=100.0, examples=10**7))}
    run = scene(nodes, rounds={"total": 2}).run()
    assert [(record.attempts, record.reported) for record in run.store.history.rounds] == [(1, 2), (1, 2)]


def test_B1_a_node_with_most_of_the_examples_counts(scene):
    """One large hospital among small ones holds three quarters of all examples: it is no liar."""
    run = scene(nodes_with(report_of(examples=1500)), rounds=ROUNDS).run()
    assert [(record.attempts, record.reported) for record in run.store.history.rounds] == [(1, 6)] * 3


def test_B1_nodes_that_all_change_nothing_may_go_on(scene):
    run = scene(nodes_with(report_of(scale=0.0), honest=report_of(scale=0.0)), rounds=ROUNDS).run()
    assert [(record.attempts, record.reported) for record in run.store.history.rounds] == [(1, 6)] * 3
    assert run.store.typical == Typical(0.0, 100)


def test_B1_limits_that_are_off_let_everything_finite_in(scene):
    gate = {"max_ratio": 0, "max_share": 1}
    run = scene(nodes_with(report_of(scale=100.0, examples=10**7)), rounds=ROUNDS, gate=gate).run()
    assert [(record.attempts, record.reported) for record in run.store.history.rounds] == [(1, 6)] * 3


def test_B1_what_is_typical_outlives_a_resume(scene, tmp_path):
    lie, honest = report_of(scale=-10.0), report_of()
    later = lambda m, n: (honest if wire.read_instruction(m.content).round_number < 3 else lie)(m, n)  # noqa: E731
    whole = scene(nodes_with(later), rounds={"total": 4}).run()
    run = scene(nodes_with(later), rounds={"total": 2}).run()
    run.store.load()
    run.with_settings(rounds={"total": 4}).run()
    assert [record.attempts for record in run.store.history.rounds] == [1, 1, 1, 1]
    assert run.store.typical == whole.store.typical
    assert run.store.model_sha256 == whole.store.model_sha256


def test_B1_a_checkpoint_of_an_older_version_goes_on_without_a_measure(scene):
    run = scene(nodes_with(report_of()), rounds={"total": 1}).run()
    manifest = run.folder.path / "checkpoint.json"
    _, _, rest = manifest.read_bytes().partition(b"\n")
    plain = json.loads(b"{" + rest)
    del plain["typical"]
    rest = json.dumps(plain).encode()[1:]
    manifest.write_bytes(b'{"sha256": "%s",\n%s' % (sha256(rest).hexdigest().encode(), rest))
    run.store.load()
    assert run.store.typical is None
    run.with_settings(rounds={"total": 2}).run()
    assert [record.reported for record in run.store.history.rounds] == [6, 6]


def test_the_norm_is_of_the_change_against_the_state_that_was_sent(scene):
    run = scene(nodes_with(report_of()), rounds={"total": 2}).run()
    norms = {(event["round"], event["partition"]): event["norm"] for event in run.events("reported")}
    assert norms == {(r, p): pytest.approx((p + 4) * np.sqrt(6), rel=1e-5) for r in (1, 2) for p in range(6)}
    assert STATE["w"].any()  # the state is not zero: weights and change differ


# --- B2: what a strategy carries to the next round --------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("name", ["FedAdam", "FedYogi", "FedAdagrad"])
def test_B2_infinity_in_what_a_strategy_carries_on_is_never_committed(scene, name):
    """The state of that round is finite: it stands still from then on, as each step is divided by infinity."""
    lie, honest, lies = report_of(entry=LARGEST), report_of(), iter([True])
    nodes = nodes_with(lambda message, node: (lie if next(lies, False) else honest)(message, node))
    settings = {"rounds": {"total": 3, "backoff": 1.0}, "gate": {"max_ratio": 0, "max_share": 1}}
    chosen = StrategySettings(name=f"flwr.serverapp.strategy:{name}")
    run = scene(nodes, strategy=load_strategy(chosen), **settings).run()
    without = scene(nodes_with(honest), strategy=load_strategy(chosen), **settings).run()
    assert run.events("abandoned")[0]["reason"] == "the new state would hold NaN or infinity"
    assert [record.attempts for record in run.store.history.rounds] == [2, 1, 1]
    assert all(np.isfinite(array).all() for array in run.store.memory.values())
    assert {n: a.tobytes() for n, a in run.state.items()} == {n: a.tobytes() for n, a in without.state.items()}


# --- B3: what is stored of what nodes say -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metrics", "examples", "why"),
    [
        ({"accuracy": 7.0}, 10, "wrong-metric: accuracy is 7.0, which must be a finite number from 0 to 1"),
        ({"accuracy": -0.1}, 10, "wrong-metric: accuracy is -0.1"),
        ({"loss": -5.0}, 10, "wrong-metric: loss is -5.0, which must be a finite number from 0"),
        ({"loss": float("nan")}, 10, "wrong-metric: loss is nan"),
        ({"more": 1.0}, 10, "wrong-metric: it has measured other things than most"),
        ({"accuracy_alone": 0.5}, 10, "wrong-metric: it has measured other things than most"),
        ({}, 10**7, "share-too-large: 10000000 examples would be 1.0000 of the weight"),
        ({}, 10**8, "wrong-count: 100000000 examples"),
        ({}, 0, "wrong-count: 0 examples"),
    ],
)
def test_B3_a_node_that_lies_about_its_evaluation_is_not_counted_and_is_named(scene, metrics, examples, why):
    nodes = nodes_with(None)
    nodes[LIAR].metrics = {"loss": 1.0, "accuracy": 0.5, **metrics}
    nodes[LIAR].evaluated = examples
    run = scene(nodes, evaluation={"where": "nodes"}).run()
    measured = run.store.history.rounds[0].measured
    assert (measured["loss"], measured["accuracy"]) == (1.0, 0.5)
    (event,) = run.events("evaluation-refused")
    assert (event["node"], event["partition"], event["round"]) == (LIAR, 1, 1)
    assert event["reason"].startswith(why)


@pytest.mark.parametrize("claim", [{"accuracy_alone": 7.0}, {"accuracy_tuned": -1.0}, {"accuracy_tuned": 0.5}])
def test_B3_a_node_that_lies_about_what_it_has_alone_makes_nobody_gain(scene, claim):
    nodes = nodes_with(None)
    for node in nodes.values():
        node.metrics = {"loss": 1.0, "accuracy": 0.5, "accuracy_alone": 0.25}
    nodes[LIAR].metrics = {**nodes[LIAR].metrics, **claim}
    run = scene(nodes, evaluation={"where": "none", "nodes": len(nodes), "beside": "alone"}).run()
    last = run.store.history.rounds[0].measured
    assert (last["accuracy_gain"], last["accuracy_losing"], last["accuracy_compared"]) == (0.25, 0, len(nodes) - 1)
    assert {event["node"] for event in run.events("evaluation-refused")} == {LIAR}


@pytest.mark.parametrize(("name", "value"), [("train_loss", -5.0), ("train_loss", -1e308), ("epsilon", 10.5)])
def test_B3_a_metric_that_cannot_be_is_not_counted_and_its_node_is_named(scene, name, value):
    measured = {"train_loss": 0.5, "epsilon": 0.25}

    def saying(metrics):
        def report(message, node):
            (content,) = report_of()(message, node)
            content[wire.METRICS] = MetricRecord({wire.NUM_EXAMPLES: 100, **metrics})
            wire.seal(content)
            return [content]

        return report

    nodes = nodes_with(saying({**measured, name: value}), honest=saying(measured))
    run = scene(nodes, privacy={"public_sizes": True})  # a node that counts privacy loss has one vote without it
    run.store.metrics = Metrics((TRAIN_LOSS, EPSILON)).within(10.0)
    run.server.traits = replace(run.server.traits, metrics=run.store.metrics)
    run.run()
    assert run.store.history.rounds[0].reported == 6  # its change is as sound as before
    assert run.store.history.rounds[0].measured == measured
    whys = {event["node"]: event.get("reason", "") for event in run.events("reported")}
    assert whys[LIAR].startswith(f"wrong-metric: {name} is {value:g}, which can be from 0")
    assert not any(whys[node] for node in whys if node != LIAR)
