"""The rows of a table: what each algorithm has come to in a cell, over seeds, beside what is printed of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.algorithms.grids import ALGORITHM, Grid
from experiments.algorithms.ranks import ranks_of
from experiments.algorithms.spent import cpu_seconds, until
from experiments.intervals import Interval
from experiments.pages import commit_of
from fedlearn.core.gains import Gains
from fedlearn.report.gains_rows import compared
from fedlearn.report.numbers import MeanSd, count, count_spread, number
from fedlearn.report.stored import StoredRun
from fedlearn.report.tables import Column, Table
from fedlearn.sweeps.results import PlannedPoint

REFERENCE = "fedavg"  # what the others are compared with, seed by seed
TUNED, WORST, JAIN = "_tuned_nodes_equal", "_nodes_worst", "_nodes_jain"
SECONDS, COMMIT, HASHES = "CPU s", "commit", "SHA-256 by seed"
COSTS = ("rounds to", "MB to", SECONDS, COMMIT, HASHES)  # beginnings of the columns of what it has cost
SCORES = ("best round", "tuned", "worst tenth", "Jain", "gain", "clients that lose")  # beside the score of the grid
WORDS = (ALGORITHM, "with", COMMIT, HASHES)
LETTERS = 12  # of a SHA-256 for people; files have all


def table_of(grid: Grid, cell: str, points: Sequence[PlannedPoint], tuned: Mapping[str, Mapping[str, object]]) -> Table:
    """Return the table of a cell, the best algorithm first; columns that no run has are left out."""
    ranks = ranks_of(points, grid.score)
    ordered = sorted(points, key=lambda point: ranks[point.labels[ALGORITHM]])
    rows = [_row(grid, cell, point, points, tuned, ranks[point.labels[ALGORITHM]]) for point in ordered]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    kept = [name for name in columns if any(row.get(name) is not None for row in rows)]
    return Table(
        "table", f"{grid.title}: {cell}",
        tuple(_column(grid, name) for name in kept),
        tuple(tuple(row.get(name) for name in kept) for row in rows),
    )  # fmt: skip


def results_and_costs(table: Table) -> tuple[Table, Table]:
    """Return the table as two: what came out, and what it cost, with commits and hashes."""
    costs = [column.name for column in table.columns if column.name.startswith(COSTS)]
    return table.without_columns(costs), table.with_columns(costs)


def _column(grid: Grid, name: str) -> Column:
    if name == grid.score:
        return Column(name, grid.score_title, number)
    if name in SCORES:
        return Column(name, name, number)
    if name == SECONDS:
        return Column(name, name, count, spread_form=count_spread)
    return Column(name, name, _short if name == HASHES else _shown, numeric=name not in WORDS)


def _row(
    grid: Grid,
    cell: str,
    point: PlannedPoint,
    points: Sequence[PlannedPoint],
    tuned: Mapping[str, Mapping[str, object]],
    rank: float,
) -> dict[str, object]:
    name, mine, runs = point.labels[ALGORITHM], point.runs, [run for each in points for run in each.runs]
    metric = mine[0].metrics.headline
    headline = metric.name if metric else ""
    gains = [
        Gains(metric).of(list(found.values())) for run in mine if metric and (found := compared(run, metric, runs))
    ]
    scores = _scores(mine, grid.score)
    return {
        ALGORITHM: name,
        "with": ", ".join(f"{k.rpartition('.')[2]} {v}" for k, v in tuned.get(name, {}).items()) or None,
        "seeds": len(mine),
        grid.score: _mean(list(scores.values())),
        "95 % interval": _interval(list(scores.values())),
        f"minus {REFERENCE}": _difference(scores, grid.score, points) if name != REFERENCE else None,
        "rank": round(rank, 2),
        "best round": _mean([max((v for v in run.column(grid.score) if v is not None), default=None) for run in mine]),
        **{each.source: each.of(cell, name) for each in grid.published},
        "tuned": _over(mine, headline + TUNED),
        "worst tenth": _over(mine, headline + WORST),
        "Jain": _over(mine, headline + JAIN),
        "gain": _mean([found[f"{headline}_gain"] for found in gains]),
        "clients that lose": _mean([found[f"{headline}_losing"] for found in gains]),
        **until(mine, grid.score, grid.target),
        SECONDS: cpu_seconds(mine),
        COMMIT: commit_of(mine),
        HASHES: ", ".join(str(run.summary["model_sha256"]) for run in mine),
    }


def _scores(runs: Sequence[StoredRun], score: str) -> dict[object, float]:
    """Return seed -> score at the last evaluation."""
    found = {run.summary["seed"]: run.latest(score) for run in runs}
    return {seed: value for seed, value in found.items() if value is not None}


def _interval(scores: Sequence[float]) -> str | None:
    """Return the 95 % t interval of the mean; None of fewer than two seeds."""
    return Interval.of(scores).text(places=3).partition(" ")[2] if len(scores) > 1 else None


def _difference(scores: Mapping[object, float], score: str, points: Sequence[PlannedPoint]) -> str | None:
    """Return the mean difference to the reference, seed by seed, with its interval; None without common seeds."""
    theirs = _scores([run for each in points if each.labels[ALGORITHM] == REFERENCE for run in each.runs], score)
    found = [mine - theirs[seed] for seed, mine in scores.items() if seed in theirs]
    return Interval.of(found).text(places=3, signed=True) if found else None


def _over(runs: Sequence[StoredRun], column: str) -> MeanSd | None:
    return _mean([run.latest(column) for run in runs])


def _mean(values: Sequence[float | None]) -> MeanSd | None:
    found = [value for value in values if value is not None]
    return MeanSd.of(found) if found else None


def _short(hashes: str) -> str:
    return ", ".join(each[:LETTERS] for each in hashes.split(", "))


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) and abs(value) >= 100 else _digits(value)


def _digits(value: object) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
