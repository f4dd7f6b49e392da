"""The rows of a table: what each algorithm has come to in a cell, over seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate

from experiments.algorithms.grids import ALGORITHM, Grid
from fedlearn.report.gains import compared
from fedlearn.report.numbers import MeanSd
from fedlearn.report.stored import StoredRun
from fedlearn.report.tables import Column, Table
from fedlearn.sweeps.results import PlannedPoint, Result, points_of
from fedlearn.words.gains import Gains

MB = 1e6  # bytes
TUNED, WORST, JAIN = "_tuned_nodes_equal", "_nodes_worst", "_nodes_jain"


def table_of(grid: Grid, cell: str, results: Sequence[Result], tuned: Mapping[str, Mapping[str, object]]) -> Table:
    """Return the table of a cell, the best algorithm first; columns that no run has are left out."""
    points = points_of(results)
    ranks = _ranks(points, grid.score)
    ordered = sorted(points, key=lambda point: ranks[point.labels[ALGORITHM]])
    runs = [result.stored for result in results]
    rows = [_row(grid, point, ranks[point.labels[ALGORITHM]], runs, tuned) for point in ordered]
    columns = [name for name in dict.fromkeys(name for row in rows for name in row)]
    kept = [name for name in columns if any(row.get(name) is not None for row in rows)]
    words = {ALGORITHM, "with", "SHA-256 by seed", "commit"}
    return Table(
        "table", f"{grid.title}: {cell}",
        tuple(Column(name, name, _shown, numeric=name not in words) for name in kept),
        tuple(tuple(row.get(name) for name in kept) for row in rows),
    )  # fmt: skip


def _row(
    grid: Grid, point: PlannedPoint, rank: float, runs: Sequence[StoredRun], tuned: Mapping[str, Mapping[str, object]]
) -> dict[str, object]:
    name, mine = point.labels[ALGORITHM], point.runs
    values = tuned.get(name, {})
    metric = mine[0].metrics.headline
    headline = metric.name if metric else ""
    reached = [_until(run, grid) for run in mine]
    every = [each for each in reached if each is not None]
    is_sent = "baseline" not in mine[0].summary
    gains = [
        Gains(metric).of(list(found.values())) for run in mine if metric and (found := compared(run, metric, runs))
    ]
    return {
        ALGORITHM: name,
        "with": ", ".join(f"{each.rpartition('.')[2]} {value}" for each, value in values.items()) or None,
        "seeds": len(mine),
        grid.score: _over(mine, grid.score),
        "rank": round(rank, 2),
        "tuned": _over(mine, headline + TUNED),
        "worst tenth": _over(mine, headline + WORST),
        "Jain": _over(mine, headline + JAIN),
        "gain": _mean([found[f"{headline}_gain"] for found in gains]),
        "nodes that lose": _mean([found[f"{headline}_losing"] for found in gains]),
        f"rounds to {grid.target:g}": _to(every, 0, len(mine)),
        f"MB to {grid.target:g}": _to(every, 1, len(mine)) if is_sent else None,
        "CPU s": MeanSd.of([float(run.summary.get("cpu_seconds") or 0) for run in mine]),
        "commit": ", ".join(dict.fromkeys(_commit(run) for run in mine)),
        "SHA-256 by seed": ", ".join(str(run.summary["model_sha256"])[:12] for run in mine),
    }


def _ranks(points: Sequence[PlannedPoint], score: str) -> dict[str, float]:
    """Return algorithm -> mean over seeds of its rank among those that have the seed; equal scores share a rank."""
    of_seed: dict[object, dict[str, float]] = {}
    for point in points:
        for run in point.runs:
            value = run.latest(score)
            if value is not None:
                of_seed.setdefault(run.summary["seed"], {})[point.labels[ALGORITHM]] = value
    ranks: dict[str, list[float]] = {point.labels[ALGORITHM]: [] for point in points}
    for scores in of_seed.values():
        for name, mine in scores.items():
            better, alike = (sum(test(v, mine) for v in scores.values()) for test in (float.__gt__, float.__eq__))
            ranks[name].append(better + (alike + 1) / 2)
    return {name: sum(found) / len(found) if found else float("inf") for name, found in ranks.items()}


def _until(run: StoredRun, grid: Grid) -> tuple[float, float] | None:
    """Return round and MB, both ways, at the first evaluation that reached the target."""
    sent = accumulate(
        (up or 0) + (down or 0) for up, down in zip(run.column("bytes_up"), run.column("bytes_down"), strict=True)
    )
    places = zip(run.column("round_number"), run.column(grid.score), sent, strict=True)
    return next(
        ((number or 0, size / MB) for number, score, size in places if score is not None and score >= grid.target), None
    )


def _to(reached: Sequence[tuple[float, float]], place: int, count: int) -> str | None:
    """Return the mean over the seeds that reached the target, and how many did where not all; a dash if none did."""
    if not reached:
        return "-"
    mean = sum(each[place] for each in reached) / len(reached)
    return f"{mean:.1f}" + ("" if len(reached) == count else f" ({len(reached)} of {count})")


def _over(runs: Sequence[StoredRun], column: str) -> MeanSd | None:
    return _mean([run.latest(column) for run in runs])


def _mean(values: Sequence[float | None]) -> MeanSd | None:
    found = [value for value in values if value is not None]
    return MeanSd.of(found) if found else None


def _commit(run: StoredRun) -> str:
    """Return the first letters of the commit that made a run, with a + where the clone had changes."""
    try:
        text = str(json.loads((run.folder / "environment.json").read_text())["fedlearn_commit"] or "-")
    except (OSError, ValueError, KeyError):
        return "-"
    return text[:8] + ("+" if len(text) > 40 else "")


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) and abs(value) >= 100 else _digits(value)


def _digits(value: object) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
