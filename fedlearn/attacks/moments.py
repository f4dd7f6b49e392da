"""Means and deviations of honest changes, and how far a lie can go without being the farthest."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from fedlearn.attacks.claim import Float64


def repeated(lie: Float64, attackers: int) -> Float64:
    """Return one lie for each attacker: all say the same."""
    return np.tile(lie, (attackers, 1))


def deviation(changes: Float64) -> Float64:
    """Return the standard deviation of each entry, divided by the number of nodes (ddof 0)."""
    spread: Float64 = changes.std(axis=0)
    return spread


def products(rows: Float64, columns: Float64) -> Float64:
    """Return all inner products of two sets of vectors; on one thread, as more would sum in another order."""
    with threadpool_limits(1):
        found: Float64 = rows @ columns.T
        return found


def distances(centered: Float64) -> Float64:
    """Return the squared distances of all pairs of changes, less their mean, shape (nodes, nodes)."""
    gram = products(centered, centered)
    squares = np.diag(gram)
    found: Float64 = np.maximum(squares[:, np.newaxis] + squares - 2 * gram, 0.0)
    return found
