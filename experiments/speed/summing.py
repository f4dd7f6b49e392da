"""Measure the time to add masked updates of `cnn-large` to the sum, beside the limit of the memory.

    python -m experiments.speed.summing --updates 100

Updates are added in blocks of two and the blocks merged, as in the engine, in one thread. The limit of one pass is
copying as many bytes as the pass has to move: it reads values and positions, and it reads and writes the cache lines
(64 bytes) of totals and weights in which an entry was sent. The old way assigns to ``total[positions]``. Times are
processor time, the best of several turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from fedlearn.aggregation import BLOCK
from fedlearn.compression.drop import draw_positions
from fedlearn.core.state import Entries, Layout, Update, layout_of
from fedlearn.data.cifar10 import SPEC
from fedlearn.models import load_model
from strategies.masked_mean import MaskedSum

WEIGHT = 500
LINE = 64  # bytes
TURNS = 5


class ByAssignment(MaskedSum):
    """A sum that adds sent entries in the old way."""

    def _add_sent(self, name: str, weight: float, values: np.ndarray, positions: np.ndarray) -> None:
        self._total(name)[positions] += np.multiply(values, weight, dtype=np.float64)
        self._weights_by_entry(name)[positions] += weight


def made(layout: Layout, keep: float, seed: int) -> Update:
    """Return an update in which a share of the entries was sent."""
    rng = np.random.default_rng(seed)
    update = {}
    for name, spec in layout.items():
        count = max(round(keep * spec.size), 1)
        positions = None if count == spec.size else draw_positions(spec.size, count, seed)
        update[name] = Entries(rng.standard_normal(count).astype(np.float32), positions)
    return update


def touched(updates: list[Update]) -> int:
    """Return how many bytes one pass over all updates reads and writes."""
    total = 0
    for entries in (entries for update in updates for entries in update.values()):
        total += entries.values.nbytes
        if entries.positions is None:
            total += 2 * 8 * len(entries.values)
        else:
            lines = 1 + int(np.count_nonzero(np.diff(entries.positions * 8 // LINE)))  # positions are ascending
            total += entries.positions.nbytes + 2 * 2 * LINE * lines
    return total


def added(kind: type[MaskedSum], layout: Layout, updates: list[Update]) -> Callable[[], None]:
    """Return a function that adds all updates, into memory that an earlier call has allocated."""
    block = kind.empty(layout)

    def add() -> None:
        for start in range(0, len(updates), BLOCK):
            block.clear()
            block.add([(WEIGHT, update) for update in updates[start : start + BLOCK]])

    return add


def copied(size: int) -> Callable[[], None]:
    """Return a function that copies half as many bytes, and so reads and writes as many."""
    part = np.ones(min(size // 2, 1 << 26), np.uint8)
    there = np.empty_like(part)

    def copy() -> None:
        for start in range(0, size // 2, len(part)):
            np.copyto(there[: size // 2 - start], part[: size // 2 - start])

    return copy


def best(tasks: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Return the least processor seconds of each function; the functions take turns."""
    seconds = dict.fromkeys(tasks, float("inf"))
    for _ in range(TURNS):
        for name, task in tasks.items():
            begun = time.process_time()
            task()
            seconds[name] = min(seconds[name], time.process_time() - begun)
    return seconds


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument(
        "--keep", type=float, action="append", help="share of the entries; 0.1, 0.5 and 0.9 unless given"
    )
    options = parser.parse_args()
    layout = layout_of(load_model("cnn-large", SPEC).initial_state(seed=1))
    table = Table(title=f"{options.updates} updates of cnn-large, ms of processor time")
    for column in ("share sent", "floor", "ours", "x floor", "by assignment"):
        table.add_column(column, justify="right")
    for keep in options.keep or (0.1, 0.5, 0.9):
        updates = [made(layout, keep, seed) for seed in range(options.updates)]
        tasks = {"floor": copied(touched(updates)), "ours": added(MaskedSum, layout, updates)}
        seconds = best(tasks | {"old": added(ByAssignment, layout, updates)})
        ratio = f"{seconds['ours'] / seconds['floor']:.2f}"
        table.add_row(f"{keep:g}", *(f"{1000 * seconds[name]:.0f}" for name in ("floor", "ours")), ratio,
                      f"{1000 * seconds['old']:.0f}")  # fmt: skip
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
