"""The section of a grid for a page of the documentation: what has run, beside print, and the commands of the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments import pages
from experiments.algorithms.grids import ALGORITHM, CELL, SEED, Grid
from experiments.algorithms.rows import results_and_costs
from fedlearn.report.stored import StoredRun
from fedlearn.report.tables import Table
from fedlearn.sweeps.results import PlannedPoint

MAKER = "experiments.algorithms.table"
CAPTIONS = {
    "scores": "The score of each algorithm: seeds, mean with its 95 % interval, rank, and printed numbers",
    "by_round": "The score of each algorithm by round: mean over seeds, one deviation to each side",
    "ranks": "The rank of each algorithm in each cell",
}


@dataclass(frozen=True, slots=True)
class Made:
    """A cell of which at least one run has ended."""

    cell: str
    points: Sequence[PlannedPoint]
    table: Table
    tuning: Table | None

    @property
    def runs(self) -> list[StoredRun]:
        """All runs of the table."""
        return [run for point in self.points for run in point.runs]


def section_of(name: str, grid: Grid, cells: Sequence[Made], figures: Sequence[str], *, folder: str = "") -> str:
    """Return the section of a grid in Markdown.

    Parameters
    ----------
    folder
        Where the figures lie, with the beginning of their names.
    """
    drawn = "\n\n".join(f"![{CAPTIONS[figure]}]({folder}{figure}.svg)" for figure in figures)
    parts = [f"## {grid.title}", _about(name, cells), drawn, *map(_of_cell, cells)]
    return "\n\n".join([*parts, *_in_print(grid), *_rest(name, grid, cells)]) + "\n"


def write_into(page: Path, name: str, grid: Grid, cells: Sequence[Made], figures: Sequence[str], folder: Path) -> None:
    """Put the section of a grid into a page, in place of what the grid had there, with its figures beside the page."""
    section = section_of(name, grid, cells, figures, folder=pages.figures_of(name))
    pages.write_into(page, name, section, maker=MAKER, figures=figures, folder=folder)


def _about(name: str, cells: Sequence[Made]) -> str:
    ran = pages.about(f"python -m {MAKER} {name}", [run for made in cells for run in made.runs])
    return (
        f"{ran} The same command resumes a stopped table from the last round. ± is the standard deviation over "
        "seeds; intervals are Student's t, of the mean."
    )


def _of_cell(made: Made) -> str:
    """Return the tables of a cell: what came out, what it cost, what the values came to that were tuned over."""
    parts = [part.as_markdown() for part in results_and_costs(made.table)]
    if made.tuning:
        parts += ["Each value on the examples for tuning; * is taken:\n", made.tuning.as_markdown()]
    return "\n".join([f"### {made.cell}\n", *parts]).rstrip()


def _in_print(grid: Grid) -> Iterator[str]:
    """Yield the sources of published numbers, and why ours differ."""
    if grid.published:
        sources = "\n".join(f"- *{each.source}*: {each.about}" for each in grid.published)
        reasons = "\n".join(f"- {reason}" for reason in grid.differs)
        yield f"### In print\n\n{sources}\n\nWhy ours differ:\n\n{reasons}"


def _rest(name: str, grid: Grid, cells: Sequence[Made]) -> Iterator[str]:
    """Yield the commands of what has not run: of whole cells, and of the rest of a seed."""
    points = [(made.cell, point) for made in cells for point in made.points]
    there = {(cell, run.summary["seed"], p.labels[ALGORITHM]) for cell, p in points for run in p.runs}
    commands = []
    for cell in grid.cells:
        where = f'python -m {MAKER} {name} --only {CELL}="{cell}"'
        lacking = {seed: [each for each in grid.algorithms if (cell, seed, each) not in there] for seed in grid.seeds}
        if all(len(names) == len(grid.algorithms) for names in lacking.values()):
            commands.append(where)
            continue
        for seed, names in lacking.items():
            only = "".join(f" --only {ALGORITHM}={each}" for each in names) * (len(names) < len(grid.algorithms))
            commands += [f"{where} --only {SEED}={seed}{only}"] if names else []
    if commands:
        yield "Not run; these commands make it:\n\n```text\n" + "\n".join(commands) + "\n```"
