"""Measure a run of a million nodes on phones, a thousand of them in each round: start, seconds a round, memory.

    python -m experiments.speed.million --rounds 3
    python -m experiments.speed.million --clients 10000000 --cohort 10000 --kind rows
    python -m experiments.speed.million --clients 10000000 --cohort 200 --kind rows --rounds 1008    # a week

Two runs of ``fedlearn simulate --clients 1000000 --cohort 1000 --devices phones`` on synthetic data, which are made
when they are needed: `linear` on rows, and `cnn` on images. *Start* is the time from the start of the process until
round 1 begins; a *round* is the median after the first. Both are given in seconds of the wall clock, which depend on
other load, and of the processor (all processes together). *Days* are virtual, those of the phones. Memory is the
largest PSS of all processes, read four times a second in a run of its own of two rounds, as every reading stops the
processes; beside it stands that of a run with twice the cohort as nodes, and that at the end of the first run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from experiments.watching import cpu_of_children, pss_of_children

KINDS = {"rows": "linear", "images": "cnn"}
LOOK = 0.05  # seconds between looks at the log
MEMORY_LOOK = 0.25
DAY = 86400.0  # seconds
COMMON = (
    "--dataset", "synthetic", "--devices", "phones", "--local-epochs", "1", "--batch-size", "10",
    "--lr", "0.05", "--set", "rounds.quorum=0.5", "--set", "evaluation.where=none", "--quiet",
)  # fmt: skip


class Moment(NamedTuple):
    """Seconds since the start of the process, by the wall clock and of the processor."""

    wall: float
    cpu: float


class Followed(NamedTuple):
    """When each round began and was committed, the virtual seconds of all, and the PSS after the last in bytes."""

    begun: list[Moment]
    committed: list[Moment]
    virtual: float
    memory: int


def followed(kind: str, clients: int, cohort: int, rounds: int) -> Followed:
    """Make a run and follow it."""
    begun: list[Moment] = []
    committed: list[Moment] = []
    virtual, memory = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        log, began = Path(folder) / "run" / "events.jsonl", time.time()
        with _started(kind, clients, cohort, rounds, log.parent) as process:
            seen = 0
            while process.poll() is None:
                time.sleep(LOOK)
                now = Moment(time.time() - began, cpu_of_children(process.pid))
                events, seen = _events(log, seen)
                names = [event["event"] for event in events]
                begun += [now] * names.count("round-started")
                committed += [now] * names.count("committed")
                virtual = max([virtual, *(event["virtual"] for event in events)])
                if len(committed) == rounds and not memory:
                    memory = pss_of_children(process.pid)
    return Followed(begun, committed, virtual, memory)


def largest_memory(kind: str, clients: int, cohort: int) -> int:
    """Make a run; return the largest PSS of all its processes, in bytes."""
    largest = 0
    with tempfile.TemporaryDirectory() as folder, _started(kind, clients, cohort, 2, Path(folder) / "run") as process:
        while process.poll() is None:
            time.sleep(MEMORY_LOOK)
            largest = max(largest, pss_of_children(process.pid))
    return largest


def _started(kind: str, clients: int, cohort: int, rounds: int, out: Path) -> subprocess.Popen[bytes]:
    what = ["--model", KINDS[kind], "--set", f"data.options.kind={kind}"]
    numbers = ["--clients", str(clients), "--cohort", str(cohort), "--rounds", str(rounds), "--out", str(out)]
    return subprocess.Popen([sys.executable, "-m", "fedlearn.simulate", *COMMON, *what, *numbers])


def _events(log: Path, seen: int) -> tuple[list[dict[str, Any]], int]:
    """Return the events of the log from a byte on, and where to go on; a line that is being written is left out."""
    text = b""
    if log.exists():
        with log.open("rb") as file:
            file.seek(seen)
            text = file.read()
    text = text[: text.rfind(b"\n") + 1]
    return [json.loads(line) for line in text.splitlines()], seen + len(text)


def row_of(kind: str, clients: int, cohort: int, rounds: int) -> list[str]:
    """Return a row of the table."""
    run = followed(kind, clients, cohort, rounds)
    pairs = zip(run.begun, run.committed, strict=True)
    each = [(end.wall - begin.wall, end.cpu - begin.cpu) for begin, end in pairs][1:]
    wall, cpu = (median(seconds[place] for seconds in each) for place in (0, 1))
    memory = [largest_memory(kind, number, cohort) for number in (clients, 2 * cohort)]
    return [
        f"{KINDS[kind]} on {kind}",
        f"{run.begun[0].wall:.1f} ({run.begun[0].cpu:.1f})",
        f"{wall:.1f} ({cpu:.1f})",
        f"{run.committed[-1].wall / 60:.1f}",
        f"{run.virtual / DAY:.2f}",
        *(f"{each / 1e6:,.0f}" for each in (*memory, run.memory)),
    ]


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--cohort", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3, help="at least 2")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this; may be repeated")
    given = parser.parse_args()
    title = (
        f"{given.clients:,} nodes, {given.cohort:,} in a round, {given.rounds:,} rounds: seconds, and of the processor"
    )
    table = Table(title=title)
    for head in ("", "start", "a round", "minutes", "days", "PSS MB", f"of {2 * given.cohort:,}", "at the end"):
        table.add_column(head, justify="right" if head else "left")
    for kind in given.kind or KINDS:
        table.add_row(*row_of(kind, given.clients, given.cohort, given.rounds))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
