"""Ranks of algorithms in a cell: by score for each seed, then the mean over seeds."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.algorithms.grids import ALGORITHM
from fedlearn.sweeps.results import PlannedPoint


def ranks_of(points: Sequence[PlannedPoint], score: str) -> dict[str, float]:
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
