"""Collecting: selection, configuration and reporting, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fedlearn.core.cohort import At
from server.attempt import Collected, NotCommitted, Reporting, Selection
from server.phases.configuration import configure
from server.phases.reporting import collect_reports
from server.phases.selection import select_cohort
from server.run import ServerRun

Report = Callable[[Selection, At], Reporting | NotCommitted]


def collect(run: ServerRun, at: At) -> Collected | NotCommitted:
    """Select a cohort, send it the latest state, and collect its reports, or what a feature puts in the place of it."""
    run.late.reports.refuse()
    run.late.answers.hear()
    run.notices.clear()
    collect = partial(collected_by, run, report=partial(_reported, run))
    for each in run.features:
        collect = partial(each.collect, collect=collect)
    return collect(at)


def collected_by(run: ServerRun, at: At, report: Report) -> Collected | NotCommitted:
    """Select a cohort, and return what `report` makes of it, with the times that both have taken."""
    begin, virtual_begin = run.wall.now(), run.clock.now()
    selection = select_cohort(run, at)
    selected, virtual_selected = run.wall.now(), run.clock.now()
    if selection.why_not:
        return NotCommitted(selection.why_not, selection.raised_alike)
    reporting = report(selection, at)
    if isinstance(reporting, NotCommitted):
        return reporting
    virtual = (virtual_selected - virtual_begin, run.clock.now() - virtual_selected)
    return Collected(selection.ready, reporting, selected - begin, run.wall.now() - selected, virtual)


def _reported(run: ServerRun, selection: Selection, at: At) -> Reporting:
    return collect_reports(run, configure(run, selection.cohort, at, anchors=selection.anchors), at)
