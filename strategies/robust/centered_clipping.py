"""Centered clipping: a mean of changes that are clipped around the mean of the round before.

Source: Karimireddy, He, Jaggi 2021, "Learning from history for Byzantine robust optimization" (arXiv:2012.10333),
algorithm 1: ``v <- v + 1/n * sum of (x_i - v) min(1, tau / |x_i - v|)``, L times, from the v of the round before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import Field

from fedlearn.config.fields import Positive
from fedlearn.core.state import Array, Sends, dense_update
from strategies.base import Step
from strategies.masked_mean import Float64
from strategies.robust.columns import WeightedMean, stepped
from strategies.robust.defence import Attackers, Defence, change_by
from strategies.robust.geometry import Changes, distances_to


def clipped_weights(gram: Float64, *, radius: float, iterations: int) -> Float64:
    """Return the weights of all changes and, last, of the center, after the iterations.

    Parameters
    ----------
    gram
        Inner products of the changes and, last, the center.
    radius, iterations
        tau and L.

    Examples
    --------
    >>> points = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [1.0, 2.0], [10.0, -10.0], [0.0, 0.0]])
    >>> (clipped_weights(points @ points.T, radius=1.0, iterations=3) @ points).round(8)
    array([1.08620081, 0.64299121])
    """
    count = len(gram) - 1
    weights = np.zeros(count + 1)
    weights[-1] = 1.0
    for _ in range(iterations):
        distances = distances_to(gram, weights)[:-1]
        share = np.minimum(1.0, radius / np.maximum(distances, np.finfo(np.float64).tiny)) / count
        weights *= 1 - share.sum()
        weights[:-1] += share
    return weights


def _of_sent(values: Float64, mean: WeightedMean) -> Float64:
    """Return the mean of each column, whose last row is the center; NaN where no node sent the entry."""
    return np.where(np.isnan(values[:-1]).all(axis=0), np.nan, mean(values))


class CenteredClipping(Defence):
    """The mean of changes that are clipped around the mean change of the round before, which is zero in round 1.

    Parameters
    ----------
    attackers : int, default=1
        f: so many of the nodes that report may lie; a round needs 2 f + 1 reports.
    radius : float, default=1.0
        tau: largest distance from the center that is left as it is, above 0.
    iterations : int, default=1
        L: so many times the center moves in a round.
    uniform : bool, default=False
        Makes no difference: every node counts alike anyway.

    References
    ----------
    Karimireddy, He, Jaggi 2021, "Learning from history for Byzantine robust optimization" (arXiv:2012.10333),
    algorithm 1.
    """

    def __init__(
        self,
        *,
        attackers: Attackers = 1,
        radius: Positive = 1.0,
        iterations: Annotated[int, Field(ge=1)] = 1,
        uniform: bool = False,
    ) -> None:
        super().__init__(attackers=attackers, uniform=uniform)
        self.radius = radius
        self.iterations = iterations
        self.center: dict[str, Float64] = {}

    def after(self, changes: Changes) -> Step:
        """Return the state after the clipped mean, which is the next round's center."""
        old = changes.state
        center = {name: self.center.get(name, np.zeros(array.shape)) for name, array in old.items()}
        held = {name: array + center[name] for name, array in old.items()} if changes.sends is Sends.WEIGHTS else center
        around = Changes(old, [*changes.updates, dense_update(held)], changes.sends)
        weights = clipped_weights(around.gram(), radius=self.radius, iterations=self.iterations)
        mean = WeightedMean(weights)
        moved = change_by(around, lambda values: _of_sent(values, mean))
        for name, change in moved.items():
            kept = center[name].reshape(-1)
            self.center[name] = np.where(np.isnan(change), kept, change).reshape(old[name].shape)
        return Step({name: stepped(old[name], change) for name, change in moved.items()})

    def memory(self) -> dict[str, Array]:
        """Return the center."""
        return {f"center/{name}": array for name, array in self.center.items()}

    def remember(self, memory: Mapping[str, Array]) -> None:
        """Take the center back."""
        self.center = {name.removeprefix("center/"): array for name, array in memory.items()}
