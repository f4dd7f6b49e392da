"""Make a table of algorithms: tune each on validation examples, run it with each seed, print what it has come to.

    python -m experiments.algorithms.table personal-digits --out runs/personal-digits
    python -m experiments.algorithms.table niid --only cell="Dirichlet 0.5" --only algorithm=scaffold --only seed=1
    python -m experiments.algorithms.table niid --join /parts/of/another/machine --draw
    python -m experiments.algorithms.table personal-digits --with mine=lab:Mine   # a guest beside them

Stopped at any point, the same command goes on. `experiments/configs/algorithms/` has the grids.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from experiments.algorithms.figures import draw
from experiments.algorithms.grids import Grid
from experiments.algorithms.joining import join
from experiments.algorithms.page import Made, section_of, write_into
from experiments.algorithms.rows import results_and_costs, table_of
from experiments.algorithms.tuning import tuned
from experiments.ending import exit_codes
from fedlearn.config import flat_from_assignments
from fedlearn.core.errors import UsageError
from fedlearn.runs.files import write_atomically
from fedlearn.sweeps.results import points_of
from fedlearn.sweeps.sweep_plan import Flat, Run, name_of
from fedlearn.sweeps.sweep_runs import refuse_failures, run_sweep

GRIDS = Path(__file__).parents[1] / "configs" / "algorithms"


def run_cell(grid: Grid, cell: str, folder: Path, *, wanted: Callable[[str, Run], bool]) -> Made | None:
    """Tune and run the wanted algorithms of a cell; print and write the table of all that have ended, None without."""
    place = folder / name_of({"cell": cell}).removeprefix("cell=")
    values, tuning = tuned(grid, cell, place / "tuning", wanted=lambda run: wanted(cell, run))
    plan = grid.plan(cell, values)
    if not values:
        return None
    results = run_sweep(plan, place / "reported", wanted=lambda run: wanted(cell, run))
    made = None
    if points := points_of(results):
        made = Made(cell, points, table_of(grid, cell, points, values), tuning)
        for part in results_and_costs(made.table):
            part.show()
        write_atomically(place / "table.md", made.table.as_markdown().encode())
        write_atomically(place / "table.csv", made.table.as_csv().encode())
        print(f"{cell}: {len(made.runs)} of {len(grid.algorithms) * len(grid.seeds)} runs have ended")
    refuse_failures(results)
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the cells of a grid one after another; exit code 1 if a run failed, 2 if an argument is wrong."""
    options = _parser().parse_args(arguments)
    folder = options.out or Path("runs") / (options.grid + ("-quick" if options.quick else ""))
    with exit_codes():
        grid = Grid.from_file(GRIDS / f"{options.grid}.toml", quick=options.quick)
        grid = grid.with_algorithms(_guests(options.guests))
        grid = replace(
            grid, seeds=tuple(options.seeds or grid.seeds), base={**grid.base, **flat_from_assignments(options.set)}
        )
        piece = grid.piece(options.only)
        for part in options.join:
            print(f"{join(part, folder)} runs from {part}")
        cells = [run_cell(grid, cell, folder, wanted=_nothing if options.draw else piece) for cell in grid.cells]
        _write(options.grid, grid, [made for made in cells if made is not None], folder, options.page)
        print(f"results in {os.path.relpath(folder)}")


def _nothing(cell: str, run: Run) -> bool:
    return False


def _write(name: str, grid: Grid, cells: Sequence[Made], folder: Path, page: Path | None) -> None:
    """Draw the figures of a grid and write its section of a page; do neither while no run has ended."""
    if not cells:
        return
    figures = draw(grid, {made.cell: made.points for made in cells}, folder)
    write_atomically(folder / "page.md", section_of(name, grid, cells, figures).encode())
    if page is not None:
        write_into(page, name, grid, cells, figures, folder)


def _guests(guests: Sequence[str]) -> dict[str, Flat]:
    """Return the algorithms from outside, each given as ``NAME=module:Class`` of a strategy."""
    if guests:
        sys.path.insert(0, str(Path.cwd()))
    found: dict[str, Flat] = {}
    for guest in guests:
        name, equals, reference = guest.partition("=")
        if not equals or ":" not in reference:
            raise UsageError(f"--with {guest}: write it as NAME=module:Class, the class of a strategy")
        found[name] = {"strategy.name": reference}
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.algorithms.table", description=(__doc__ or "").partition("\n")[0]
    )
    grids = sorted(path.stem for path in GRIDS.glob("*.toml"))
    parser.add_argument("grid", choices=grids, help="which table")
    parser.add_argument("--out", type=Path, help="folder; goes on with what it holds; default runs/GRID")
    parser.add_argument(
        "--only", action="append", default=[], metavar="WHAT=LABEL",
        help="run this piece now: cell, algorithm or seed; may be repeated; the tables are of all that has ended",
    )  # fmt: skip
    parser.add_argument(
        "--join", type=Path, action="append", default=[], metavar="FOLDER",
        help="take in the completed runs of a part that was run in another folder; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--with", action="append", default=[], dest="guests", metavar="NAME=MODULE:CLASS", help="a guest beside them"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[], metavar="N", help="instead of the grid's")
    parser.add_argument("--quick", action="store_true", help="a small version: minutes on two cores")
    parser.add_argument("--draw", action="store_true", help="run nothing: tables and figures of what has ended")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the section of this grid into a page, too")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any setting, of all runs")
    return parser


if __name__ == "__main__":
    main()
