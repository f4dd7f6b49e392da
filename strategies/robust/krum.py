"""Krum and Multi-Krum: the changes that lie closest to their neighbors.

Source: Blanchard et al. 2017, "Machine learning with adversaries: Byzantine tolerant gradient descent" (NeurIPS),
section 4: the score of a change is the sum of squared distances to its n - f - 2 nearest others.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from strategies.masked_mean import Float64
from strategies.robust.defence import Attackers, Combination
from strategies.robust.geometry import squared_distances


def scores(gram: Float64, attackers: int) -> Float64:
    """Return the score of each change: the sum of squared distances to its n - f - 2 nearest others, at least one.

    >>> points = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [1.0, 2.0], [10.0, -10.0]])
    >>> scores(points @ points.T, attackers=1)
    array([  4.,   4.,   4.,   4., 366.])
    """
    return nearest_sums(np.sort(distances_to_others(gram), axis=1), attackers)


def distances_to_others(gram: Float64) -> Float64:
    """Return the squared distances of all pairs, shape (nodes, nodes); of a change to itself infinity."""
    distances = squared_distances(gram)
    np.fill_diagonal(distances, np.inf)
    return distances


def nearest_sums(ascending: Float64, attackers: int) -> Float64:
    """Return the sum of each row's n - f - 2 lowest values, at least one, of n rows that ascend."""
    nearest = max(len(ascending) - attackers - 2, 1)
    total: Float64 = ascending[:, :nearest].sum(axis=1)
    return total


class MultiKrum(Combination):
    """The mean of the m changes with the lowest scores; of equal scores that of the lower partition.

    Parameters
    ----------
    attackers : int, default=1
        f: so many of the nodes that report may lie; a round needs 2 f + 3 reports.
    chosen : int, default=0
        m: so many changes are averaged, at most n - f; 0 for n - f, of those that reported.
    mixing : bool, default=False
        Whether each change is first replaced by the mean of its n - f nearest ones.
    uniform : bool, default=False
        Makes no difference: every node counts alike anyway.

    References
    ----------
    Blanchard et al. 2017, "Machine learning with adversaries: Byzantine tolerant gradient descent", section 5.

    Examples
    --------
    >>> points = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [1.0, 2.0], [10.0, -10.0]])
    >>> MultiKrum(chosen=2).weights(points @ points.T)
    array([0.5, 0.5, 0. , 0. , 0. ])
    """

    needs = (2, 3)

    def __init__(
        self,
        *,
        attackers: Attackers = 1,
        chosen: Annotated[int, Field(ge=0)] = 0,
        mixing: bool = False,
        uniform: bool = False,
    ) -> None:
        super().__init__(attackers=attackers, mixing=mixing, uniform=uniform)
        self.chosen = chosen

    def weights(self, gram: Float64) -> Float64:
        """Return 1 / m for the chosen changes, 0 for the others."""
        most = len(gram) - self.attackers
        count = min(self.chosen or most, most)
        best = np.argsort(scores(gram, self.attackers), kind="stable")[:count]
        weights = np.zeros(len(gram))
        weights[best] = 1 / count
        return weights


class Krum(MultiKrum):
    """The one change with the lowest score.

    Parameters
    ----------
    attackers : int, default=1
        f: so many of the nodes that report may lie; a round needs 2 f + 3 reports.
    mixing : bool, default=False
        Whether each change is first replaced by the mean of its n - f nearest ones.
    uniform : bool, default=False
        Makes no difference: every node counts alike anyway.

    References
    ----------
    Blanchard et al. 2017, "Machine learning with adversaries: Byzantine tolerant gradient descent", section 4.
    """

    def __init__(self, *, attackers: Attackers = 1, mixing: bool = False, uniform: bool = False) -> None:
        super().__init__(attackers=attackers, chosen=1, mixing=mixing, uniform=uniform)
