from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.core.state import Entries, layout_of
from strategies.masked_mean import CHUNK, MaskedSum
from tests.oracles import averaging
from tests.oracles.cohorts import bytes_of, cohort_seeds, made_report, made_state, rows_of


def summed(state, reports):
    total = MaskedSum.empty(layout_of(state))
    for report in reports:
        total.add([(report.weight, report.update())])
    return total


@given(made=cohort_seeds, data=st.data())
def test_mean_equals_the_oracle_in_any_order_and_grouping(made, data):
    seed, size, density = made
    rng = np.random.default_rng(seed)
    state = made_state(rng)
    reports = [made_report(rng, state, density) for _ in range(size)]
    shuffled = data.draw(st.permutations(reports))
    cuts = sorted(data.draw(st.sets(st.integers(0, size), max_size=3)))
    total = MaskedSum.empty(layout_of(state))
    for start, stop in zip([0, *cuts], [*cuts, size], strict=True):
        group = summed(state, shuffled[start:stop])
        total.merge(MaskedSum.from_arrays(group.layout, group.to_arrays()))
    mean = total.mean(otherwise=state)
    for name, old in state.items():
        exact = averaging.combined(old, rows_of(reports, name, uniform=False), averaging.mean, update=False)
        if old.dtype.kind == "f":
            np.testing.assert_allclose(mean[name], exact, rtol=1e-6, atol=1e-7)
        else:
            assert np.all(np.abs(mean[name] - exact) <= 0.5 + 1e-9)


@given(made=cohort_seeds)
def test_whole_numbers_are_summed_exactly_so_grouping_cannot_matter(made):
    seed, size, density = made
    rng = np.random.default_rng(seed)
    state = {"w": rng.integers(-1000, 1000, (4, 5)).astype(np.float64)}
    reports = [made_report(rng, state, density) for _ in range(size)]
    reports = [type(r)(r.weight, {n: np.rint(v) + 0.0 for n, v in r.values.items()}, r.sent, r.dense) for r in reports]
    forward, backward = summed(state, reports), summed(state, reports[::-1])
    assert bytes_of(forward.mean(otherwise=state)) == bytes_of(backward.mean(otherwise=state))


@pytest.mark.parametrize("size", [1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7])
def test_chunks_are_seamless(size):
    values = np.random.default_rng(size).normal(size=size).astype(np.float32)
    total = MaskedSum.empty({"w": layout_of({"w": values})["w"]})
    total.add([(3, {"w": Entries(values)})])
    np.testing.assert_array_equal(total.totals["w"], values.astype(np.float64) * 3)


def test_null_is_not_zero():
    state = {"w": np.float32([5, 5, 5])}
    total = MaskedSum.empty(layout_of(state))
    total.add([(2, {"w": Entries(np.float32([0]), np.array([1]))})])  # a zero that was sent
    assert total.mean(otherwise=state)["w"].tolist() == [5, 0, 5]


def test_merging_leaves_the_other_sum_as_it_was():
    state = {"w": np.float32([1, 2])}
    one, other = MaskedSum.empty(layout_of(state)), MaskedSum.empty(layout_of(state))
    other.add([(1, {"w": Entries(np.float32([1, 2]))})])
    before = bytes_of(other.to_arrays())
    one.merge(other)
    one.merge(other)
    one.add([(9, {"w": Entries(np.float32([7]), np.array([0]))})])
    assert bytes_of(other.to_arrays()) == before


def test_memory_is_that_of_the_model_whatever_the_number_of_nodes():
    state = {"w": np.zeros(1000, np.float32)}
    total = MaskedSum.empty(layout_of(state))
    for node in range(50):
        total.add([(1, {"w": Entries(np.ones(10, np.float32), np.arange(node, node + 10))})])
    assert sum(array.nbytes for array in total.to_arrays().values()) == 2 * 8 * 1000 + 16
