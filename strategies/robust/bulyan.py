"""Bulyan: a selection by Krum, then a trimmed mean around the median of each entry.

Source: El Mhamdi, Guerraoui, Rouault 2018, "The hidden vulnerability of distributed learning in Byzantium"
(arXiv:1802.07927), section 4.
"""

from __future__ import annotations

import numpy as np

from strategies.base import Step
from strategies.masked_mean import Float64
from strategies.robust.base import Defence, by_columns
from strategies.robust.geometry import Changes, medians
from strategies.robust.krum import scores
from strategies.robust.mixing import mixed, nearest_means


def selected(gram: Float64, attackers: int) -> list[int]:
    """Return theta = n - 2 f places: again and again the one that Krum takes of those that are left."""
    left, chosen = list(range(len(gram))), list[int]()
    while len(chosen) < len(gram) - 2 * attackers:
        best = int(np.argmin(scores(gram[np.ix_(left, left)], attackers)))
        chosen.append(left.pop(best))
    return sorted(chosen)


def around_median(values: Float64, attackers: int) -> Float64:
    """Return the mean of each column's m - 2 f values nearest to its median, of m that were sent; NaN for m < 2 f + 1.

    >>> around_median(np.array([[1.0], [2.0], [3.0], [90.0]]), attackers=1)
    array([2.5])
    """
    count = np.count_nonzero(~np.isnan(values), axis=0)
    enough = count > 2 * attackers
    columns = np.sort(values[:, enough], axis=0)  # NaN comes last
    count = count[enough]
    away = np.abs(columns - medians(columns, count))
    order = np.argsort(away, axis=0, kind="stable")
    kept = np.arange(len(columns))[:, np.newaxis] < count - 2 * attackers
    means = np.full(values.shape[1], np.nan)
    nearest = np.take_along_axis(columns, order, axis=0)
    means[enough] = np.sum(nearest, axis=0, where=kept) / (count - 2 * attackers)
    return means


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
