"""What an algorithm has cost: rounds and bytes until it has reached a score, processor time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from experiments.pages import known_cpu_seconds
from fedlearn.report.numbers import MeanSd
from fedlearn.report.stored import StoredRun

MB = 1e6  # bytes


def until(runs: Sequence[StoredRun], score: str, target: float) -> dict[str, str | None]:
    """Return the cells of rounds and MB, both ways, until an evaluation first reached the target; None is not sent."""
    reached = [found for run in runs if (found := _first(run, score, target)) is not None]
    is_sent = "baseline" not in runs[0].summary
    return {
        f"rounds to {target:g}": _to(reached, 0, len(runs)),
        f"MB to {target:g}": _to(reached, 1, len(runs)) if is_sent else None,
    }


def _first(run: StoredRun, score: str, target: float) -> tuple[float, float] | None:
    """Return round and MB, both ways, at the first evaluation that reached the target."""
    sent = accumulate(
        (up or 0) + (down or 0) for up, down in zip(run.column("bytes_up"), run.column("bytes_down"), strict=True)
    )
    places = zip(run.column("round_number"), run.column(score), sent, strict=True)
    return next(
        ((number or 0, size / MB) for number, value, size in places if value is not None and value >= target), None
    )


def _to(reached: Sequence[tuple[float, float]], place: int, count: int) -> str | None:
    """Return the mean over the seeds that reached the target, and how many did where not all; a dash if none did."""
    if not reached:
        return "-"
    mean = sum(each[place] for each in reached) / len(reached)
    return f"{mean:.1f}" + ("" if len(reached) == count else f" ({len(reached)} of {count})")


def cpu_seconds(runs: Sequence[StoredRun]) -> MeanSd | None:
    """Return the mean processor time of the runs of which it is known; None if it is known of none."""
    known = known_cpu_seconds(runs)
    return MeanSd.of(known) if known else None
