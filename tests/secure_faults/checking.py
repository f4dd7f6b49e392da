"""Whether the schedules of a range break anything."""

from __future__ import annotations

import traceback
from collections import Counter

from tests.secure_faults.invariants import broken
from tests.secure_faults.liar import lie
from tests.secure_faults.world import run


def found_in(first: int, end: int, *, most: int = 1 << 30) -> tuple[Counter[str], list[tuple[int, list[str]]]]:
    """Return what the schedules of a range came to, and the seeds of those that break something, with what."""
    counts: Counter[str] = Counter()
    found: list[tuple[int, list[str]]] = []
    for seed in range(first, end):
        try:
            world = run(seed, lie=lie)
            lines = broken(world)
            counts["committed sums"] += len(world.committed)
            counts["reports under masks"] += len(world.view.reports)
            counts["refusals by nodes"] += sum("refuses to" in line for line in world.story)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            lines = [f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"]
        if lines:
            found.append((seed, lines))
            if len(found) == most:
                break
    return counts, found
