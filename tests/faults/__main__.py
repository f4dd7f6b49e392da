"""Runs fault schedules and looks whether all that must hold does.

    python -m tests.faults --schedules 1000               # from seed 0 on
    python -m tests.faults --replay 4711                  # one of them, printed as a story

A schedule that breaks something is printed with the command that replays it, as small as it can be made. Exit code 1 if
there is any. What must hold stands in invariants.py. When it is stopped (Ctrl-C, SIGTERM), it prints its progress.
"""

from __future__ import annotations

import logging
import resource
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Annotated

import typer

from tests.faults.checking import broken_by, found_in, go_on_when_interrupted, shrunk
from tests.faults.schedules import drawn
from tests.faults.world import run

PIECE = 200  # schedules that a process is given at a time
SAID = 50  # pieces after which it says how far it has come
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
    began, end, done, found = time.monotonic(), seed + schedules, seed, 0
    starts = range(seed, end, PIECE)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=go_on_when_interrupted)
    try:
        pieces = pool.map(found_in, starts, [min(end, start + PIECE) for start in starts])
        for place, (start, piece) in enumerate(zip(starts, pieces, strict=True), start=1):
            done, found = min(end, start + PIECE), found + len(piece)
            _show(piece[: max(SHOWN - found + len(piece), 0)])
            if place % SAID == 0:
                print(f"seeds {seed} to {done - 1}: {found} break something; {_seconds(began)}", flush=True)
    except KeyboardInterrupt:
        print(f"stopped; go on by --seed {done}")
    pool.shutdown(cancel_futures=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    which = f", seeds {seed} to {done - 1}" if done > seed else ""
    print(f"{done - seed} schedules{which}, {found} of them break something; {_seconds(began)}, "
          f"{used.ru_utime + used.ru_stime:.0f} s of processor time")  # fmt: skip
    raise typer.Exit(1 if found else 0 if done == end else 130)


def _show(piece: Sequence[tuple[int, list[str]]]) -> None:
    for number, lines in piece:
        print(f"seed {number}: {lines[0]}\n    python -m tests.faults --replay {number}", flush=True)


def _seconds(began: float) -> str:
    return f"{time.monotonic() - began:.0f} s"


def tell(seed: int) -> list[str]:
    """Print the story of a schedule, or of the smallest one that breaks something, too; return what it breaks."""
    schedule = drawn(seed)
    lines = broken_by(schedule)
    if lines:
        schedule = shrunk(schedule)
        lines = broken_by(schedule)
    try:
        ended = run(schedule, with_story=True)
        story, failed = ended.story, ended.failed
    except Exception as error:
        story, failed = [], repr(error)
    ending = f"the run fails: {failed}" if failed else "the run is complete"
    print("\n".join([*schedule.told(), "", *story, ending, *(f"BROKEN: {line}" for line in lines)]))
    return lines


if __name__ == "__main__":
    typer.run(main)
