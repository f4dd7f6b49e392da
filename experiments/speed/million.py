"""Measure a run of a million nodes on phones, a thousand of them in each round: start, seconds a round, memory.

    python -m experiments.speed.million --rounds 3

Two runs of ``fedlearn simulate --clients 1000000 --cohort 1000 --devices phones`` on synthetic data, which are made
when they are needed: `linear` on rows, and `cnn` on images. *Start* is the time from the start of the process until
round 1 begins; a *round* is the median after the first. Both are given in seconds of the wall clock, which depend on
other load, and of the processor (all processes together). Memory is the largest PSS of all processes, read four times a
second in a run of its own, as every reading stops the processes; beside it stands that of a run with 2,000 nodes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from experiments.watching import cpu_of_children, pss_of_children

KINDS = {"rows": "linear", "images": "cnn"}
FEW = 2000  # nodes of the run for comparison
LOOK = 0.05  # seconds between looks at the log
MEMORY_LOOK = 0.25
COMMON = (
    "--dataset", "synthetic", "--devices", "phones", "--cohort", "1000", "--local-epochs", "1", "--batch-size", "10",
    "--lr", "0.05", "--set", "rounds.quorum=0.5", "--set", "evaluation.where=none", "--quiet",
)  # fmt: skip


class Moment(NamedTuple):
    """Seconds since the start of the process, by the wall clock and of the processor."""

    wall: float
    cpu: float


def followed(kind: str, clients: int, rounds: int) -> tuple[list[Moment], list[Moment]]:
    """Make a run; return when each round began and when it was committed."""
    begun: list[Moment] = []
    committed: list[Moment] = []
    with tempfile.TemporaryDirectory() as folder:
        log, began = Path(folder) / "run" / "events.jsonl", time.time()
        with _started(kind, clients, rounds, log.parent) as process:
            while process.poll() is None:
                time.sleep(LOOK)
                now = Moment(time.time() - began, cpu_of_children(process.pid))
                names = [event["event"] for event in _events(log)]
                begun += [now] * (names.count("round-started") - len(begun))
                committed += [now] * (names.count("committed") - len(committed))
    return begun, committed


def largest_memory(kind: str, clients: int) -> int:
    """Make a run; return the largest PSS of all its processes, in bytes."""
    largest = 0
    with tempfile.TemporaryDirectory() as folder, _started(kind, clients, 2, Path(folder) / "run") as process:
        while process.poll() is None:
            time.sleep(MEMORY_LOOK)
            largest = max(largest, pss_of_children(process.pid))
    return largest


def _started(kind: str, clients: int, rounds: int, out: Path) -> subprocess.Popen[bytes]:
    what = ["--model", KINDS[kind], "--set", f"data.options.kind={kind}"]
    numbers = ["--clients", str(clients), "--rounds", str(rounds), "--out", str(out)]
    return subprocess.Popen([sys.executable, "-m", "fedlearn.simulate", *COMMON, *what, *numbers])


def _events(log: Path) -> Iterator[dict[str, Any]]:
    """Return the events in the log so far; a line that is still being written is left out."""
    text = log.read_text(encoding="utf-8") if log.exists() else ""
    return (json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines())


def row_of(kind: str, clients: int, rounds: int) -> list[str]:
    """Return a row of the table."""
    begun, committed = followed(kind, clients, rounds)
    each = [(end.wall - begin.wall, end.cpu - begin.cpu) for begin, end in zip(begun, committed, strict=True)][1:]
    wall, cpu = (median(seconds[place] for seconds in each) for place in (0, 1))
    memory = [f"{largest_memory(kind, number) / 1e6:,.0f}" for number in (clients, FEW)]
    start = f"{begun[0].wall:.1f} ({begun[0].cpu:.1f})"
    return [f"{KINDS[kind]} on {kind}", start, f"{wall:.1f} ({cpu:.1f})", *memory]


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3, help="at least 2")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this; may be repeated")
    options = parser.parse_args()
    table = Table(title=f"{options.clients:,} nodes, 1,000 in a round: seconds, and in brackets of the processor")
    for head in ("", "start", "a round", "PSS MB", f"PSS MB of {FEW:,}"):
        table.add_column(head, justify="left" if not head else "right")
    for kind in options.kind or KINDS:
        table.add_row(*row_of(kind, options.clients, options.rounds))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
