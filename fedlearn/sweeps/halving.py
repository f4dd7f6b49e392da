"""Successive halving: all points run a few rounds, the better half goes on for twice as many, until one is left.

Points are ranked by the mean over seeds of the metric that ranks runs, of validation rows by default. A run that goes
on is resumed (``stop.after``) and ends with the bytes of a run that was never paused, as ``rounds.total`` is the same.

Source: Jamieson and Talwalkar 2016, "Non-stochastic best arm identification and hyperparameter optimization"
(arXiv:1502.07943), with halves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from fedlearn.core.errors import UsageError
from fedlearn.core.metric import PRIVATE_ROWS
from fedlearn.sweeps.results import Result, write_tables
from fedlearn.sweeps.sweep_plan import Plan, Run
from fedlearn.sweeps.sweep_runs import place_of, run_sweep

AFTER = "stop.after"

Labels = tuple[str, ...]  # of a point


def run_halving(plan: Plan, folder: Path, *, limit: float = 0.0, say: Callable[[str], None] = print) -> list[Result]:
    """Run the points of a plan by successive halving; return all results, those of paused runs included.

    Raises
    ------
    UsageError
        As `run_sweep`; if points have unlike numbers of rounds, or nothing public ranks them.
    """
    runs = list(plan.runs())
    totals = {run.config.rounds.total for run in runs}
    if len(totals) > 1 or any(run.config.stop.after for run in runs):
        raise UsageError(f"--halving: all points need one rounds.total, and no {AFTER}, which it sets itself")
    left = list(dict.fromkeys(_labels(run) for run in runs))
    for rounds in rungs(totals.pop(), len(left)):
        _run_to(plan, folder, rounds, left, limit)
        ranked = _ranked([run for run in runs if _labels(run) in left], folder, rounds)
        if len(left) > 1:
            left = ranked[: (len(left) + 1) // 2]
            say(f"after {rounds} rounds {len(left)} of {len(ranked)} points continue")
    found = [result for run in runs if (result := Result.read(run, place_of(run, folder))) is not None]
    write_tables(found, folder)
    return found


def rungs(total: int, points: int) -> Iterator[int]:
    """Yield the rounds after which points are compared, in rising order; the last is the total.

    >>> list(rungs(20, 8)), list(rungs(2, 8)), list(rungs(5, 1))
    ([2, 5, 10, 20], [1, 2], [5])
    """
    halvings = (points - 1).bit_length()
    yield from sorted({max(1, total >> times) for times in range(halvings + 1)})


def _run_to(plan: Plan, folder: Path, rounds: int, left: Sequence[Labels], limit: float) -> None:
    """Let the runs of some points go on to a round; those that have come further stay as they are."""
    behind = {
        run.name
        for run in plan.runs()
        if _labels(run) in left
        and ((found := Result.read(run, place_of(run, folder))) is None or _is_behind(found, rounds))
    }
    is_last = rounds == next(plan.runs()).config.rounds.total
    paused = plan if is_last else replace(plan, base={**plan.base, AFTER: rounds})
    run_sweep(paused, folder, wanted=lambda run: run.name in behind, limit=limit)


def _is_behind(result: Result, rounds: int) -> bool:
    is_over = result.completed and "stopped_early" in result.summary and not result.summary.get("paused")
    return not is_over and len(result.stored.rounds) < rounds


def _ranked(runs: Sequence[Run], folder: Path, rounds: int) -> list[Labels]:
    """Return the points, the best first; those that nothing ranks, as all their runs have failed, last."""
    scores: dict[Labels, list[float]] = {}
    results = [(run, Result.read(run, place_of(run, folder))) for run in runs]
    found = [(run, result) for run, result in results if result is not None]
    if any(result.summary.get("chosen_on") == PRIVATE_ROWS for _, result in found):
        raise UsageError("--halving: a private run chooses by public rows only, and the test rows are private")
    metric = next((each for _, result in found if (each := result.stored.metrics.headline) is not None), None)
    if metric is None:
        raise UsageError(f"--halving: points are compared after round {rounds}, up to which nothing is evaluated")
    for run, result in found:
        values = [row.get(metric.name) for row in result.stored.rounds if (row.get("round_number") or 0) <= rounds]
        measured = [value for value in values if value is not None]
        scores.setdefault(_labels(run), []).append(measured[-1] if measured else float("nan"))
    if all(value != value for each in scores.values() for value in each):
        raise UsageError(
            f"--halving: round {rounds} is compared, and nothing is evaluated up to it: evaluation.every = 1"
        )
    sign = 1 if metric.better == "down" else -1
    means = {labels: fmean(each) for labels, each in scores.items()}
    points = list(dict.fromkeys(_labels(run) for run in runs))
    return sorted(points, key=lambda each: (not _is_number(means.get(each)), sign * means.get(each, 0.0)))


def _is_number(mean: float | None) -> bool:
    return mean is not None and mean == mean


def _labels(run: Run) -> Labels:
    return tuple(run.labels.values())
