"""Private trees in a federation, by whole runs: 25 and 100 clients, even and skewed shards, several seeds.

    FEDLEARN_DATA=... python -m experiments.private_trees.federated --out runs/dp_federated.csv [--task adult] [--quick]

Each row of the CSV is one run of ``python -m fedlearn.simulate`` with these settings and its defaults otherwise, on the
inline engine in this process (engines do not change results); stored rows are not run again. Errors are on the fixed
held-out rows. A seed changes shards, noise, and the order of a relay's nodes. Beside the CSV are written
``*.TASK.table.csv`` and ``*.TASK.tex`` (mean and standard deviation over the seeds) and the figure.

Shards: ``even`` are random parts of equal size. ``dirichlet`` divides each tenth of the targets (each class) by shares
drawn from Dirichlet(0.3): nodes differ in size and in distribution. ``one-sided`` gives each node two tenths of the
targets, or one class: sizes are alike, but no node sees the whole.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.progress import track

from experiments.private_trees.stored_rows import StoredRows
from experiments.private_trees.writing import write
from fedlearn.engine import ENGINES
from fedlearn.models.presets import settings_from
from fedlearn.report.charts.plots import PALETTE, add_bars, drawn, legend_below, log_axis
from fedlearn.report.numbers import MeanSd
from fedlearn.report.tables import Table
from fedlearn.runs.folder import RunFolder

CLIENTS = (25, 100)
EPSILONS = (0.25, 1.0, 4.0, 8.0)
MEASURED = {  # column -> key of the run's summary; empty if a model has no such metric
    "mae": "mae",
    "mae_scaled": "mae_scaled",
    "accuracy": "accuracy",
    "spent": "epsilon",
    "rounds": "rounds",
    "seconds": "seconds",
    "model_sha256": "model_sha256",
}


@dataclass(frozen=True, slots=True)
class Task:
    """A data set with the models that are compared on it."""

    models: tuple[str, ...]
    metric: str  # the column of tables and figures
    words: str
    nodes_see: int  # one-sided shards: tenths of the targets, or classes, of a node

    def shards(self) -> dict[str, dict[str, Any]]:
        """Return the settings of each kind of shards."""
        return {
            "even": {"data.partition": "iid"},
            "dirichlet": {"data.partition": "dirichlet", "data.alpha": 0.3},
            "one-sided": {"data.partition": "pathological", "data.classes_per_node": self.nodes_see},
        }


TASKS = {
    "california": Task(("dp-forest", "dp-relay"), "mae_scaled", "mean absolute error, target scaled to [0, 1]", 2),
    "adult": Task(("dp-classifier", "dp-random-forest", "pf-forest"), "accuracy", "accuracy", 1),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One run, by the settings that distinguish it."""

    task: str
    model: str
    clients: int
    shards: str
    epsilon: float  # budget of each node for the whole run
    seed: int

    def settings(self, out: str) -> dict[str, Any]:
        """Return the settings of the run, by their dotted names."""
        return {
            "model.name": self.model,
            "data.dataset": self.task,
            "clients": self.clients,
            "privacy.epsilon": self.epsilon,
            "seed": self.seed,
            **TASKS[self.task].shards()[self.shards],
            "evaluation.every": self.clients,  # after the last round only
            "engine.name": "inline",
            "out": out,
        }


COLUMNS = (*(field.name for field in fields(Cell)), *MEASURED)
Setup = tuple[str, int, str, float]  # (model, clients, shards, epsilon)


def cells(task: str, *, clients: Sequence[int], epsilons: Sequence[float], seeds: int) -> Iterator[Cell]:
    """Yield all runs of a task, seed after seed, so that an early stop leaves whole tables."""
    for seed in range(1, seeds + 1):
        for number in clients:
            for shards in TASKS[task].shards():
                for model in TASKS[task].models:
                    for epsilon in epsilons:
                        yield Cell(task, model, number, shards, epsilon, seed)


def run(cell: Cell) -> dict[str, Any]:
    """Run the federation; return its row."""
    with TemporaryDirectory() as folder:
        config = settings_from(cell.settings(folder))
        ENGINES.load(config.engine.name)(config)
        summary = RunFolder(Path(folder)).read_summary()
    return {**asdict(cell), **{column: summary.get(key, "") for column, key in MEASURED.items()}}


def cell_of(row: dict[str, str]) -> Cell:
    """Return the cell of a stored row."""
    return Cell(row["task"], row["model"], int(row["clients"]), row["shards"], float(row["epsilon"]), int(row["seed"]))


def gathered(rows: Sequence[dict[str, str]]) -> dict[Setup, list[dict[str, str]]]:
    """Return the rows of each setup, one for each seed."""
    setups: dict[Setup, list[dict[str, str]]] = {}
    for row in rows:
        cell = cell_of(row)
        setups.setdefault((cell.model, cell.clients, cell.shards, cell.epsilon), []).append(row)
    return setups


def over_seeds(rows: Sequence[dict[str, str]], column: str) -> MeanSd:
    """Return mean and standard deviation of a column over the seeds."""
    return MeanSd.of([float(row[column]) for row in rows])


def setups_table(setups: dict[Setup, list[dict[str, str]]], task: Task) -> Table:
    """Return one line for each setup."""
    columns = ("mae", "mae_scaled") if task.metric == "mae_scaled" else ("accuracy",)
    spreads = [name for column in columns for name in (column, f"{column}_spread")]
    lines = []
    for (model, clients, shards, epsilon), rows in setups.items():
        pairs = (over_seeds(rows, column) for column in columns)
        numbers = [f"{number or 0:.6g}" for pair in pairs for number in pair]
        spent = max(float(row["spent"]) for row in rows)
        setup = [model, str(clients), shards, str(epsilon), str(len(rows))]
        lines.append([*setup, *numbers, f"{spent:g}", f"{over_seeds(rows, 'seconds').mean:.2f}"])
    heads = ["model", "clients", "shards", "epsilon", "seeds", *spreads, "spent", "seconds"]
    return Table.of_texts("setups", "", heads, lines)


def wide_table(setups: dict[Setup, list[dict[str, str]]], task: Task) -> Table:
    """Return clients, shards and model, and for each epsilon the mean and spread in thousandths."""
    epsilons = list(dict.fromkeys(epsilon for *_, epsilon in setups))
    lines = []
    for clients, shards, model in dict.fromkeys((clients, shards, model) for model, clients, shards, _ in setups):
        of_epsilons = (setups.get((model, clients, shards, epsilon), []) for epsilon in epsilons)
        spreads = (over_seeds(rows, task.metric) if rows else MeanSd(math.nan, None) for rows in of_epsilons)
        lines.append([str(clients), shards, model, *(f"{1e3 * s.mean:.1f} ({1e3 * (s.sd or 0):.1f})" for s in spreads)])
    title = f"{task.words[0].upper()}{task.words[1:]}, in thousandths; in brackets the standard deviation over seeds."
    heads = ["clients", "shards", "model", *(f"ε = {epsilon:g}" for epsilon in epsilons)]
    return Table.of_texts("federated", title, heads, lines, words=3)


def draw(out: Path, setups: dict[Setup, list[dict[str, str]]], task: Task) -> None:
    """Draw one panel for each kind of shards: a line for each model and number of clients, bars of one deviation."""
    kinds = list(task.shards())
    with drawn(out.parent, out.name, columns=len(kinds), size=(3.7, 4)) as panels:
        for panel, shards in zip(panels, kinds, strict=True):
            for clients, (dashes, marker) in zip(CLIENTS, (("-", "o"), ("--", "s")), strict=True):
                for model, color in zip(task.models, PALETTE, strict=False):
                    mine = {s[3]: rows for s, rows in setups.items() if s[:3] == (model, clients, shards)}
                    spreads = [over_seeds(rows, task.metric) for rows in mine.values()]
                    look = {"color": color, "linestyle": dashes, "marker": marker}
                    if mine:
                        add_bars(panel, list(mine), spreads, label=f"{model}, {clients} clients", **look)
            log_axis(panel, [epsilon for *_, epsilon in setups])
            panel.set(title=f"shards: {shards}", xlabel="epsilon of each record")
        panels[0].set_ylabel(task.words)
        legend_below(panels, columns=len(CLIENTS))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, then print, write and draw the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("runs/dp_federated.csv"), help="keeps every run")
    parser.add_argument("--task", choices=TASKS, default="california", help="the data set, and with it the models")
    parser.add_argument("--clients", nargs="+", type=int, choices=CLIENTS, default=CLIENTS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each setup")
    parser.add_argument("--quick", action="store_true", help="25 clients, epsilon 1 and 8, two seeds")
    parser.add_argument("--data-dir", help="folder of the data; default: FEDLEARN_DATA")
    options = parser.parse_args(arguments)
    if options.quick:
        options.clients, options.epsilons, options.seeds = (25,), (1.0, 8.0), 2
    if options.data_dir:
        os.environ["FEDLEARN_DATA"] = options.data_dir
    stored = StoredRows(options.out, COLUMNS)
    wanted = list(cells(options.task, clients=options.clients, epsilons=options.epsilons, seeds=options.seeds))
    done = {cell_of(row) for row in stored.rows}
    for cell in track([cell for cell in wanted if cell not in done], description="running", transient=True):
        stored.add(run(cell))
    rows = {cell_of(row): row for row in stored.rows}
    report(options.out, [rows[cell] for cell in wanted], options.task)


def report(path: Path, rows: Sequence[dict[str, str]], name: str) -> None:
    """Print, write and draw the results of a task."""
    task, setups = TASKS[name], gathered(rows)
    table = wide_table(setups, task)
    table.show()
    out = path.with_suffix(f".{name}")
    write(out, setups_table(setups, task), table, table.title)
    draw(out, setups, task)


if __name__ == "__main__":
    main()
