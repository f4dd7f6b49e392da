"""Robust means: coordinate median and trimmed mean over the nodes that sent the entry.

Source: Yin et al. 2018 (arXiv:1803.01498), definitions 1 and 2. Every node counts alike, whatever number of examples
it claims: a weight would be an attacker's lever.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedlearn.core.state import Array, Sends, State
from strategies.base import RoundStrategy, Step, Turn
from strategies.collected import Collected
from strategies.robust.columns import medians
from strategies.robust.defence import Attackers, by_columns, check_attackers
from strategies.robust.geometry import Changes
from strategies.robust.mixing import mixed, nearest_means
from strategies.whole_numbers import as_before


class SortedColumns(RoundStrategy[Collected]):
    """A strategy that looks at all values sent for one entry, in ascending order.

    Parameters
    ----------
    attackers : int, default=0
        f: so many of the nodes that report may lie; a round then needs 2 f + 1 reports.
    mixing : bool, default=False
        Whether each change is first replaced by the mean of its n - f nearest ones (`strategies.robust.mixing`).
    uniform : bool, default=False
        Makes no difference: every node counts alike anyway.
    """

    accumulator = "strategies.collected:Collected"
    takes_stale = True
    takes_groups = True

    def __init__(self, *, attackers: Attackers = 0, mixing: bool = False, uniform: bool = False) -> None:
        super().__init__(uniform=uniform)
        self.attackers = attackers
        self.mixing = mixing

    @property
    def fewest_reports(self) -> int:
        """Return 2 f + 1, below which attackers may be the majority."""
        return 2 * self.attackers + 1

    def check_cohort(self, cohort: int) -> None:
        """Refuse a cohort in which attackers may be the majority."""
        check_attackers(self, cohort)

    def next_state(self, turn: Turn[Collected]) -> Step:
        """Return the next state: `middle` of each entry's values."""
        changes = Changes(turn.state, [update for _, update in turn.total.updates], turn.sends)
        if self.mixing:
            return Step(self._of_mixed(changes))
        return Step({name: self._next(name, changes) for name in turn.state})

    def _of_mixed(self, changes: Changes) -> State:
        if len(changes) < self.fewest_reports:
            return changes.state
        matrix = nearest_means(changes.gram(), self.attackers)
        return by_columns(changes, lambda values: self._middles(mixed(values, matrix)))

    def _next(self, name: str, changes: Changes) -> Array:
        array = changes.state[name]
        flat = array.reshape(-1)
        after = flat.astype(np.float64)
        touched = np.zeros(flat.size, bool)
        for block, values in changes.blocks(name):
            middle = self._middles(values)
            sent = ~np.isnan(middle)
            part = after[block]
            if changes.sends is Sends.WEIGHTS:
                part[sent] = middle[sent]
            elif array.dtype.kind == "b":  # where most have changed it, it is the other one
                part[sent] = np.abs(part[sent] - middle[sent])
            else:
                part[sent] += middle[sent]
            touched[block] = sent
        # Integers beyond 2^53 do not survive float64: where no node sent, the old array itself is taken.
        return np.where(touched, as_before(after, flat), flat).reshape(array.shape)

    def _middles(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the `middle` of each column, (entries,); NaN where all are null."""
        sent = ~np.isnan(values).all(axis=0)
        columns = np.sort(values[:, sent], axis=0)  # NaN comes last
        middles = np.full(values.shape[1], np.nan)
        if columns.size:
            middles[sent] = self.middle(columns, np.count_nonzero(~np.isnan(columns), axis=0))
        return middles

    @abstractmethod
    def middle(self, columns: NDArray[np.float64], count: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return one value for each column.

        Parameters
        ----------
        columns
            (nodes, entries), each column ascending, its first ``count`` rows hold what was sent.
        count
            (entries,), at least one.
        """


class Median(SortedColumns):
    """The middle value, or the mean of the two middle values.

    Parameters
    ----------
    attackers : int, default=0
        f: so many of the nodes that report may lie; a round then needs 2 f + 1 reports.
    mixing : bool, default=False
        Whether each change is first replaced by the mean of its n - f nearest ones.
    uniform : bool, default=False
        Makes no difference: every node counts alike anyway.

    References
    ----------
    Yin et al. 2018, "Byzantine-robust distributed learning: towards optimal statistical rates" (arXiv:1803.01498),
    definition 1.
    """

    def middle(self, columns: NDArray[np.float64], count: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the median of each column."""
        return medians(columns, count)


class TrimmedMean(SortedColumns):
    """The mean of what is left when ``floor(trim * count)`` values are cut from each end.

    Parameters
    ----------
    trim : float, default=0.1
        Share of the values that is cut from each end, in [0, 0.5).
    attackers : int, default=0
        f: so many of the nodes that report may lie; a round then needs 2 f + 1 reports.
    mixing : bool, default=False
        Whether each change is first replaced by the mean of its n - f nearest ones.
    uniform : bool, default=False
        Makes no difference: every node counts alike anyway.

    References
    ----------
    Yin et al. 2018, "Byzantine-robust distributed learning: towards optimal statistical rates" (arXiv:1803.01498),
    definition 2.

    Examples
    --------
    >>> TrimmedMean(trim=0.2).middle(np.array([[-9.0], [1.0], [2.0], [3.0], [9.0]]), np.array([5]))
    array([2.])
    """

    def __init__(
        self,
        *,
        trim: Annotated[float, Field(ge=0, lt=0.5)] = 0.1,
        attackers: Attackers = 0,
        mixing: bool = False,
        uniform: bool = False,
    ) -> None:
        super().__init__(attackers=attackers, mixing=mixing, uniform=uniform)
        self.trim = trim

    def middle(self, columns: NDArray[np.float64], count: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the trimmed mean of each column."""
        cut = np.floor(self.trim * count).astype(np.intp)
        row = np.arange(len(columns))[:, np.newaxis]
        kept = (row >= cut) & (row < count - cut)
        mean: NDArray[np.float64] = np.sum(columns, axis=0, where=kept) / np.count_nonzero(kept, axis=0)
        return mean
