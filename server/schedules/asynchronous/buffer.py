"""The buffer: what became of nodes since the last commit, and the sum of the changes that count."""

from __future__ import annotations

import numpy as np

from fedlearn.aggregation import STATE, Fold, FoldPlan, Verdict
from fedlearn.core.cohort import At, Member, NodeReport
from fedlearn.core.state import Array, Entries, State, Update
from server.attempt import Reporting


class Buffer:
    """Takes in reports one by one, and adds up what they change, in the order in which they are taken in.

    Parameters
    ----------
    plan
        How reports are added up.
    size
        How many make it full.

    Attributes
    ----------
    instructed
        Of which attempt each node's instruction was, in the order of positions.
    """

    def __init__(self, plan: FoldPlan, size: int) -> None:
        self._fold = Fold(plan)
        self._size = size
        self._members: list[Member] = []
        self._reports: list[NodeReport] = []
        self._seconds: list[float | None] = []
        self.instructed: list[At] = []
        self._sums = self._fold.empty()
        self.staleness: list[int] = []  # of those that count

    @property
    def is_full(self) -> bool:
        """Whether as many reports count as are wanted."""
        return len(self.staleness) >= self._size

    def end(self, member: Member, report: NodeReport, instructed: At, seconds: float | None = None) -> None:
        """Record the report of a node; its place in the buffer is its position from now on."""
        position = len(self._members)
        self._members.append(member._replace(position=position))
        self._reports.append(report._replace(position=position))
        self._seconds.append(seconds)
        self.instructed.append(instructed)

    def count(self, verdict: Verdict, staleness: int, *, factor: float, offset: State | None) -> None:
        """Add what an accepted report changes: its values plus `offset`, times `factor`, where it has sent any."""
        self.staleness.append(staleness)
        parts = self._fold.parts(verdict)
        weight, update = parts[STATE]
        parts[STATE] = weight, discounted(update, factor, offset)
        for name, part in parts.items():
            self._sums[name].add([part])

    def reporting(self) -> Reporting:
        """Return the buffered reports in the form in which a cohort reports."""
        return Reporting(self._members, self._reports, self._sums, self._seconds)


def discounted(update: Update, factor: float, offset: State | None) -> Update:
    """Return an update plus an offset, times a factor, in float64; an entry that was not sent stays so.

    >>> discounted({"w": Entries(np.array([5.0]), np.array([1]))}, 0.5, {"w": np.array([9.0, -1.0])})["w"].values
    array([2.])
    """
    if factor == 1.0 and offset is None:
        return update
    return {name: _moved(entries, factor, offset[name] if offset else None) for name, entries in update.items()}


def wide(array: Array) -> Array:
    """Return numbers of which differences can be taken: unsigned ones have none below zero."""
    return array.astype(np.float64)


def _moved(entries: Entries, factor: float, offset: Array | None) -> Entries:
    values = wide(entries.values)
    if offset is not None:
        flat = offset.reshape(-1)
        values = values + (flat if entries.positions is None else flat[entries.positions])
    return Entries(values * factor, entries.positions)
