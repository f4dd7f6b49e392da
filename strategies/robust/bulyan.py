"""Bulyan: a selection by Krum, then a trimmed mean around the median of each entry.

Source: El Mhamdi, Guerraoui, Rouault 2018, "The hidden vulnerability of distributed learning in Byzantium"
(arXiv:1802.07927), section 4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from strategies.base import Step
from strategies.masked_mean import Float64
from strategies.robust.columns import medians
from strategies.robust.defence import Defence, by_columns
from strategies.robust.geometry import Changes
from strategies.robust.krum import distances_to_others, nearest_sums
from strategies.robust.mixing import mixed, nearest_means

Counts = NDArray[np.intp]


def selected(gram: Float64, attackers: int) -> list[int]:
    """Return theta = n - 2 f places: again and again the one that Krum takes of those that are left."""
    distances = distances_to_others(gram)
    order = np.argsort(distances, axis=1, kind="stable")
    ascending = np.take_along_axis(distances, order, axis=1)
    left, chosen = np.arange(len(gram)), list[int]()
    while len(chosen) < len(gram) - 2 * attackers:
        best = int(np.argmin(nearest_sums(ascending, attackers)))
        chosen.append(int(left[best]))
        stays = np.delete(order, best, axis=0) != left[best]
        left, shape = np.delete(left, best), (len(left) - 1, len(left) - 1)
        order = np.delete(order, best, axis=0)[stays].reshape(shape)
        ascending = np.delete(ascending, best, axis=0)[stays].reshape(shape)
    return sorted(chosen)


def around_median(values: Float64, attackers: int) -> Float64:
    """Return the mean of each column's m - 2 f values nearest to its median, of m that were sent; NaN for m < 2 f + 1.

    >>> around_median(np.array([[1.0], [2.0], [3.0], [90.0]]), attackers=1)
    array([2.5])
    """
    count = np.count_nonzero(~np.isnan(values), axis=0)
    enough = count > 2 * attackers
    means = np.full(values.shape[1], np.nan)
    if enough.any():
        columns = np.sort(values[:, enough], axis=0)  # NaN comes last
        means[enough] = _nearest_mean(columns, count[enough], count[enough] - 2 * attackers)
    return means


def _nearest_mean(columns: Float64, count: Counts, kept: Counts) -> Float64:
    """Return the mean of each column's values that are nearest to its median; of two as near the lower is nearer.

    The nearest ones are found from the middle of an ascending column outwards.

    Parameters
    ----------
    columns
        (nodes, entries), each column ascending, its first ``count`` rows hold what was sent.
    kept
        (entries,): how many of the values are averaged, from 1 to ``count``.
    """
    flat, middle = columns.T.reshape(-1), medians(columns, count)
    first = np.arange(len(count)) * len(columns)
    last = first + count - 1
    above = first + count // 2
    below = above - 1
    total = np.zeros(len(count))
    for step in range(kept.max()):
        low, high = flat.take(np.maximum(below, first)), flat.take(np.minimum(above, last))
        is_low = (below >= first) & ((above > last) | (middle - low <= high - middle))
        total += np.where(step < kept, np.where(is_low, low, high), 0.0)
        below -= is_low
        above += ~is_low
    return total / kept


class Bulyan(Defence):
    """The mean, entry by entry, of the values nearest to the median of those that Krum has selected.

    An entry that fewer than 2 f + 1 of the selected nodes sent keeps its value.

    Parameters
    ----------
    attackers : int, default=1
        f: so many of the nodes that report may lie; a round needs 4 f + 3 reports.
    mixing : bool, default=False
        Whether each change is first replaced by the mean of its n - f nearest ones.
    uniform : bool, default=False
        Makes no difference: every node counts alike anyway.

    References
    ----------
    El Mhamdi, Guerraoui, Rouault 2018, "The hidden vulnerability of distributed learning in Byzantium"
    (arXiv:1802.07927), section 4.
    """

    needs = (4, 3)

    def after(self, changes: Changes) -> Step:
        """Return the state after the trimmed mean of the selected changes."""
        gram = changes.gram()
        matrix = nearest_means(gram, self.attackers) if self.mixing else None
        if matrix is not None:
            gram = matrix @ gram @ matrix.T
        chosen = selected(gram, self.attackers)
        if matrix is None:
            state = by_columns(changes.of(chosen), lambda values: around_median(values, self.attackers))
            return Step(state, left_out=sorted(set(range(len(changes))) - set(chosen)))
        return Step(by_columns(changes, lambda values: around_median(mixed(values, matrix[chosen]), self.attackers)))
