"""Runs fault schedules of secure sums and looks whether all that must hold does.

python -m tests.secure_faults --schedules 10000       # from seed 0 on
python -m tests.secure_faults --replay 17             # one of them, printed as a story
python -m tests.secure_faults --real --schedules 300  # whole runs of the real server and the real clients' handlers
"""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Annotated

import typer

from tests.secure_faults.checking import found_in
from tests.secure_faults.invariants import broken
from tests.secure_faults.liar import lie
from tests.secure_faults.rounds import found_in_runs
from tests.secure_faults.world import run

PIECE, PIECE_OF_RUNS = 100, 10  # schedules that a process is given at a time
SHOWN = 5


def main(
    schedules: Annotated[int, typer.Option(min=1, help="How many.")] = 1000,
    seed: Annotated[int, typer.Option(help="The first one's.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes that run them.")] = 2,
    replay: Annotated[int, typer.Option(help="Tell the story of this seed, and no other.")] = -1,
    real: Annotated[bool, typer.Option("--real", help="Run whole runs, not the state machines alone.")] = False,
) -> None:
    """Run fault schedules, or replay one."""
    find = found_in_runs if real else found_in
    if replay >= 0:
        world = run(replay, lie=lie)
        lines = broken(world)
        print("\n".join([f"{world.level}: {world.level.nodes} nodes, {world.level.colluders} colluders", *world.story]))
        print("\n".join(f"BROKEN: {line}" for line in lines))
        raise typer.Exit(1 if lines else 0)
    began, starts = time.monotonic(), range(seed, seed + schedules, PIECE_OF_RUNS if real else PIECE)
    counts: Counter[str] = Counter()
    found = []
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        for some, piece in pool.map(find, starts, [min(seed + schedules, start + starts.step) for start in starts]):
            counts += some
            for number, lines in piece[: max(SHOWN - len(found), 0)]:
                print(f"seed {number}: {lines[0]}\n    python -m tests.secure_faults --replay {number}", flush=True)
            found += piece
    said = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    print(f"{schedules} schedules, {len(found)} of them break something; {said}; {time.monotonic() - began:.0f} s")
    raise typer.Exit(1 if found else 0)


if __name__ == "__main__":
    typer.run(main)
