"""Runs fault schedules and looks whether all that must hold does.

    python -m tests.faults --schedules 1000               # from seed 0 on
    python -m tests.faults --replay 4711                  # one of them, told as a story

A schedule that breaks something is printed with the command that replays it, as small as it can be made. Exit code 1 if
there is any. What must hold stands in invariants.py.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Annotated

import typer

from tests.faults.checking import broken_by, found_in, shrunk
from tests.faults.schedules import drawn
from tests.faults.world import run

PIECE = 200  # schedules that a process is given at a time
SHOWN = 5


def main(
    schedules: Annotated[int, typer.Option(min=1, help="How many.")] = 1000,
    seed: Annotated[int, typer.Option(help="The first one's.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes that run them.")] = 2,
    replay: Annotated[int, typer.Option(help="Tell the story of this seed, and no other.")] = -1,
) -> None:
    """Run fault schedules, or replay one."""
    logging.disable(logging.WARNING)
    if replay >= 0:
        raise typer.Exit(1 if tell(replay) else 0)
    began, found = time.monotonic(), []
    starts = range(seed, seed + schedules, PIECE)
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        for each in pool.map(found_in, starts, [min(seed + schedules, start + PIECE) for start in starts]):
            found += each
    for number, lines in found[:SHOWN]:
        print(f"seed {number}: {lines[0]}\n    python -m tests.faults --replay {number}")
    seconds = time.monotonic() - began
    print(f"{schedules} schedules, {len(found)} of them break something; {schedules / seconds:.0f} a second")
    raise typer.Exit(1 if found else 0)


def tell(seed: int) -> list[str]:
    """Print the story of a schedule, or of the smallest one that breaks something, too; return what it breaks."""
    schedule = drawn(seed)
    lines = broken_by(schedule)
    if lines:
        schedule = shrunk(schedule)
        lines = broken_by(schedule)
    try:
        ended = run(schedule, is_told=True)
        story, failed = ended.story, ended.failed
    except Exception as error:
        story, failed = [], repr(error)
    ending = f"the run fails: {failed}" if failed else "the run is complete"
    print("\n".join([*schedule.told(), "", *story, ending, *(f"BROKEN: {line}" for line in lines)]))
    return lines


if __name__ == "__main__":
    typer.run(main)
