"""What a sweep chooses, in files and words: best.toml holds the settings, differences.csv the comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tomli_w

from fedlearn.config import to_flower
from fedlearn.core.metric import PRIVATE_ROWS
from fedlearn.report.choosing import NOT_CHOSEN, Choice, choice_of, rows_of
from fedlearn.report.paired import CORRECTION
from fedlearn.report.tables import Column, Table
from fedlearn.runs.files import write_atomically
from fedlearn.sweeps.results import PlannedPoint, Result, points_of
from fedlearn.sweeps.sweep_plan import Plan

BEST, DIFFERENCES = "best.toml", "differences.csv"
COLUMNS = ("best", "other", "metric", "difference", "low", "high", f"p_{CORRECTION.lower()}", "seeds")


def write_choice(plan: Plan, results: Sequence[Result], folder: Path) -> list[str]:
    """Write the settings of the best point and how the others differ from it; return lines that say it.

    Files of an earlier choice go where there is none any more.
    """
    points = points_of(results)
    choice = choice_of(points)
    for name in (BEST, DIFFERENCES):
        (folder / name).unlink(missing_ok=True)
    if choice is None:
        is_private = len(points) > 1 and any(rows_of(point) == PRIVATE_ROWS for point in points)
        return [NOT_CHOSEN] if is_private else []
    names = [point.name for point in points]
    said = choice.sentence(names[choice.place])
    write_atomically(folder / BEST, _as_settings(plan, points[choice.place], said))
    apart = choice.next_best(names)
    if not apart:
        return [said]
    write_atomically(folder / DIFFERENCES, _compared(choice, names).as_csv().encode())
    return [said, apart, choice.how]


def _as_settings(plan: Plan, best: PlannedPoint, said: str) -> bytes:
    """Return the settings of a point as a file for ``--config``; flags were texts."""
    found = to_flower(next(run.config for run in plan.runs() if run.labels == best.labels))
    flat = {name: found.get(name, value) for name, value in plan.settings_of(best.labels).items()}
    return f"# {said}\n{tomli_w.dumps(flat)}".encode()


def _compared(choice: Choice, names: Sequence[str]) -> Table:
    rows = [
        (names[choice.place], names[place], choice.reported.name, each.mean, each.low, each.high, each.p, each.seeds)
        for place, each in enumerate(choice.differences)
        if each is not None
    ]
    return Table("differences", "", tuple(Column(name, name) for name in COLUMNS), tuple(rows))
