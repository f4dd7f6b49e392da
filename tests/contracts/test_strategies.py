"""The contract of every strategy that averages: it equals an oracle, counts only sent entries, in any order."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import ConfigRecord
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load as safetensors_load

from fedlearn import wire
from fedlearn.aggregation import blocks_of
from fedlearn.compression import load_codec
from fedlearn.config import RunConfig, to_flower
from fedlearn.config.tables.reports import StrategySettings
from fedlearn.core.state import Sends, UpdateKind
from fedlearn.core.state_files import pack_state
from fedlearn.engine.apps import load_client_app
from fedlearn.engine.inline import InlineGrid
from fedlearn.models.loaded import initial_state
from strategies import STRATEGIES, load_strategy
from strategies.fedavg import FedAvg
from tests.oracles import averaging
from tests.oracles.cohorts import after as next_of
from tests.oracles.cohorts import bytes_of, cohort_seeds, folded, made_cohort, made_state, plan_for, rows_of

KINDS = {name: STRATEGIES.load(name) for name in STRATEGIES}
NAMES = [  # others: of ensembles, those that need more than states, and fedavg by another name: test_algorithms.py
    name
    for name, kind in KINDS.items()
    if UpdateKind.DENSE in kind.accepts
    and not kind.reads_reports
    and (name == "fedavg" or not issubclass(kind, FedAvg))
]
ROUNDS = 3  # for strategies with memory
TOLERANCE = 2e-5  # float32 keeps the mean change of values up to 8 to 5e-7; FedAdam divides that by tau, times lr


def without_memory(combine):
    return lambda parameter, old, reports, *, update: averaging.combined(old, reports, combine, update=update)


ORACLES = {  # strategy -> makes (parameter, old, reports, update) -> the exact next values, in float64
    "fedavg": lambda: without_memory(averaging.mean),
    "fedavgm": averaging.MomentumOracle,
    "fedadam": averaging.AdamOracle,
    "median": lambda: without_memory(averaging.median),
    "trimmed-mean": lambda: without_memory(averaging.trimmed_mean),
}


def strategy_of(name, weighting="examples"):
    return load_strategy(StrategySettings(name=name, weighting=weighting))


def exact_next(oracle, state, cohort, *, uniform, update):
    after = {}
    for parameter, old in state.items():
        rows = rows_of(cohort, parameter, uniform=uniform)
        if old.dtype.kind == "f":
            after[parameter] = oracle(parameter, old, rows, update=update)
        else:  # integer buffers are averaged; moments make no sense of them
            simple = oracle if not isinstance(oracle, averaging.MomentumOracle | averaging.AdamOracle) else None
            after[parameter] = (
                simple(parameter, old, rows, update=update)
                if simple
                else averaging.combined(old, rows, averaging.mean, update=update)
            )
    return after


def assert_close(after, exact):
    for parameter, array in after.items():
        if array.dtype.kind == "f":
            np.testing.assert_allclose(array, exact[parameter], rtol=1e-5, atol=TOLERANCE, err_msg=parameter)
        else:
            assert np.all(np.abs(array - exact[parameter]) <= 0.5 + 1e-9), parameter  # rounded to a whole number


@pytest.mark.parametrize("weighting", ["examples", "uniform"])
@pytest.mark.parametrize("sends", list(Sends))
@pytest.mark.parametrize("name", ORACLES)
@given(made=cohort_seeds)
def test_every_strategy_that_has_an_oracle_equals_it_over_several_rounds(name, sends, weighting, made):
    seed, size, density = made
    rng = np.random.default_rng(seed)
    strategy, oracle = strategy_of(name, weighting), ORACLES[name]()
    state = made_state(rng)
    for round_number in range(1, ROUNDS + 1):
        cohort = made_cohort(rng, state, size=size, density=density)
        total = folded(plan_for(strategy.accumulator, state, uniform=strategy.uniform), cohort, range(size))
        after = next_of(strategy, state, total, sends=sends, round_number=round_number)
        exact = exact_next(oracle, state, cohort, uniform=strategy.uniform, update=sends is Sends.UPDATE)
        assert {p: (a.shape, a.dtype) for p, a in after.items()} == {p: (a.shape, a.dtype) for p, a in state.items()}
        assert_close(after, exact)
        state = after


@pytest.mark.parametrize("name", NAMES)
@given(sends=st.sampled_from(Sends), made=cohort_seeds, data=st.data())
def test_same_bytes_in_any_order_of_arrival_and_any_grouping_by_blocks(name, sends, made, data):
    seed, size, density = made
    rng = np.random.default_rng(seed)
    state = made_state(rng)
    cohort = made_cohort(rng, state, size=size, density=density, spread=16.0)
    order = data.draw(st.permutations(range(size)))
    by_block = data.draw(st.sets(st.sampled_from(range(len(blocks_of(size))))))
    by_part = data.draw(st.sets(st.sampled_from(range(len(blocks_of(size))))))
    totals, nexts = [], []
    for arrival, blocks in [(range(size), ()), (order, by_block)]:
        strategy = strategy_of(name)
        plan = plan_for(strategy.accumulator, state)
        total = folded(plan, cohort, arrival, by_block=sorted(blocks), by_part=sorted(by_part))
        totals.append({name: array.copy() for name, array in total.to_arrays().items()})
        nexts.append(next_of(strategy, state, total, sends=sends, round_number=1))
    assert bytes_of(totals[0]) == bytes_of(totals[1])
    assert bytes_of(nexts[0]) == bytes_of(nexts[1])


@pytest.mark.parametrize("name", NAMES)
@given(sends=st.sampled_from(Sends), made=cohort_seeds)
def test_entry_nobody_sent_keeps_its_value_and_its_moments_to_the_bit(name, sends, made):
    seed, size, density = made
    rng = np.random.default_rng(seed)
    strategy = strategy_of(name)
    state = made_state(rng)
    state["count"][:] = [2**53 + 1, -(2**60) - 1]  # float64 does not hold them
    for round_number in (1, 2):
        before = {key: array.copy() for key, array in strategy.memory().items()}
        cohort = made_cohort(rng, state, size=size, density=density)
        total = folded(plan_for(strategy.accumulator, state), cohort, range(size))
        after = next_of(strategy, state, total, sends=sends, round_number=round_number)
        for parameter, old in state.items():
            masks = [mask for _, _, mask in rows_of(cohort, parameter, uniform=False)]
            unsent = ~np.any(np.array(masks), axis=0) if masks else np.ones(old.shape, bool)
            assert after[parameter][unsent].tobytes() == old[unsent].tobytes(), parameter
            for key, moment in strategy.memory().items():
                if key.split("/", 1)[1] == parameter:
                    was = before.get(key, np.zeros(old.shape))
                    assert moment[unsent].tobytes() == was[unsent].tobytes(), key
        state = after


@pytest.mark.parametrize("name", NAMES)
@given(sends=st.sampled_from(Sends), made=cohort_seeds)
def test_old_state_and_memory_are_never_changed_in_place(name, sends, made):
    seed, size, density = made
    rng = np.random.default_rng(seed)
    strategy = strategy_of(name)
    state = made_state(rng)
    for round_number in (1, 2):
        for array in (*state.values(), *strategy.memory().values()):
            array.flags.writeable = False  # whoever writes, raises
        cohort = made_cohort(rng, state, size=size, density=density)
        total = folded(plan_for(strategy.accumulator, state), cohort, range(size))
        state = dict(next_of(strategy, state, total, sends=sends, round_number=round_number))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_reported_leaves_the_state_as_it_is(name):
    state = made_state(np.random.default_rng(1))
    strategy = strategy_of(name)
    total = folded(plan_for(strategy.accumulator, state), [None, None, None], [2, 0, 1])
    after = next_of(strategy, state, total, sends=Sends.WEIGHTS, round_number=1)
    assert bytes_of(after) == bytes_of(state)


@pytest.mark.parametrize("name", NAMES)
def test_memory_survives_the_checkpoint_to_the_bit(name):
    rng = np.random.default_rng(3)
    state = made_state(rng)
    cohorts = [made_cohort(rng, state, size=5, density=0.5) for _ in range(4)]

    def run(strategy, state, first, last):
        for round_number in range(first, last + 1):
            total = folded(plan_for(strategy.accumulator, state), cohorts[round_number - 1], range(5))
            state = next_of(strategy, state, total, sends=Sends.WEIGHTS, round_number=round_number)
        return state

    unbroken = strategy_of(name)
    expected = run(unbroken, state, 1, 4)
    begun = strategy_of(name)
    half = safetensors_load(pack_state(run(begun, state, 1, 2)))
    resumed = strategy_of(name)
    resumed.remember(safetensors_load(pack_state(begun.memory())) if begun.memory() else {})
    assert bytes_of(run(resumed, half, 3, 4)) == bytes_of(expected)
    assert pack_state(resumed.memory()) == pack_state(unbroken.memory())


def started(name, **compression):
    """Run Flower's own `Strategy.start` with one of our strategies and our ClientApp, on the digits."""
    config = RunConfig.model_validate(
        {
            "clients": max(3, strategy_of(name).fewest_reports),
            "data": {"dataset": "digits"},
            "training": {"local_epochs": 1},
            "compression": compression,
        }
    )
    settings = to_flower(config)
    strategy = strategy_of(name)
    strategy.codec, strategy.sends = load_codec(config.compression), Sends(config.compression.send)
    grid = InlineGrid(load_client_app(), config.clients, settings)
    state = initial_state(settings, {})
    result = strategy.start(grid, wire.pack_arrays(state), num_rounds=2, train_config=ConfigRecord())
    return state, wire.unpack_arrays(result.arrays), result


@pytest.mark.parametrize("name", NAMES)
def test_usable_with_flowers_own_start(name):
    state, after, result = started(name)
    assert after.keys() == state.keys()
    assert all(np.isfinite(array).all() for array in after.values())
    assert any(not np.array_equal(after[parameter], state[parameter]) for parameter in state)
    assert set(result.train_metrics_clientapp) == {1, 2}
    assert {"loss", "accuracy"} <= result.evaluate_metrics_clientapp[2].keys()


def test_usable_with_flowers_own_start_when_entries_are_dropped():
    state, after, _ = started("fedavg", codec="drop", keep_ratio=0.02, send="update")
    changed = {name: np.mean(after[name] != state[name]) for name in state}
    assert 0 < changed["fc1.weight"] < 0.2  # three nodes send 2 % each, twice
