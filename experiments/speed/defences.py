"""Measure processor time and memory of each defence on the changes of 100 nodes with `cnn-large`.

    OMP_NUM_THREADS=1 python -m experiments.speed.defences

Changes are random float32, as dense as nodes send them without a codec. Times are processor time, the best of several
turns. Memory is the largest that the process had in a turn, the changes among it, as a multiple of the changes (Linux).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from fedlearn.config.tables.reports import StrategySettings
from fedlearn.core.state import Entries, Layout, Sends, State, Update, layout_of
from fedlearn.data.cifar10 import SPEC
from fedlearn.models import load_model
from strategies import load_strategy
from strategies.base import RoundStrategy, Turn
from strategies.collected import Collected

TURNS = 3
DEVIATION = 1e-3  # of an entry of a change

DEFENCES = ("krum", "multi-krum", "geometric-median", "centered-clipping", "bulyan", "median", "trimmed-mean")
MIXED = ("krum", "geometric-median", "median")


def made(name: str, attackers: int, *, mixing: bool) -> RoundStrategy[Collected]:
    """Return a defence against so many attackers."""
    options = {"attackers": attackers, **({"mixing": True} if mixing else {})}
    return load_strategy(StrategySettings.model_validate({"name": name, "options": options}))


def changes_of(nodes: int, layout: Layout) -> list[Update]:
    """Return the changes of so many nodes."""
    rng = np.random.default_rng(0)
    deviation = np.float32(DEVIATION)
    return [
        {name: Entries(deviation * rng.standard_normal(spec.size, np.float32)) for name, spec in layout.items()}
        for _ in range(nodes)
    ]


def best_seconds(strategy: RoundStrategy[Collected], state: State, updates: list[Update], turns: int) -> float:
    """Return the processor time of the fastest of several turns."""
    found = []
    for _ in range(turns):
        total = Collected(layout_of(state), [(1.0, update) for update in updates])
        begin = time.process_time()
        strategy.next_state(Turn(state, total, Sends.UPDATE))
        found.append(time.process_time() - begin)
    return min(found)


def memory(what: str) -> int:
    """Return the bytes of this process: ``VmRSS``, which it has now, or ``VmHWM``, the most since `forget_most`."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what))
    return 1024 * int(line.split()[1])


def forget_most() -> None:
    """Begin anew with the most memory that this process has had."""
    Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    """Print a row for each defence."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.speed.defences", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--model", default="cnn-large")
    parser.add_argument("--attackers", type=int, default=20)
    parser.add_argument("--turns", type=int, default=TURNS)
    options = parser.parse_args()
    state = load_model(options.model, SPEC).initial_state(seed=1)
    updates = changes_of(options.nodes, layout_of(state))
    size = sum(entries.values.nbytes for update in updates for entries in update.values())
    table = Table(title=f"{options.nodes} changes of {options.model}, {size / 1e6:.0f} MB")
    for column in ("defence", "mixing", "CPU s", "memory / changes"):
        table.add_column(column, justify="right")
    for name, mixing in [*((name, False) for name in DEFENCES), *((name, True) for name in MIXED)]:
        strategy, before = made(name, options.attackers, mixing=mixing), memory("VmRSS")
        forget_most()
        seconds = best_seconds(strategy, state, updates, options.turns)
        more = memory("VmHWM") - before
        table.add_row(name, "yes" if mixing else "", f"{seconds:.2f}", f"{1 + more / size:.2f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
