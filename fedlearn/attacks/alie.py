"""A little is enough: a lie within the spread of the honest changes."""

from __future__ import annotations

from statistics import NormalDist
from typing import Annotated

import numpy as np
from pydantic import Field

from fedlearn.attacks.claim import Attack, Float64
from fedlearn.attacks.moments import deviation, repeated


def largest_z(nodes: int, attackers: int) -> float:
    """Return z_max: so many deviations from the mean, enough honest nodes are farther from it than the attackers.

    With s = floor(n / 2 + 1) - f supporters needed, z = Phi^-1((n - f - s) / (n - f)); never below 0.

    >>> [round(largest_z(*each), 6) for each in ((20, 4), (50, 12), (50, 24), (100, 20), (10, 2))]
    [0.157311, 0.336038, 1.426077, 0.285841, 0.0]
    """
    honest = nodes - attackers
    needed = max(nodes // 2 + 1 - attackers, 1)
    share = (honest - needed) / honest
    return max(NormalDist().inv_cdf(share), 0.0) if share > 0 else 0.0


class Alie(Attack):
    """Reports the mean of the honest changes less `z` standard deviations of each entry.

    Source: Baruch et al. 2019 (arXiv:1902.06156), algorithm 3 and eq. for z_max.

    Parameters
    ----------
    z : float, optional
        The number of deviations; the paper's z_max of those that report, unless given. Benchmarks often take 1.5.
    """

    def __init__(self, *, z: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None) -> None:
        self.z = z

    def lies(self, changes: Float64, *, attackers: int, rng: np.random.Generator) -> Float64:
        """Return the same lie for every attacker."""
        z = largest_z(len(changes) + attackers, attackers) if self.z is None else self.z
        return repeated(changes.mean(axis=0) - z * deviation(changes), attackers)
