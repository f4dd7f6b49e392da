from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.aggregation import BLOCK, STATE, Fold, FoldingTree, blocks_of, parts_of
from tests.oracles.cohorts import bytes_of, folded, made_cohort, made_state, plan_for, verdict_of

PLAN = "strategies.masked_mean:MaskedSum"


@given(size=st.integers(0, 50))
def test_blocks_cover_the_cohort_in_order(size):
    blocks = blocks_of(size)
    assert [position for block in blocks for position in block] == list(range(size))
    assert all(len(block) == BLOCK for block in blocks[:-1])


@given(size=st.integers(0, 50), workers=st.integers(1, 70))
def test_parts_cover_the_cohort_and_leave_no_worker_idle_for_a_block(size, workers):
    parts = parts_of(size, workers)
    assert [position for _, part in parts for position in part] == list(range(size))
    assert all({position // BLOCK for position in part} == {block} for block, part in parts)
    in_turn = [0] * workers  # nodes of each worker, as each next part goes to the first that is free
    for _, part in parts:
        in_turn[in_turn.index(min(in_turn))] += len(part)
    assert max(in_turn) <= BLOCK * -(-len(blocks_of(size)) // workers)  # at most what whole blocks take
    if 0 < BLOCK * (len(blocks_of(size)) % workers) <= workers:
        assert max(in_turn) == -(-size // workers)


@pytest.mark.parametrize("stack", [2, 3, 5])
def test_blocks_that_are_trained_together_are_tasks_whatever_the_number_of_workers(stack):
    parts = [part for _, part in parts_of(11, workers=4, block=max(stack, BLOCK), stack=stack)]
    assert parts == blocks_of(11, stack)


@pytest.mark.parametrize("accumulator", [PLAN, "strategies.collected:Collected"])
@given(
    seed=st.integers(0, 2**32 - 1), size=st.integers(1, 9), workers=st.integers(1, 9), stack=st.integers(1, 5),
    data=st.data(),
)  # fmt: skip
def test_parts_add_up_to_the_bytes_of_blocks_in_whatever_order_they_come(accumulator, seed, size, workers, stack, data):
    rng = np.random.default_rng(seed)
    state = made_state(rng)
    cohort = made_cohort(rng, state, size=size, density=0.5)
    plan = plan_for(accumulator, state)
    fold, tree = Fold(plan), FoldingTree(Fold(plan), size)
    tasks = [part for _, part in parts_of(size, workers, stack=stack)]
    assert [position for part in tasks for position in part] == list(range(size))
    parts = [list(part) for task in tasks for _, part in groupby(task, lambda position: position // BLOCK)]
    came = data.draw(st.lists(st.sampled_from(parts), unique_by=tuple))
    for part in came:
        assert tree.takes_at_once(part) == (part[0] // BLOCK == tree._next and part in map(list, blocks_of(size)))
        verdicts = [verdict_of(cohort[position], position) for position in part]
        tree.place_part(part, fold.of(verdict for verdict in verdicts if verdict is not None))
    placed = {position for part in came for position in part}
    expected = folded(plan, [c if p in placed else None for p, c in enumerate(cohort)], range(size))
    assert bytes_of(tree.close()[STATE].to_arrays()) == bytes_of(expected.to_arrays())


def test_empty_cohort_adds_up_to_nothing():
    plan = plan_for(PLAN, made_state(np.random.default_rng(0)))
    total = FoldingTree(Fold(plan), 0).close()[STATE]
    assert (total.totals, total.weights, total.reports.tolist()) == ({}, {}, [0, 0])


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 9), data=st.data())
def test_what_never_came_counts_as_nothing_wherever_it_is_missing(seed, size, data):
    rng = np.random.default_rng(seed)
    state = made_state(rng)
    cohort = made_cohort(rng, state, size=size, density=0.5)
    plan = plan_for(PLAN, state)
    came = data.draw(st.lists(st.integers(0, size - 1), unique=True))
    tree = FoldingTree(Fold(plan), size)
    for position in came:
        tree.place(position, verdict_of(cohort[position], position))
    expected = folded(plan, [c if p in came else None for p, c in enumerate(cohort)], range(size))
    assert bytes_of(tree.close()[STATE].to_arrays()) == bytes_of(expected.to_arrays())


def test_block_is_forgotten_when_it_is_added():
    rng = np.random.default_rng(0)
    state = made_state(rng)
    cohort = [c or None for c in made_cohort(rng, state, size=8, density=0.5)]
    tree = FoldingTree(Fold(plan_for(PLAN, state)), 8)
    for position in range(8):
        tree.place(position, verdict_of(cohort[position], position))
        assert len(tree._verdicts) + len(tree._sums) <= 1


@pytest.mark.parametrize("accumulator", [PLAN, "strategies.collected:Collected"])
def test_accumulator_used_again_remembers_nothing(accumulator):
    rng = np.random.default_rng(4)
    state = made_state(rng)
    fold = Fold(plan_for(accumulator, state))
    first, second = (
        [verdict_of(report, p) for p, report in enumerate(made_cohort(rng, state, size=3, density=0.5))]
        for _ in range(2)
    )
    first, second = ([v for v in verdicts if v] for verdicts in (first, second))
    again = fold.of(second, fold.of(first))
    assert bytes_of(fold.to_arrays(again)) == bytes_of(fold.to_arrays(fold.of(second)))
