from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.compression import load_codec
from fedlearn.compression.residual import encode_with_residual
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.state import layout_of

CHAINS = [
    "residual,top-k:0.1",
    "residual,ternary:0.1",
    "residual,sign",
    "residual,eden",
    "residual,top-k:0.2,quantize:4",
]


def codec_of(chain):
    return load_codec(CompressionSettings(codec=chain))


def change_of(rng, scale=1.0):
    return {
        "w": (rng.standard_normal((20, 30)) * scale).astype(np.float32),
        "b": rng.standard_normal(7).astype(np.float32),
        "steps": np.array([3], np.int64),
    }


def sent_of(codec, payload, change, seed):
    layout = layout_of(change)
    update = codec.decode(payload, layout=layout, seed=seed)
    return {name: entries.dense(layout[name]) for name, entries in update.items()}


@pytest.mark.parametrize("chain", CHAINS)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-6, 1.0, 1e6]))
def test_what_is_sent_and_what_is_left_sum_to_what_was_wanted(chain, seed, scale):
    codec, rng = codec_of(chain), np.random.default_rng(seed)
    change, owed = change_of(rng, scale), {"w": change_of(rng, scale)["w"], "b": np.ones(7, np.float32)}
    payload, left = encode_with_residual(codec, change, owed, seed=seed)
    sent = sent_of(codec, payload, change, seed)
    assert left.keys() == {"w", "b"}  # integers are sent as they are
    for name in left:
        wanted = change[name] + owed[name]
        # Exactly, where the entry or nothing was sent; else but for the rounding of one float32 subtraction.
        whole = (sent[name] == 0) | (sent[name] == wanted)
        np.testing.assert_array_equal((sent[name] + left[name])[whole], wanted[whole])
        unit = np.maximum(np.abs(wanted), np.abs(left[name])) * 2.0**-24
        assert np.all(np.abs(sent[name].astype(float) + left[name] - wanted) <= unit)


@pytest.mark.parametrize("chain", CHAINS)
def test_over_many_rounds_nothing_is_lost(chain):
    codec, rng = codec_of(chain), np.random.default_rng(1)
    wanted, sent, residual = np.zeros((20, 30)), np.zeros((20, 30)), {}
    for seed in range(60):
        change = change_of(rng)
        payload, residual = encode_with_residual(codec, change, residual, seed=seed)
        wanted += change["w"]
        sent += sent_of(codec, payload, change, seed)["w"]
    np.testing.assert_allclose(sent + residual["w"], wanted, atol=1e-3)
    assert np.linalg.norm(residual["w"]) < 10 * np.linalg.norm(change["w"])  # it does not grow without end


def test_a_residual_that_is_not_finite_is_forgotten():
    codec, change = codec_of("residual,top-k:0.1"), change_of(np.random.default_rng(1))
    change["w"][0, 0] = np.nan
    assert encode_with_residual(codec, change, {}, seed=1)[1] == {}
