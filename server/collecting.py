"""Collecting: selection, configuration and reporting, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from fedlearn.words.cohort import At
from server.phases.configuration import configure
from server.phases.reporting import Reporting, collect_reports
from server.phases.selection import select_cohort
from server.run import ServerRun


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """An attempt that came to nothing; the state is as it was.

    Parameters
    ----------
    reason
        Why.
    raised_alike
        Whether all nodes that were asked have raised, and all the same: another attempt would end like this one.
    is_judged_anew
        The server had the wrong thing to compare the reports with, or nothing, and has learned better from them.
    """

    reason: str
    raised_alike: bool = False
    is_judged_anew: bool = False


@dataclass(frozen=True, slots=True)
class Collected:
    """The results of selection and reporting.

    Parameters
    ----------
    ready
        How many nodes were ready.
    selection_seconds, training_seconds
        How long selection took, and configuration with reporting; in real time.
    virtual
        The same in virtual time, where there is any.
    """

    ready: int
    reporting: Reporting
    selection_seconds: float
    training_seconds: float
    virtual: tuple[float, float] = (0.0, 0.0)

    def joined(self, later: Collected) -> Collected:
        """Return both results as one; add the second's sums to the first's, in place."""
        return Collected(
            self.ready + later.ready,
            self.reporting.joined(later.reporting),
            self.selection_seconds + later.selection_seconds,
            self.training_seconds + later.training_seconds,
            (self.virtual[0] + later.virtual[0], self.virtual[1] + later.virtual[1]),
        )


def collect(run: ServerRun, at: At) -> Collected | NotCommitted:
    """Select a cohort, send it the latest state, and collect its reports."""
    begin, virtual_begin = run.wall.now(), run.clock.now()
    run.late.refuse()
    run.notices.clear()
    selection = select_cohort(run, at)
    selected, virtual_selected = run.wall.now(), run.clock.now()
    if not selection.cohort:
        first = f"; first reason: {selection.why_not}" if selection.why_not else ""
        reason = f"only {selection.ready} nodes were ready in the selection window{first}"
        return NotCommitted(reason, selection.raised_alike)
    reporting = collect_reports(run, configure(run, selection.cohort, at), at)
    virtual = (virtual_selected - virtual_begin, run.clock.now() - virtual_selected)
    return Collected(selection.ready, reporting, selected - begin, run.wall.now() - selected, virtual)
