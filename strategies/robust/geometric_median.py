"""The geometric median: the point with the least sum of distances to all changes.

Source: Pillutla et al. 2022, "Robust aggregation for federated learning" (arXiv:1912.13445), eq. 3. Weiszfeld's
iteration finds it, in the weights of the changes instead of their entries, until the weights stay.
"""

from __future__ import annotations

import numpy as np

from strategies.masked_mean import Float64
from strategies.robust.defence import Combination
from strategies.robust.geometry import distances_to, squared_distances

STEPS = 10_000  # of an iteration that mostly needs fewer than a hundred
STAYS = 1e-12  # of the median distance: a smaller move of the point is its last


def median_among(gram: Float64) -> int | None:
    """Return the place of a change that is the median itself; None where none is.

    It is one where the unit vectors to all others sum to a vector no longer than the number of changes equal to it
    (Vardi, Zhang 2000, "The multivariate L1-median and associated data depth", eq. 2.5).

    >>> median_among(np.array([[0.0, 0.0, 0.0], [0.0, 1.0, -1.0], [0.0, -1.0, 1.0]]))
    0
    """
    for place, distances in enumerate(np.sqrt(squared_distances(gram))):
        away = distances > 0
        pulls = np.divide(1.0, distances, out=np.zeros_like(distances), where=away)
        pulls[place] = -pulls.sum()
        if pulls @ gram @ pulls <= np.count_nonzero(~away) ** 2:
            return place
    return None


class GeometricMedian(Combination):
    """The point with the least sum of distances to all changes; it stands f < n / 2 attackers, whatever f is.

    Parameters
    ----------
    attackers : int, default=1
        f: so many of the nodes that report may lie; a round needs 2 f + 1 reports.
    mixing : bool, default=False
        Whether each change is first replaced by the mean of its n - f nearest ones.
    uniform : bool, default=False
        Makes no difference: every node counts alike anyway.

    References
    ----------
    Pillutla et al. 2022, "Robust aggregation for federated learning" (arXiv:1912.13445), eq. 3.

    Examples
    --------
    >>> points = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [1.0, 2.0], [10.0, -10.0]])
    >>> (GeometricMedian().weights(points @ points.T) @ points).round(8)
    array([1.26326603, 0.63857388])
    """

    def weights(self, gram: Float64) -> Float64:
        """Return the weights of the median: of one change alone, or those where Weiszfeld's iteration stays."""
        place = median_among(gram)
        if place is not None:
            one: Float64 = np.eye(len(gram))[place]
            return one
        weights = np.full(len(gram), 1 / len(gram))
        for _ in range(STEPS):
            distances = distances_to(gram, weights)
            closeness = np.divide(1.0, distances, out=np.zeros_like(distances), where=distances > 0)
            after: Float64 = closeness / closeness.sum()
            move = after - weights
            weights = after
            if move @ gram @ move <= (STAYS * np.median(distances)) ** 2:
                break
        return weights
