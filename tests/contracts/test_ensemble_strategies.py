"""Every strategy that unites ensembles keeps exactly the reported trees, in any order."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import ConfigRecord
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load as safetensors_load

from fedlearn import wire
from fedlearn.aggregation import STATE, Fold, FoldingTree, Verdict, blocks_of, merge
from fedlearn.config import to_flower
from fedlearn.config.tables.reports import StrategySettings
from fedlearn.core.cohort import Fate, NodeReport
from fedlearn.core.state import UpdateKind, dense_update
from fedlearn.core.state_files import pack_state
from fedlearn.engine.apps import load_client_app
from fedlearn.engine.inline import InlineGrid
from fedlearn.models import MODELS
from fedlearn.models.loaded import initial_state
from fedlearn.models.presets import settings_from
from fedlearn.private_trees.federated.models.forest import empty_state
from strategies import STRATEGIES, load_strategy
from tests.oracles.cohorts import after, bytes_of, plan_for
from tests.oracles.forests import made_trees

NAMES = [name for name in STRATEGIES if UpdateKind.ENSEMBLE in STRATEGIES.load(name).accepts]
ROWS = np.random.default_rng(5).random((50, 2))

cohorts = st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 7))


def strategy_of(name, weighting="examples"):
    return load_strategy(StrategySettings(name=name, weighting=weighting))


def value_of(trees, row):
    """The sum over the trees of weight times the leaf's value: one row, one node after another."""
    total = 0.0
    for root, weight in zip(trees["root"], trees["weight"], strict=True):
        node = root
        while trees["feature"][node] >= 0:
            node = trees["first_child"][node] + (row[trees["feature"][node]] > trees["threshold"][node])
        total += weight * trees["value"][node, 0]
    return total


def made_cohort(rng, size):
    """Return (weight, trees) of each position, or None where no report came."""
    return [(int(rng.integers(1, 9)), made_trees(rng)) if rng.random() < 0.8 else None for _ in range(size)]


def folded(strategy, state, cohort, order=None, by_block=(), by_part=()):
    fold = Fold(plan_for(strategy.accumulator, state, uniform=strategy.uniform, kind=UpdateKind.ENSEMBLE))

    def verdict(position):
        if cohort[position] is None:
            return None
        weight, trees = cohort[position]
        return Verdict(NodeReport(position, Fate.REPORTED, weight), {STATE: dense_update(trees)})

    tree, done = FoldingTree(fold, len(cohort)), set()
    blocks = blocks_of(len(cohort))
    for position in order or range(len(cohort)):
        block = position // 2
        if block not in by_block:
            tree.place(position, verdict(position))
        elif block in by_part:
            total = fold.of(v for v in [verdict(position)] if v is not None)
            merge(copy := fold.empty(), fold.from_arrays({n: a.copy() for n, a in fold.to_arrays(total).items()}))
            tree.place_part([position], copy)
        elif block not in done:  # added up by a worker, and sent as arrays
            done.add(block)
            total = fold.of(v for v in map(verdict, blocks[block]) if v is not None)
            tree.place_block(block, fold.from_arrays({name: a.copy() for name, a in fold.to_arrays(total).items()}))
    return tree.close()[STATE]


def next_of(strategy, state, cohort, **how):
    total = folded(strategy, state, cohort, **how)
    return after(strategy, state, total)


def expected(name, uniform, cohorts, row):
    """Return the prediction of a row after these rounds, by the definition of the strategy."""
    rounds = [[report for report in cohort if report is not None] for cohort in cohorts]
    if name == "relay":  # the sum over rounds of the mean over the round's nodes
        return sum(np.mean([value_of(trees, row) for _, trees in turn]) for turn in rounds if turn)
    everyone = [report for each in rounds for report in each]
    weights = [1 if uniform else weight for weight, _ in everyone]
    return np.average([value_of(trees, row) for _, trees in everyone], weights=weights)


def test_every_strategy_of_ensembles_is_covered_here():
    assert set(NAMES) == {row.strategy for row in MODELS.values() if row.strategy and not row.sums}


@pytest.mark.parametrize("weighting", ["examples", "uniform"])
@pytest.mark.parametrize("name", NAMES)
@given(made=cohorts)
def test_predictions_are_those_of_all_reported_trees(name, weighting, made):
    rng = np.random.default_rng(made[0])
    strategy, state = strategy_of(name, weighting), empty_state(1)
    rounds = [made_cohort(rng, made[1]) for _ in range(3)]
    for cohort in rounds:
        state = next_of(strategy, state, cohort)
    if not any(report for cohort in rounds for report in cohort):
        assert len(state["root"]) == 0
        return
    count = len(state["root"]) if strategy.sums else 1  # the table of a sum has weights that sum to 1, too
    assert state["weight"].sum() == pytest.approx(1)
    for row in ROWS[:5]:
        assert count * value_of(state, row) == pytest.approx(expected(name, weighting == "uniform", rounds, row))


@pytest.mark.parametrize("name", NAMES)
@given(made=cohorts, data=st.data())
def test_same_bytes_in_any_order_of_arrival_and_any_grouping_by_blocks(name, made, data):
    rng = np.random.default_rng(made[0])
    before, cohort = made_trees(rng), made_cohort(rng, made[1])
    order = data.draw(st.permutations(range(made[1])))
    by_block = data.draw(st.sets(st.sampled_from(range(len(blocks_of(made[1]))))))
    by_part = data.draw(st.sets(st.sampled_from(range(len(blocks_of(made[1]))))))
    first = next_of(strategy_of(name), before, cohort)
    how = {"order": order, "by_block": by_block, "by_part": by_part}
    assert bytes_of(first) == bytes_of(next_of(strategy_of(name), before, cohort, **how))


@pytest.mark.parametrize("name", NAMES)
@given(made=cohorts)
def test_old_state_is_never_changed_in_place_and_layout_is_kept(name, made):
    rng = np.random.default_rng(made[0])
    state = made_trees(rng)
    for array in state.values():
        array.flags.writeable = False
    after = next_of(strategy_of(name), state, made_cohort(rng, made[1]))
    assert {n: (a.dtype, a.shape[1:]) for n, a in after.items()} == {
        n: (a.dtype, a.shape[1:]) for n, a in state.items()
    }
    assert list(after) == list(state)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_reported_leaves_the_state_as_it_is(name):
    for state in (empty_state(3), made_trees(np.random.default_rng(1))):
        assert bytes_of(next_of(strategy_of(name), state, [None, None, None])) == bytes_of(state)


@pytest.mark.parametrize("name", NAMES)
def test_memory_survives_the_checkpoint_to_the_bit(name):
    rng = np.random.default_rng(3)
    rounds = [made_cohort(rng, 5) for _ in range(4)]

    def run(strategy, state, which):
        for number in which:
            state = next_of(strategy, state, rounds[number])
        return state

    whole = run(strategy_of(name), empty_state(1), range(4))
    begun = strategy_of(name)
    half = safetensors_load(pack_state(run(begun, empty_state(1), range(2))))
    resumed = strategy_of(name)
    resumed.remember(safetensors_load(pack_state(begun.memory())) if begun.memory() else {})
    half = {name: half[name] for name in whole}
    assert bytes_of(run(resumed, half, range(2, 4))) == bytes_of(whole)


@pytest.mark.parametrize("name", NAMES)
def test_usable_with_flowers_own_start(name):
    model = next(model for model, row in MODELS.items() if row.strategy == name)
    flat = {"clients": 3, "data.dataset": "diabetes", "model.name": model, "privacy.noise": "seeded"}
    settings = to_flower(settings_from(flat))
    grid = InlineGrid(load_client_app(), 3, settings)
    state = initial_state(settings, {})
    result = strategy_of(name).start(grid, wire.pack_arrays(state), num_rounds=1, train_config=ConfigRecord())
    after = wire.unpack_arrays(result.arrays)
    assert len(after["root"]) == 3
    assert result.evaluate_metrics_clientapp == {}  # a node never measures a private model on its own examples
