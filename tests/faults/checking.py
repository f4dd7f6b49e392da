"""Whether a schedule breaks anything, and the smallest one that does."""

from __future__ import annotations

import gc
import logging
import signal
import traceback

from tests.faults.invariants import broken, differences
from tests.faults.schedules import Schedule, drawn
from tests.faults.world import run

COLLECTED = 100  # schedules after which it is looked for what they have left
MOST_TRIALS = 400  # runs that a schedule is made smaller by


def found_in(first: int, end: int, *, most: int = 1 << 30) -> list[tuple[int, list[str]]]:
    """Return the seeds of a range that break something, at most so many, and what."""
    logging.disable(logging.WARNING)  # what a power failure has taken of the log is said each time
    gc.disable()  # a schedule leaves too little behind to look for it each time
    found = []
    for seed in range(first, end):
        if lines := broken_by(drawn(seed)):
            found.append((seed, lines))
            if len(found) == most:
                break
        if seed % COLLECTED == 0:
            gc.collect()
            gc.freeze()  # what was imported is not looked through again and again
    gc.enable()
    logging.disable(logging.NOTSET)
    return found


def go_on_when_interrupted() -> None:
    """Leave it to the process that has begun this one to stop what it does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def broken_by(schedule: Schedule) -> list[str]:
    """Return the invariants that a schedule breaks, also in the run without its kills, and between the two."""
    try:
        ended = run(schedule)
        lines = broken(ended)
        if schedule.kills:
            undisturbed = run(schedule.without_kills())
            lines += broken(undisturbed) + differences(ended, undisturbed)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        lines = [f"{type(error).__name__}: {error} ({where.name})"]
    return lines


def shrunk(schedule: Schedule) -> Schedule:
    """Return the smallest schedule found that still breaks something."""
    trials = 0
    while True:
        for smaller in schedule.smaller():
            trials += 1
            if broken_by(smaller):
                schedule = smaller
                break
            if trials > MOST_TRIALS:
                return schedule
        else:
            return schedule
