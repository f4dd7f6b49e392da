"""Round by round: how long each phase took, and what became of the cohort."""

from __future__ import annotations

from fedlearn.report.charts.kinds import StackedBars
from fedlearn.report.points import PHASES
from fedlearn.report.stored import StoredRun

FATES = ("reported", "failed", "refused", "late")


def phases(run: StoredRun) -> StackedBars:
    """Return how long each phase of each round took."""
    layers = {phase: _heights(run, f"{phase}_seconds") for phase in PHASES}
    return StackedBars("phases", "seconds by phase", "seconds", _numbers(run), layers)


def fates(run: StoredRun) -> StackedBars:
    """Return what became of each round's cohort; a mark says how large it was."""
    layers = {fate: _heights(run, fate) for fate in FATES}
    marks = _heights(run, "cohort")
    return StackedBars("fates", "nodes of the cohort", "nodes", _numbers(run), layers, marks, "cohort")


def all_reported(run: StoredRun) -> bool:
    """Return whether every node of every cohort reported, and in time."""
    return all(row.get("reported") == row.get("cohort") for row in run.rounds)


def _numbers(run: StoredRun) -> tuple[int, ...]:
    return tuple(int(number or 0) for number in run.column("round_number"))


def _heights(run: StoredRun, column: str) -> tuple[float, ...]:
    return tuple(value or 0.0 for value in run.column(column))
