"""Attacks as their papers write them, on dense changes in float64: slow and obvious. X is (honest nodes, entries)."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np


def z_max(n, f):
    """Baruch et al. 2019, algorithm 3: s supporters are needed; z with Phi(z) < (n - f - s) / (n - f)."""
    s = int(np.floor(n / 2 + 1)) - f
    share = (n - f - max(s, 1)) / (n - f)
    return max(NormalDist().inv_cdf(share), 0.0) if share > 0 else 0.0


def alie(X, f):
    return X.mean(0) - z_max(len(X) + f, f) * X.std(0)


def ipm(X, f):
    return -2.0 * X.mean(0)


def _largest(is_inconspicuous, steps=60):
    """Shejwalkar, Houmansadr 2021, algorithm 1: halve the step towards the largest gamma that passes."""
    low, high = 0.0, 1e3
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if is_inconspicuous(middle) else (low, middle)
    return low


def min_max(X, f):
    far = max(np.linalg.norm(a - b) for a in X for b in X)
    lie = lambda gamma: X.mean(0) - gamma * X.std(0)  # noqa: E731
    return lie(_largest(lambda gamma: max(np.linalg.norm(lie(gamma) - a) for a in X) <= far))


def min_sum(X, f):
    far = max(sum(np.square(a - b).sum() for b in X) for a in X)
    lie = lambda gamma: X.mean(0) - gamma * X.std(0)  # noqa: E731
    return lie(_largest(lambda gamma: sum(np.square(lie(gamma) - a).sum() for a in X) <= far))


def mimic(X, f):
    """Karimireddy et al. 2022, appendix B: the node with the largest |<z, x - mean>|, z the first direction."""
    centered = X - X.mean(0)
    direction = np.linalg.svd(centered)[2][0]
    return X[np.abs(centered @ direction).argmax()]
