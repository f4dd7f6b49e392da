"""Tuning: each algorithm gets the best of the same values, on validation examples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.algorithms.grids import ALGORITHM, VALUES, Grid
from fedlearn.report.tables import Table
from fedlearn.runs.files import write_atomically
from fedlearn.sweeps.plan import Flat
from fedlearn.sweeps.results import Result
from fedlearn.sweeps.running import run_sweep
from fedlearn.words.errors import RunFailed


def tuned(grid: Grid, cell: str, folder: Path, *, is_run: bool = True) -> dict[str, Flat]:
    """Return algorithm -> its best values in a cell, by runs that are made where they are missing.

    Of equal scores the first value wins. An algorithm of which no run has ended is left out.
    """
    values = grid.values()
    if len(values) < 2:
        return {name: next(iter(values.values()), {}) for name in grid.algorithms}
    results = run_sweep(grid.tuning_plan(cell), folder, wanted=lambda run: is_run)
    scores = {(r.run.labels[ALGORITHM], r.run.labels[VALUES]): score_of(r, grid.judged_by) for r in results}
    best = {name: _best([(label, scores.get((name, label))) for label in values]) for name in grid.algorithms}
    _write(grid, folder, scores, best)
    if is_run and (lost := [name for name, label in best.items() if label is None]):
        raise RunFailed(f"{cell}: no value of {', '.join(grid.tuning)} has let {lost[0]} end with a score")
    return {name: values[label] for name, label in best.items() if label is not None}


def score_of(result: Result, column: str) -> float | None:
    """Return the last value of a column; None of a run that has failed."""
    return result.stored.latest(column) if result.completed else None


def _best(scores: Sequence[tuple[str, float | None]]) -> str | None:
    found = [(score, label) for label, score in scores if score is not None]
    return max(found, key=lambda each: each[0])[1] if found else None


def _write(grid: Grid, folder: Path, scores: dict[tuple[str, str], float | None], best: dict[str, str | None]) -> None:
    """Print what each value has come to; the one that was chosen has a star."""
    rows = []
    for name in grid.algorithms:
        shown = [(label, scores.get((name, label))) for label in grid.values()]
        texts = ["-" if s is None else f"{s:.4f}{' *' if best[name] == label else ''}" for label, s in shown]
        rows.append([name, *texts])
    title = f"tuning: {grid.judged_by} on validation examples, seed {grid.seeds[0]}; * is chosen"
    table = Table.of_texts("tuning", title, [ALGORITHM, *grid.values()], rows, words=1)
    table.show()
    write_atomically(folder / "tuning.md", table.as_markdown().encode())
