"""Flower's own strategies under our rounds: they get exactly the cohort, and what they remember survives a resume."""

from __future__ import annotations

import json

import numpy as np
import pytest
from flwr.app import ConfigRecord
from safetensors.numpy import load as safetensors_load

from fedlearn import wire
from fedlearn.config.tables.reports import StrategySettings
from fedlearn.core.errors import RunFailed, SettingError
from fedlearn.core.state import Entries, Sends, UpdateKind, layout_of
from fedlearn.core.state_files import pack_state
from server.exchange.grids import CohortGrid
from strategies import load_strategy
from strategies.collected import Collected
from strategies.plain_flower import PlainFlower
from tests.marked import some_long
from tests.oracles.cohorts import after
from tests.unit.server.scripted import STATE, Node, Scene, trained

MODULE = "flwr.serverapp.strategy"
OPTIONS = {
    "FedAvg": {},
    "FedAvgM": {"server_momentum": 0.9, "server_learning_rate": 0.5},
    "FedAdam": {},
    "FedAdagrad": {},
    "FedYogi": {},
    "FedMedian": {},
    "FedTrimmedAvg": {"beta": 0.3},
    "FedProx": {"proximal_mu": 0.1},
    "Krum": {"num_malicious_nodes": 1},
    "MultiKrum": {"num_malicious_nodes": 1, "num_nodes_to_select": 3},
    "Bulyan": {"num_malicious_nodes": 0},
}
FLOATS = {
    "conv": np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2),
    "dense": np.arange(6, dtype=np.float32).reshape(2, 3) / 7,
    "bias": np.ones(2, np.float32),
}


def made(name, **options):
    settings = StrategySettings(name=f"{MODULE}:{name}", options=json.dumps({**OPTIONS[name], **options}))
    return load_strategy(settings)


def configured(strategy, state, round_number, *, nodes=5):
    """The strategy's messages to a cohort: it only asks the cohort's own view of the grid."""
    cohort = CohortGrid(None, [100 + n for n in range(nodes)])
    return list(strategy.configure_train(round_number, wire.pack_arrays(state), ConfigRecord(), cohort))


def one_round(strategy, state, round_number, *, nodes=5, sends=Sends.WEIGHTS):
    configured(strategy, state, round_number, nodes=nodes)
    reports = Collected.empty(layout_of(state))
    rng = np.random.default_rng(round_number)
    for n in range(nodes):
        new = {k: (a + rng.normal(0, 1, a.shape)).astype(a.dtype) for k, a in state.items()}
        sent = new if sends is Sends.WEIGHTS else {k: new[k] - a for k, a in state.items()}
        reports.add([(n + 1, {k: Entries(a.reshape(-1)) for k, a in sent.items()})])
    return after(strategy, state, reports, sends=sends, round_number=round_number)


RUNNABLE = list(OPTIONS)


@pytest.mark.parametrize("name", some_long(RUNNABLE, "Bulyan"))
def test_strategy_makes_a_state_of_the_same_layout(name):
    state = {k: a.copy() for k, a in FLOATS.items()}
    for array in state.values():
        array.flags.writeable = False
    after = one_round(made(name), state, 1)
    assert layout_of(after) == layout_of(state)
    assert all(np.isfinite(a).all() and not np.array_equal(a, state[k]) for k, a in after.items())


@pytest.mark.parametrize("name", ["FedAvg", "FedMedian", "FedAdam"])
def test_changes_give_what_weights_give(name):
    weights = one_round(made(name), FLOATS, 1)
    changes = one_round(made(name), FLOATS, 1, sends=Sends.UPDATE)
    for parameter, array in weights.items():
        np.testing.assert_allclose(changes[parameter], array, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in RUNNABLE if name != "Bulyan"])  # which is slow, and keeps nothing
def test_resumed_strategy_goes_on_to_the_same_bytes(name):
    unbroken, state = made(name), FLOATS
    for number in (1, 2, 3, 4):
        state = one_round(unbroken, state, number)
    begun, half = made(name), FLOATS
    for number in (1, 2):
        half = one_round(begun, half, number)
    resumed = made(name)
    if memory := begun.memory():
        resumed.remember(safetensors_load(pack_state(memory)))
    stored = safetensors_load(pack_state(half))
    half = {k: stored[k] for k in half}
    for number in (3, 4):
        half = one_round(resumed, half, number)
    assert {k: a.tobytes() for k, a in half.items()} == {k: a.tobytes() for k, a in state.items()}


def test_only_dense_updates_are_accepted():
    assert PlainFlower.accepts == {UpdateKind.DENSE}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ('{"no_such": 1}', ".no_such = 1: there is no such option"),
        ('{"fraction_trian": 1}', ".fraction_trian = 1: there is no such option; did you mean fraction_train?"),
        ('{"min_train_nodes": "x"}', ".min_train_nodes = 'x': expected a whole number"),
    ],
)
def test_wrong_options_are_named_in_one_line(options, said):
    with pytest.raises(SettingError) as error:
        load_strategy(StrategySettings(name=f"{MODULE}:FedAvg", options=options))
    assert str(error.value).startswith(f"strategy.options{said}")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["math:sqrt", f"{MODULE}:Result", "flwr.serverapp:ServerApp"])
def test_reference_to_something_else_is_no_strategy(name):
    with pytest.raises(SettingError, match="names no"):
        load_strategy(StrategySettings(name=name))


# --- under the round protocol -----------------------------------------------------------------------------------------


@pytest.fixture
def no_waiting(monkeypatch):
    monkeypatch.setattr(f"{MODULE}.strategy_utils.sleep", lambda seconds: None)


@pytest.mark.parametrize("name", ["FedAvg", "FedMedian", "FedTrimmedAvg", "Krum", "FedAdam"])
def test_rounds_commit(tmp_path, name):
    state = {"w": STATE["w"]}
    nodes = {10 + n: Node(n) for n in range(5)}
    run = Scene(tmp_path, nodes, strategy=made(name), rounds={"total": 2}, evaluation={"where": "nodes"})
    run.store.begin(state)
    with run.log:
        run.run()
    assert len(run.store.history.rounds) == 2
    assert run.store.history.rounds[-1].measured["accuracy"] == 0.5
    assert not np.array_equal(run.state["w"], state["w"])


def test_mean_is_the_one_of_our_own_fedavg(tmp_path):
    nodes = {10 + n: Node(n) for n in range(4)}
    run = Scene(tmp_path, nodes, strategy=made("FedAvg"))
    run.store.begin({"w": STATE["w"]})
    with run.log:
        run.run()
    rows = [(10 * (n + 1), trained(STATE, n)["w"].astype(np.float64)) for n in range(4)]
    expected = sum(weight * values for weight, values in rows) / 100
    np.testing.assert_allclose(run.state["w"], expected, rtol=1e-6)


def test_cohort_smaller_than_the_strategy_wants_fails_at_once_instead_of_waiting(tmp_path, no_waiting):
    run = Scene(tmp_path, {10: Node(0)}, strategy=made("FedAvg"))
    with run.log, pytest.raises(RunFailed, match=r"waits for more clients than the cohort of 1: .*min_available_nodes"):
        run.run()


def test_cohort_of_one_is_enough_for_a_strategy_that_says_so(tmp_path):
    options = {"min_train_nodes": 1, "min_evaluate_nodes": 1, "min_available_nodes": 1}
    run = Scene(tmp_path, {10: Node(0)}, strategy=made("FedAvg", **options))
    run.store.begin({"w": STATE["w"]})
    with run.log:
        run.run()
    assert len(run.store.history.rounds) == 1


def test_strategy_that_leaves_nodes_out_gets_reports_of_the_others_only(tmp_path):
    nodes = {10 + n: Node(n) for n in range(6)}
    run = Scene(tmp_path, nodes, strategy=made("FedAvg", fraction_train=0.5))
    run.store.begin({"w": STATE["w"]})
    with run.log:
        run.run()
    record = run.store.history.rounds[0]
    assert (record.ready, record.cohort, record.reported) == (6, 3, 3)
    positions = sorted(i.position for node in nodes.values() for i in node.instructions)
    assert positions == [0, 1, 2]


def test_fedprox_tells_its_nodes_its_strength():
    strategy = made("FedProx")
    told = configured(strategy, FLOATS, 1, nodes=2)[0]
    assert wire.read_config(told.content)["proximal-mu"] == 0.1
    assert wire.read_instruction(told.content).round_number == 1
