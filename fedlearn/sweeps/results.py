"""Write the tables of a sweep: its runs, their rounds, and the mean and deviation of each point over seeds.

No column depends on how fast the machine was, so that a sweep that was killed and resumed has the same bytes as one
that was not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedlearn.report.numbers import MeanSd, plain
from fedlearn.report.points import Point
from fedlearn.report.stored import StoredRun, read_run
from fedlearn.report.tables import Column, Table
from fedlearn.runs.file_names import SUMMARY
from fedlearn.runs.files import write_atomically
from fedlearn.sweeps.sweep_plan import Run

FIRST = ("status", "rounds")
LAST = ("bytes_up", "bytes_down", "compression_ratio", "model_sha256", "reason")
NOT_HERE = (
    "seed", "seconds", "cpu_seconds", "memory_bytes", "dataset", "dataset_notice", "model", "metrics", "clients",
    "bytes_protocol", "parameters", "notices", "learning_rate", "devices", "baseline", "initial", "paused", *LAST,
)  # fmt: skip
"""Entries of a summary that are settings, are no results, or stand elsewhere in the row."""

NOT_OF_ROUNDS = ("round_number", "attempts", "ready", "uploads", "bytes_protocol")
NOT_AVERAGED = ("best_round", "rounds")
PRIVACY = (
    "neighboring",
    "unit",
    "trust",
    "delta",
    "sampling",
    "noise",
    "noise_notice",
)  # entries beside an epsilon, also in means

VIRTUAL = "virtual_"  # before the names of columns in virtual time

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """A run that has ended: its place in the plan, and the content of its folder."""

    run: Run
    stored: StoredRun

    @classmethod
    def read(cls, run: Run, folder: Path) -> Result | None:
        """Return the result in a run folder; None if the run has not ended."""
        return cls(run, read_run(run.name, folder)) if (folder / SUMMARY).exists() else None

    @property
    def summary(self) -> Mapping[str, Any]:
        """The content of summary.json."""
        return self.stored.summary

    @property
    def completed(self) -> bool:
        """Whether the run has committed all its rounds."""
        return bool(self.summary["status"] == "completed")

    def as_row(self) -> Row:
        """Return the row of the run in runs.csv."""
        return {**self._labels(), **_results_in(self.summary)}

    def round_rows(self) -> Iterator[Row]:
        """Yield the rows of the run's rounds in rounds.csv."""
        for values in self.stored.rounds:
            kept = {k: v for k, v in values.items() if k not in NOT_OF_ROUNDS and not _is_of_the_clock(k)}
            numbers = {"round": values["round_number"], **kept}
            words = self.stored.metrics.counts_in
            yield {**self._labels(), **{name: plain(number) for name, number in numbers.items()}, **words}

    def _labels(self) -> Row:
        return {"run": self.run.name, **self.run.labels, "seed": self.run.seed}


@dataclass(frozen=True, slots=True)
class PlannedPoint(Point):
    """The completed runs of one point of a plan, one for each seed.

    Parameters
    ----------
    labels
        Axis -> label of the point.
    """

    labels: Mapping[str, str]

    @property
    def name(self) -> str:
        """The axes with the labels of the point."""
        return ", ".join(f"{axis}={label}" for axis, label in self.labels.items()) or "all runs"

    def over_seeds(self, name: str) -> MeanSd:
        """Return the mean and deviation of one number over the runs' summaries."""
        return MeanSd.of([run.summary[name] for run in self.runs])


def points_of(results: Iterable[Result]) -> list[PlannedPoint]:
    """Return the points that have completed runs, in the order of their first seed."""
    points: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        if result.completed:
            points.setdefault(tuple(result.run.labels.values()), []).append(result)
    return [
        PlannedPoint(", ".join(labels), slot, tuple(result.stored for result in alike), alike[0].run.labels)
        for slot, (labels, alike) in enumerate(points.items())
    ]


def write_tables(results: Sequence[Result], folder: Path) -> None:
    """Write runs.csv, rounds.csv and points.csv."""
    _write(folder / "runs.csv", [result.as_row() for result in results])
    _write(folder / "rounds.csv", [row for result in results for row in result.round_rows()])
    _write(folder / "points.csv", [point_row(point) for point in points_of(results)])


def point_row(point: PlannedPoint) -> Row:
    """Return the row of a point in points.csv: mean and sample standard deviation of each number of its runs."""
    row: Row = {**point.labels, "seeds": len(point.runs)}
    for name, value in _results_in(point.runs[0].summary).items():
        is_number = all(isinstance(run.summary.get(name), int | float) for run in point.runs)
        if isinstance(value, int | float) and is_number and name not in NOT_AVERAGED:
            row[f"{name}_mean"], row[f"{name}_sd"] = point.over_seeds(name)
        elif name in PRIVACY:
            row[name] = " | ".join(dict.fromkeys(str(run.summary.get(name, "")) for run in point.runs))
    return row


def _is_of_the_clock(column: str) -> bool:
    """Return whether a column holds seconds of this machine; seconds of virtual devices are the same on any machine."""
    return column.endswith("_seconds") and not column.startswith(VIRTUAL)


def _results_in(summary: Mapping[str, Any]) -> Row:
    """Return the results in a summary, in the order of the columns of runs.csv."""
    results = {name: value for name, value in summary.items() if name not in (*FIRST, *NOT_HERE)}
    first, last = ({name: summary.get(name) for name in names} for names in (FIRST, LAST))
    return {**first, **results, **last}


def _write(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as a table of all their columns; a row may lack some."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = Table(
        path.stem, "", tuple(Column(name, name) for name in names), tuple(tuple(map(row.get, names)) for row in rows)
    )
    write_atomically(path, table.as_csv().encode())
