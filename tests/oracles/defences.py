"""Defences as their papers write them, on dense vectors in float64: slow and obvious. X is (nodes, entries)."""

from __future__ import annotations

import numpy as np


def distances(X):
    return ((X[:, None] - X[None]) ** 2).sum(-1)


def krum_scores(X, f):
    D = distances(X)
    np.fill_diagonal(D, np.inf)
    return np.sort(D, 1)[:, : max(len(X) - f - 2, 1)].sum(1)


def krum(X, f):
    return X[krum_scores(X, f).argmin()]


def multi_krum(X, f, m):
    return X[np.argsort(krum_scores(X, f), kind="stable")[:m]].mean(0)


def geometric_median(X, steps=20_000):
    z = X.mean(0)
    for _ in range(steps):
        w = 1 / np.maximum(np.linalg.norm(X - z, axis=1), 1e-15)
        z = (X * w[:, None]).sum(0) / w.sum()
    return z


def centered_clipping(X, v, tau, L):
    for _ in range(L):
        d = X - v
        v = v + (d * np.minimum(1, tau / np.maximum(np.linalg.norm(d, axis=1), 1e-300))[:, None]).mean(0)
    return v


def nnm(X, f):
    D = distances(X)
    return np.stack([X[np.argsort(row, kind="stable")[: len(X) - f]].mean(0) for row in D])


def bulyan(X, f):
    left, chosen = list(range(len(X))), []
    while len(chosen) < len(X) - 2 * f:
        chosen.append(left.pop(int(krum_scores(X[left], f).argmin())))
    Z = X[sorted(chosen)]
    nearest = np.argsort(np.abs(Z - np.median(Z, 0)), 0, kind="stable")[: len(Z) - 2 * f]
    return np.take_along_axis(Z, nearest, 0).mean(0)


def trimmed_mean(X, f):
    return np.sort(X, 0)[f : len(X) - f].mean(0)


def fltrust(X, g):
    """Cao et al. 2021, eqs. 2 to 4: g is the server's own change."""
    cosines = np.array([x @ g / (np.linalg.norm(x) * np.linalg.norm(g)) for x in X])
    trust = np.maximum(cosines, 0)
    return sum(t * np.linalg.norm(g) / np.linalg.norm(x) * x for t, x in zip(trust, X, strict=True)) / trust.sum()
