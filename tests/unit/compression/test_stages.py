"""The promises of each stage beside the law of all codecs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.compression import load_codec
from fedlearn.compression.eden import POSITIVE_LEVELS, levels_of
from fedlearn.compression.rotate import LEAST, rotated, rotated_back, shapes_of
from fedlearn.compression.top_k import SAMPLE, largest
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.errors import Refused
from fedlearn.core.state import layout_of

seeds = st.integers(0, 2**63 - 1)


def codec_of(chain):
    return load_codec(CompressionSettings(codec=chain))


def decoded(chain, state, seed=1):
    codec = codec_of(chain)
    update = codec.decode(codec.encode(state, seed=seed), layout=layout_of(state), seed=seed)
    return {name: entries.values for name, entries in update.items()}


def made(size, seed=0):
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


# --- quantize ---------------------------------------------------------------------------------------------------------


@given(bits=st.integers(1, 8), size=st.integers(1, 200), seed=seeds)
def test_quantized_entry_is_one_of_its_two_neighbours_on_the_grid(bits, size, seed):
    values = made(size, seed % 2**32)
    back = decoded(f"quantize:{bits}", {"w": values}, seed)["w"]
    step = (values.max() - values.min()) / (2**bits - 1)
    assert np.abs(back - values).max() <= step * 1.001
    assert np.unique(back).size <= 2**bits


def test_each_parameter_has_its_own_scale():
    state = {"large": made(100) * 1000, "small": made(100) / 1000}
    assert np.abs(decoded("quantize:8", state)["small"] - state["small"]).max() < 1e-4


@pytest.mark.parametrize(
    "chain", ["quantize:4", "rotate,quantize:4", "eden", "sign", "ternary:0.1", "fp16", "top-k:0.1"]
)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_node_that_has_diverged_is_found_out(chain, value):
    state = {"w": made(1000)}
    state["w"][17] = value
    codec = codec_of(chain)
    payload = codec.encode(state, seed=1)
    try:
        update = codec.decode(payload, layout=layout_of(state), seed=1)
    except Refused as refused:
        assert refused.reason == "not-finite"
    else:  # the gate looks at the values
        assert not np.isfinite(update["w"].values).all()


@pytest.mark.parametrize("chain", ["quantize:1", "rotate,quantize:4", "eden", "eden:3", "sign", "ternary:0.1", "fp16"])
def test_zero_comes_back_as_zero(chain):
    state = {"w": np.zeros(5000, np.float32), "b": np.zeros(3, np.float32)}
    for values in decoded(chain, state).values():
        np.testing.assert_array_equal(values, 0)


# --- rotate and eden --------------------------------------------------------------------------------------------------


@given(size=st.integers(1, 200_000))
def test_blocks_are_powers_of_two_and_little_is_filled_up(size):
    shapes = shapes_of(size)
    assert all(rows & (rows - 1) == 0 for rows, _ in shapes)
    filled = sum(rows * columns for rows, columns in shapes)
    assert size <= filled < size + max(size / LEAST, LEAST)


@pytest.mark.parametrize("size", [1, 16, 1000, 70_000])
def test_rotation_keeps_lengths_and_is_undone(size):
    values = made(size)
    turned = rotated(values, 3, 4)
    np.testing.assert_allclose(np.linalg.norm(turned), np.linalg.norm(values), rtol=1e-5)
    assert not np.allclose(turned[:size], values)
    np.testing.assert_allclose(rotated_back(turned, size, 3, 4), values, atol=1e-5)


def test_rotation_spreads_an_outlier():
    values = made(65_536)
    values[7] = 1000
    plain, with_rotation = (decoded(chain, {"w": values})["w"] for chain in ("quantize:4", "rotate,quantize:4"))
    error, error_rotated = (np.square(back - values).sum() for back in (plain, with_rotation))
    assert error_rotated < error / 20


@pytest.mark.parametrize("bits", POSITIVE_LEVELS)
def test_levels_are_the_means_of_their_cells_under_the_normal_distribution(bits):
    from scipy.stats import norm

    levels = levels_of(bits).astype(float)
    borders = np.concatenate([[-np.inf], (levels[1:] + levels[:-1]) / 2, [np.inf]])
    means = -np.diff(norm.pdf(borders)) / np.diff(norm.cdf(borders))
    np.testing.assert_allclose(levels, means, atol=2e-3)  # the table has four digits


@pytest.mark.parametrize(("bits", "loss"), [(1, 0.5708), (2, 0.1331), (3, 0.0358), (4, 0.0096)])
def test_eden_loses_what_its_theory_says_whatever_the_vector(bits, loss):
    # The unbiased scale makes of the distortion D of the levels (Max 1960) a loss of 1 / (1 - D) - 1.
    values = made(131_072) ** 3  # heavy tails, which the rotation takes away
    back = decoded(f"eden:{bits}", {"w": values})["w"]
    assert np.square(back - values).sum() / np.square(values).sum() == pytest.approx(loss, rel=0.05)


# --- top-k ------------------------------------------------------------------------------------------------------------


@given(size=st.integers(1, 300), share=st.floats(0, 1), seed=seeds, ties=st.booleans())
def test_the_largest_are_sent_and_the_lower_position_of_equals(size, share, seed, ties):
    values = made(size, seed % 2**32)
    if ties:
        values = np.round(values)
    count = max(round(share * size), 1)
    expected = np.sort(np.argsort(-np.abs(values), kind="stable")[:count])
    np.testing.assert_array_equal(largest(values, count), expected)


@pytest.mark.parametrize("share", [0.001, 0.01, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("sample", ["representative", "misleading"])
def test_a_guessed_threshold_changes_nothing(share, sample):
    values = made(5 * SAMPLE)
    if sample == "misleading":
        values[::5] *= 1000
    count = round(share * values.size)
    expected = np.sort(np.argsort(-np.abs(values), kind="stable")[:count])
    np.testing.assert_array_equal(largest(values, count), expected)


def test_share_is_of_all_entries_together():
    state = {"large": made(100) * 1000, "small": made(900), "steps": np.array([3, 4])}
    back = decoded("top-k:0.1", state)
    np.testing.assert_array_equal(back["large"], state["large"])
    np.testing.assert_array_equal(back["small"], 0)
    np.testing.assert_array_equal(back["steps"], state["steps"])


def test_ternary_has_three_values_and_keeps_the_mean_magnitude():
    values = made(10_000)
    back = decoded("ternary:0.05", {"w": values})["w"]
    sent = np.argsort(-np.abs(values))[:500]
    magnitude = np.abs(values[sent]).mean()
    np.testing.assert_allclose(np.unique(back), [-magnitude, 0, magnitude], rtol=1e-5)
    np.testing.assert_array_equal(np.sign(back[sent]), np.sign(values[sent]))


# --- entropy ----------------------------------------------------------------------------------------------------------


def test_entropy_shrinks_what_is_uneven_and_does_not_blow_up_noise():
    state = {"w": made(50_000)}
    bare, small = (
        sum(a.nbytes for a in codec_of(c).encode(state, seed=1).values()) for c in ("quantize:4", "quantize:4,entropy")
    )
    assert small < bare * 0.9
    noise = codec_of("entropy").encode(state, seed=1)
    assert sum(array.nbytes for array in noise.values()) <= state["w"].nbytes + 8


def test_a_bomb_is_not_unpacked():
    import tracemalloc

    state = {"w": made(10)}
    codec = codec_of("entropy")
    bomb = codec.entropy.encode({"float32": np.zeros(50_000_000, np.float32)})["float32"].copy()
    assert bomb.nbytes < 20_000
    bomb[:8] = np.array([40], "<u8").view(np.uint8)  # says that it has ten entries
    tracemalloc.start()
    with pytest.raises(Refused, match="does not unpack to the 40 bytes"):
        codec.decode({"float32": bomb}, layout=layout_of(state), seed=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
