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
from fedlearn.core.state import ArraySpec, layout_of


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


def counted(sent, name, layout):
    """Return how many entries of a parameter are sent: None stands for all."""
    positions = sent.get(name, ())
    return layout[name].size if positions is None else len(positions)


@pytest.mark.long
@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=6),
    dtypes=st.lists(st.sampled_from(["float16", "float32", "float64"]), min_size=6, max_size=6),
    keep_ratio=st.floats(0.01, 1.0),
    seed=st.integers(0, 2**63 - 1),
)
def test_entries_of_all_parameters_are_dropped_until_the_threshold_is_passed_but_never_the_last(
    sizes, dtypes, keep_ratio, seed
):
    layout = {f"p{i}": ArraySpec((size,), dtype) for i, (size, dtype) in enumerate(zip(sizes, dtypes, strict=False))}
    sent = Drop(keep_ratio=keep_ratio, granularity="all").chosen({}, layout=layout, seed=seed)
    width = {name: np.dtype(spec.dtype).itemsize for name, spec in layout.items()}
    left = {name: counted(sent, name, layout) for name in layout}
    dropped = sum((layout[name].size - left[name]) * width[name] for name in layout)
    threshold = (1 - keep_ratio) * sum(layout[name].size * width[name] for name in layout)
    assert dropped >= threshold or sum(left.values()) == 1
    # Dropping stops at once: one entry fewer, and the threshold was not reached.
    assert dropped - max(width.values()) < threshold or dropped == 0


def test_one_shuffle_over_all_entries_shares_the_drops_out_by_chance():
    layout = {"small": ArraySpec((10,), "float32"), "large": ArraySpec((990,), "float32")}
    drop = Drop(keep_ratio=0.1, granularity="all")
    draws = [drop.chosen({}, layout=layout, seed=seed) for seed in range(2000)]
    assert {sum(counted(sent, name, layout) for name in layout) for sent in draws} == {100}
    small = np.array([counted(sent, "small", layout) for sent in draws])
    # Hypergeometric: mean 1, none at all in 0.9^10 = 35 % of the draws; six standard deviations of each.
    assert abs(small.mean() - 1) < 6 * 0.95 / 2000**0.5
    assert abs((small == 0).mean() - 0.347) < 6 * 0.011
    hits = np.bincount(np.concatenate([sent["large"] for sent in draws]), minlength=990) / 2000
    assert np.abs(hits - 0.1).max() < 6 * (0.09 / 2000) ** 0.5
