"""Both noise sources, and a judge of counts against exact probabilities."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import chi2

from fedlearn.privacy import Noise, secure_noise, seeded_noise

# Secure noise cannot be seeded: a sound sampler fails a test by bad luck once in ten million runs.
LUCK = 1e-7


@pytest.fixture(params=["secure", "seeded"])
def noise(request) -> Noise:
    return secure_noise() if request.param == "secure" else seeded_noise(20201217)


@pytest.fixture
def assert_drawn_from() -> Callable[[np.ndarray, np.ndarray], None]:
    def judge(counts: np.ndarray, probabilities: np.ndarray) -> None:
        """Fail if the counts are not a sample of the probabilities (Pearson's chi-square, cells below 10 pooled)."""
        expected = counts.sum() * probabilities
        rare = expected < 10
        if rare.any():
            counts = np.append(counts[~rare], counts[rare].sum())
            expected = np.append(expected[~rare], expected[rare].sum())
            counts, expected = counts[expected > 0], expected[expected > 0]
        statistic = ((counts - expected) ** 2 / expected).sum()
        assert chi2.sf(statistic, len(counts) - 1) > LUCK, (counts, expected)

    return judge
