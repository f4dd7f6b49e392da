"""Codecs that claim to be unbiased are: the mean of many decoded vectors goes to the vector."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.compression import load_codec
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.state import layout_of
from tests.marked import thinned

UNBIASED = ["rand-k:0.2", "quantize:1", "quantize:4", "rotate,quantize:2", "rand-k:0.2,rotate,quantize:3"]
UNBIASED += ["eden", "eden:2", "rand-k:0.3,eden"]
BIASED = ["top-k:0.2", "sign", "ternary:0.2"]
DRAWS = 1500


def state_of(size=2048):
    rng = np.random.default_rng(3)
    values = rng.standard_normal(size) * rng.uniform(0.1, 3, size)
    values[0] = 8  # an outlier
    return {"a.weight": values[:-8].astype(np.float32).reshape(-1, 4), "b": values[-8:].astype(np.float32)}


def deviations(chain):
    """Return how far the mean of many draws is from the vector, in its standard errors: by entry, and along itself."""
    state = state_of()
    codec = load_codec(CompressionSettings(codec=chain))
    layout = layout_of(state)
    vector = np.concatenate([state[name].reshape(-1) for name in sorted(state)]).astype(np.float64)
    total, square, along = np.zeros_like(vector), np.zeros_like(vector), []
    for seed in range(DRAWS):
        update = codec.decode(codec.encode(state, seed=seed), layout=layout, seed=seed)
        back = np.concatenate([update[name].values for name in sorted(state)]).astype(np.float64)
        total += back
        square += back**2
        along.append(back @ vector / (vector @ vector))
    mean = total / DRAWS
    variance = square / DRAWS - mean**2
    # An entry next to a level leaves it once in hundreds of draws: what was seen says little of its variance.
    error = np.sqrt(np.maximum(variance, max(variance.mean(), 1e-10) / 100) / DRAWS)
    return (mean - vector) / error, (np.mean(along) - 1) / (np.std(along) / DRAWS**0.5 + 1e-4)


@pytest.mark.parametrize("chain", thinned(UNBIASED, 2))
def test_mean_of_many_draws_is_the_vector(chain):
    by_entry, along = deviations(chain)
    assert np.abs(by_entry).max() < 5.5  # of 2,048 standard normals one in 10^4 families has such an entry
    assert np.mean(by_entry**2) < 1.25  # one, if every entry is off by chance alone
    assert abs(along) < 5


@pytest.mark.parametrize("chain", BIASED)
def test_the_test_finds_bias(chain):
    by_entry, along = deviations(chain)
    assert np.mean(by_entry**2) > 10 or abs(along) > 5
