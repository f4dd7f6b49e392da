"""Collecting: selection, configuration and reporting, one after the other."""

from __future__ import annotations

from fedlearn.core.cohort import At
from server.attempt import Collected, NotCommitted
from server.phases import summing
from server.phases.configuration import configure
from server.phases.reporting import collect_reports
from server.phases.selection import select_cohort
from server.run import ServerRun


def collect(run: ServerRun, at: At) -> Collected | NotCommitted:
    """Select a cohort, send it the latest state, and collect its reports."""
    begin, virtual_begin = run.wall.now(), run.clock.now()
    run.late.refuse()
    run.late_answers.hear()
    run.notices.clear()
    if run.config.is_secure and (asked := summing.sum_asked_before(run, at)) is not None:
        return Collected(len(asked.members), asked, 0.0, run.wall.now() - begin)
    if run.config.is_secure and not run.exchange.is_virtual:
        run.events.sync()  # nodes remember the attempt: a resumed server must count on from it
    selection = select_cohort(run, at)
    selected, virtual_selected = run.wall.now(), run.clock.now()
    if selection.why_not:
        return NotCommitted(selection.why_not, selection.raised_alike)
    if run.config.is_secure:
        reporting = summing.collect_sum(run, selection, at)
        if isinstance(reporting, NotCommitted):
            return reporting
    else:
        reporting = collect_reports(run, configure(run, selection.cohort, at, anchors=selection.anchors), at)
    virtual = (virtual_selected - virtual_begin, run.clock.now() - virtual_selected)
    return Collected(selection.ready, reporting, selected - begin, run.wall.now() - selected, virtual)
