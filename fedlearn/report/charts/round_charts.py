"""Charts by round: the duration of each phase, and what became of the client updates."""

from __future__ import annotations

from fedlearn.report.charts.kinds import StackedBars, means
from fedlearn.report.points import PHASES
from fedlearn.report.stored import StoredRun

MOST_BARS = 400  # of a chart
FATES = ("reported", "failed", "refused", "late")
ASKED = "were sent the model"


def phases(run: StoredRun) -> StackedBars:
    """Return the chart of seconds by phase; with many rounds a bar is the mean of several."""
    each = _rounds_a_bar(run)
    layers = {phase: _heights(run, f"{phase}_seconds", each) for phase in PHASES}
    title = _titled("seconds by phase", each)
    return StackedBars("phases", title, "seconds", _numbers(run, each), layers, names=_names(run, each), each=each)


def fates(run: StoredRun) -> StackedBars:
    """Return the chart of fates in each cohort, with a mark at its size; with many rounds a bar is a mean."""
    each = _rounds_a_bar(run)
    layers = {fate: _heights(run, fate, each) for fate in FATES}
    marks = _heights(run, "cohort", each)
    title = _titled("client updates", each)
    return StackedBars(
        "fates", title, "clients", _numbers(run, each), layers, marks, ASKED, names=_names(run, each), each=each
    )


def all_reported(run: StoredRun) -> bool:
    """Return whether every client of every cohort reported in time."""
    return all(row.get("reported") == row.get("cohort") for row in run.rounds)


def _rounds_a_bar(run: StoredRun) -> int:
    return max(1, -(-len(run.rounds) // MOST_BARS))


def _titled(title: str, each: int) -> str:
    return f"{title}, means of {each} rounds" if each > 1 else title


def _numbers(run: StoredRun, each: int) -> tuple[int, ...]:
    return tuple(int(number or 0) for number in run.column("round_number")[::each])


def _names(run: StoredRun, each: int) -> tuple[str, ...]:
    """Return the names of bars that stand for several rounds; empty if each bar stands for one."""
    rounds = [int(number or 0) for number in run.column("round_number")]
    parts = [rounds[begin : begin + each] for begin in range(0, len(rounds), each)] if each > 1 else []
    return tuple(f"rounds {part[0]} to {part[-1]}, on average" for part in parts)


def _heights(run: StoredRun, column: str, each: int) -> tuple[float, ...]:
    return means([value or 0.0 for value in run.column(column)], each)
