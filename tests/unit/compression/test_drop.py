from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.compression.chain import Chain
from fedlearn.compression.drop import Drop, draw_positions
from fedlearn.core.state import layout_of


@given(size=st.integers(1, 3000), keep_ratio=st.floats(1e-6, 1.0), seed=st.integers(0, 2**63 - 1))
def test_entry_granularity_sends_the_exact_number_and_at_least_one(size, keep_ratio, seed):
    state = {"w": np.arange(size, dtype=np.float32)}
    payload = Chain(Drop(keep_ratio=keep_ratio)).encode(state, seed=seed)
    assert payload["float32"].shape == (max(round(keep_ratio * size), 1),)


@given(size=st.integers(1, 5000), share=st.floats(0, 1), key=st.integers(0, 2**63 - 1))
def test_positions_are_ascending_distinct_in_range_and_as_many_as_asked(size, share, key):
    count = round(share * size)
    positions = draw_positions(size, count, key)
    assert len(positions) == count
    assert np.all(np.diff(positions) > 0)
    assert count == 0 or (positions[0] >= 0 and positions[-1] < size)
    assert not positions.flags.writeable  # the cache hands out the very same array


@pytest.mark.parametrize(("size", "count"), [(10, 3), (1000, 100), (1000, 999), (64, 1)])
def test_every_position_is_equally_likely(size, count):
    draws = 4000
    hits = np.zeros(size)
    for key in range(draws):
        hits[draw_positions(size, count, key)] += 1
    share = count / size
    # Six standard deviations of a binomial: one position in 10^9 lies outside by chance.
    assert np.abs(hits / draws - share).max() < 6 * np.sqrt(share * (1 - share) / draws)
    draw_positions.cache_clear()


def test_pairs_of_positions_are_as_likely_as_without_replacement():
    draws, size, count = 6000, 6, 3
    together = np.zeros((size, size))
    for key in range(draws):
        sent = np.zeros(size)
        sent[draw_positions(size, count, key)] = 1
        together += np.outer(sent, sent)
    expected = count / size * (count - 1) / (size - 1)
    pairs = together[np.triu_indices(size, 1)] / draws
    assert np.abs(pairs - expected).max() < 6 * np.sqrt(expected * (1 - expected) / draws)
    draw_positions.cache_clear()


def test_positions_are_the_smallest_keys_with_ties_to_the_lower_position():
    size, count, key = 200_000, 70_000, 11  # three entries for each 16-bit key: there are ties
    raw = np.random.Philox(key=key).random_raw(size // 4)
    keys = raw.view("<u2")[:size]
    expected = np.sort(np.argsort(keys, kind="stable")[:count])
    np.testing.assert_array_equal(draw_positions(size, count, key), expected)


PINNED = "5cb5f26feb2eecaf0ea9b82173643bbdb258575e20681fb22604140d37c4f7da"
PINNED_SMALL = [3, 4, 8, 11, 15]
PROGRAM = (
    "from fedlearn.compression.drop import draw_positions\n"
    "import hashlib\n"
    "print(hashlib.sha256(draw_positions(10_007, 1001, 2**62 + 3).astype('<i8').tobytes()).hexdigest())"
)


def test_positions_are_pinned_in_every_process():
    # If this fails, a generator has changed: nodes and servers of two versions would not agree, nor would a resume.
    here = hashlib.sha256(draw_positions(10_007, 1001, 2**62 + 3).astype("<i8").tobytes()).hexdigest()
    there = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout.strip()
    assert here == there == PINNED
    assert draw_positions(20, 5, key=1).tolist() == PINNED_SMALL


def test_parameters_of_one_size_lose_different_entries():
    state = {"a": np.arange(1000, dtype=np.float32), "b": np.arange(1000, dtype=np.float32)}
    codec = Chain(Drop(keep_ratio=0.1))
    update = codec.decode(codec.encode(state, seed=1), layout=layout_of(state), seed=1)
    assert not np.array_equal(update["a"].positions, update["b"].positions)


@given(
    sizes=st.lists(st.integers(1, 500), min_size=1, max_size=8),
    keep_ratio=st.floats(0.01, 1.0),
    seed=st.integers(0, 2**63 - 1),
)
def test_tensors_are_dropped_until_the_threshold_is_passed_but_never_the_last(sizes, keep_ratio, seed):
    state = {f"p{i}": np.ones(size, np.float32) for i, size in enumerate(sizes)}
    codec = Chain(Drop(keep_ratio=keep_ratio, granularity="tensor"))
    update = codec.decode(codec.encode(state, seed=seed), layout=layout_of(state), seed=seed)
    dropped = [array.nbytes for name, array in state.items() if name not in update]
    threshold = (1 - keep_ratio) * sum(array.nbytes for array in state.values())
    assert update
    assert sum(dropped) >= threshold or len(update) == 1
    # Dropping stops at once: without the last one dropped, the threshold was not reached.
    assert not dropped or sum(dropped) - max(dropped) < threshold


def test_every_tensor_is_dropped_sometimes_and_kept_sometimes():
    state = {f"p{i}": np.ones(10, np.float32) for i in range(4)}
    codec = Chain(Drop(keep_ratio=0.5, granularity="tensor"))
    layout = layout_of(state)
    kept = [codec.decode(codec.encode(state, seed=s), layout=layout, seed=s).keys() for s in range(200)]
    for name in state:
        assert 60 < sum(name in names for names in kept) < 140  # 100 expected; deviation of 7
