"""Nearest-neighbor mixing: every change becomes the mean of the n - f changes that are nearest to it.

Source: Allouah et al. 2023, "Fixing by mixing: a recipe for optimal Byzantine ML under heterogeneity"
(arXiv:2302.01772), algorithm 2.
"""

from __future__ import annotations

import numpy as np

from strategies.masked_mean import Float64
from strategies.robust.geometry import squared_distances


def nearest_means(gram: Float64, attackers: int) -> Float64:
    """Return the matrix that mixes, shape (nodes, nodes): row i has 1 / (n - f) at the n - f changes nearest to i.

    A change is its own nearest; of two that are equally near, the one of the lower partition counts.

    >>> nearest_means(np.diag([0.0, 1.0, 9.0]), attackers=1)
    array([[0.5, 0.5, 0. ],
           [0.5, 0.5, 0. ],
           [0.5, 0. , 0.5]])
    """
    distances = squared_distances(gram)
    np.fill_diagonal(distances, -1.0)
    kept = len(gram) - attackers
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :kept]
    matrix = np.zeros_like(gram)
    np.put_along_axis(matrix, nearest, 1 / kept, axis=1)
    return matrix


def mixed(values: Float64, matrix: Float64) -> Float64:
    """Return columns of mixed changes, (nodes, entries): of an entry over the neighbors that sent it, NaN if none did.

    >>> mixed(np.array([[1.0], [3.0], [np.nan]]), np.full((3, 3), 1 / 3))
    array([[2.],
           [2.],
           [2.]])
    """
    sent = ~np.isnan(values)
    if sent.all():
        whole: Float64 = matrix @ values
        return whole
    sums, weighed = matrix @ np.where(sent, values, 0.0), matrix @ sent
    return np.divide(sums, weighed, out=np.full_like(sums, np.nan), where=weighed > 0)
