"""Make a table of algorithms: tune each on validation examples, run it with each seed, print what it has come to.

    python -m experiments.algorithms.table personal-digits --out runs/personal-digits
    python -m experiments.algorithms.table niid --cell "Dirichlet 0.5" --algorithm scaffold
    python -m experiments.algorithms.table personal-digits --with mine=lab:Mine   # a guest beside them

Stopped at any point, the same command goes on. `experiments/configs/algorithms/` has the grids.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.algorithms.grids import Grid
from experiments.algorithms.rows import table_of
from experiments.algorithms.tuning import tuned
from fedlearn.commands.shared import INTERRUPTED
from fedlearn.config import flat_from_assignments
from fedlearn.runs.files import write_atomically
from fedlearn.sweeps.plan import name_of
from fedlearn.sweeps.running import refuse_failures, run_sweep
from fedlearn.words.errors import FedlearnError, UsageError

GRIDS = Path(__file__).parents[1] / "configs" / "algorithms"


def run_cell(grid: Grid, cell: str, folder: Path, *, is_run: bool) -> None:
    """Tune and run the algorithms of one cell; write and print its table."""
    place = folder / name_of({"cell": cell}).removeprefix("cell=")
    values = tuned(grid, cell, place / "tuning", is_run=is_run)
    mine = replace(grid, algorithms={name: flat for name, flat in grid.algorithms.items() if name in values})
    results = run_sweep(mine.plan(cell, values), place / "reported", wanted=lambda run: is_run)
    if any(result.completed for result in results):
        table = table_of(mine, cell, results, values)
        table.show()
        write_atomically(place / "table.md", table.as_markdown().encode())
        write_atomically(place / "table.csv", table.as_csv().encode())
    refuse_failures(results)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the cells of a grid one after another; exit code 1 if a run failed, 2 if an argument is wrong."""
    options = _parser().parse_args(arguments)
    folder = options.out or Path("runs") / (options.grid + ("-quick" if options.quick else ""))
    try:
        grid = _with_guests(Grid.from_file(GRIDS / f"{options.grid}.toml", quick=options.quick), options.guests)
        grid = grid.chosen(options.cell, options.algorithm)
        grid = replace(
            grid, seeds=tuple(options.seeds or grid.seeds), base={**grid.base, **flat_from_assignments(options.set)}
        )
        for cell in grid.cells:
            run_cell(grid, cell, folder, is_run=not options.draw)
        print(f"results in {os.path.relpath(folder)}")
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except FedlearnError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _with_guests(grid: Grid, guests: Sequence[str]) -> Grid:
    """Return the grid with algorithms from outside, each given as ``NAME=module:Class`` of a strategy."""
    if guests:
        sys.path.insert(0, str(Path.cwd()))
    found = {}
    for guest in guests:
        name, equals, reference = guest.partition("=")
        if not equals or ":" not in reference:
            raise UsageError(f"--with {guest}: write it as NAME=module:Class, the class of a strategy")
        found[name] = {"strategy.name": reference}
    return replace(grid, algorithms={**grid.algorithms, **found})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.algorithms.table", description=(__doc__ or "").partition("\n")[0]
    )
    grids = sorted(path.stem for path in GRIDS.glob("*.toml"))
    parser.add_argument("grid", choices=grids, help="which table")
    parser.add_argument("--out", type=Path, help="folder; goes on with what it holds; default runs/GRID")
    parser.add_argument("--cell", action="append", default=[], help="this cell alone; may be repeated")
    parser.add_argument("--algorithm", action="append", default=[], help="this algorithm alone; may be repeated")
    parser.add_argument(
        "--with", action="append", default=[], dest="guests", metavar="NAME=MODULE:CLASS", help="a guest beside them"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[], metavar="N", help="instead of the grid's")
    parser.add_argument("--quick", action="store_true", help="a small version: minutes on two cores")
    parser.add_argument("--draw", action="store_true", help="run nothing: the tables of what has ended")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any setting, of all runs")
    return parser


if __name__ == "__main__":
    main()
