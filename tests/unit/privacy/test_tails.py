"""How far honest noise goes: as rarely beyond the bound as it says, and the bound is not far off."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.privacy import geometric, polya_share, seeded_noise
from fedlearn.privacy.tails import largest_noise, largest_norm

DRAWS = 4000


def drawn(scale, shares, numbers):
    counts, noise = np.zeros((DRAWS, numbers), np.int64), seeded_noise([shares, numbers])
    if shares == 1:
        return np.abs(geometric(counts, epsilon=1 / scale, noise=noise))
    return np.abs(polya_share(counts, epsilon=1 / scale, shares=shares, noise=noise))


@pytest.mark.parametrize("numbers", [1, 10, 200])
@pytest.mark.parametrize("shares", [1, 2, 30])
@pytest.mark.parametrize("scale", [0.3, 2.0, 1e6])
def test_noise_goes_beyond_as_rarely_as_is_said(scale, shares, numbers):
    noise = drawn(scale, shares, numbers)
    for risk in (0.3, 0.02):
        margin = 4 * np.sqrt(risk / DRAWS)
        assert (noise.max(axis=1) > largest_noise(scale, numbers=numbers, risk=risk)).mean() <= risk + margin
        assert (noise.sum(axis=1) > largest_norm(scale, numbers=numbers, risk=risk)).mean() <= risk + margin


@pytest.mark.parametrize("numbers", [1, 10, 200])
def test_geometric_noise_comes_near_to_it(numbers):
    noise = drawn(1e3, 1, numbers)
    assert noise.max() > 0.7 * largest_noise(1e3, numbers=numbers, risk=1 / DRAWS)
    assert noise.sum(axis=1).max() > 0.4 * largest_norm(1e3, numbers=numbers, risk=1 / DRAWS)


def test_no_noise_goes_nowhere():
    assert largest_noise(0.0, numbers=7, risk=1e-9) == largest_norm(0.0, numbers=7, risk=1e-9) == 0
