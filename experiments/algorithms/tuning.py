"""Tuning: each algorithm gets the best of the same values, on validation examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from experiments.algorithms.grids import ALGORITHM, VALUES, Grid
from fedlearn.core.errors import RunFailed
from fedlearn.report.tables import Table
from fedlearn.runs.files import write_atomically
from fedlearn.sweeps.results import Result
from fedlearn.sweeps.sweep_plan import Flat, Plan, Run
from fedlearn.sweeps.sweep_runs import run_sweep

Scores = Mapping[tuple[str, str], float | None]  # (algorithm, value) -> score; None of a run that has failed


def tuned(
    grid: Grid, cell: str, folder: Path, *, wanted: Callable[[Run], bool] = lambda run: True
) -> tuple[dict[str, Flat], Table | None]:
    """Return algorithm -> its best values in a cell, and the table of all values; wanted runs are made if missing.

    Of equal scores the first value wins. An algorithm whose values have not all been tried is left out.
    """
    values = grid.values()
    if len(values) < 2:
        return {name: next(iter(values.values()), {}) for name in grid.algorithms}, None
    plan = grid.tuning_plan(cell)
    results = [*run_sweep(plan, folder, wanted=wanted), *_failed_before(plan, folder)]
    scores = {(r.run.labels[ALGORITHM], r.run.labels[VALUES]): score_of(r, grid.judged_by) for r in reversed(results)}
    tried = [name for name in grid.algorithms if all((name, label) in scores for label in values)]
    best = {name: _best([(label, scores[name, label]) for label in values]) for name in tried}
    if lost := [name for name, label in best.items() if label is None]:
        raise RunFailed(f"{cell}: no value of {', '.join(grid.tuning)} has let {lost[0]} end with a score")
    chosen = {name: values[label] for name, label in best.items() if label is not None}
    return chosen, _table(grid, folder, scores, best) if scores else None


def _failed_before(plan: Plan, folder: Path) -> list[Result]:
    """Return the runs that have failed and were not tried again: a value that lets a run fail is tried, too."""
    found = (Result.read(run, folder / "runs" / run.name) for run in plan.runs())
    return [result for result in found if result is not None and not result.completed]


def score_of(result: Result, column: str) -> float | None:
    """Return the last value of a column; None of a run that has failed."""
    return result.stored.latest(column) if result.completed else None


def _best(scores: Sequence[tuple[str, float | None]]) -> str | None:
    found = [(score, label) for label, score in scores if score is not None]
    return max(found, key=lambda each: each[0])[1] if found else None


def _table(grid: Grid, folder: Path, scores: Scores, best: Mapping[str, str | None]) -> Table:
    """Print what each value has come to; the one that was chosen has a star."""
    rows = []
    for name in grid.algorithms:
        shown = [(label, scores.get((name, label))) for label in grid.values()]
        texts = ["-" if s is None else f"{s:.4f}{' *' if best.get(name) == label else ''}" for label, s in shown]
        rows.append([name, *texts])
    title = f"tuning: {grid.judged_by} on validation examples, seed {grid.seeds[0]}; * is chosen"
    table = Table.of_texts("tuning", title, [ALGORITHM, *grid.values()], rows, words=1)
    table.show()
    write_atomically(folder / "tuning.md", table.as_markdown().encode())
    return table
