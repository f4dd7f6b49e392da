"""The tables of a sweep: its runs, their rounds, and each point's mean and spread over seeds.

Nothing in them depends on how fast the machine was, so that a sweep that was killed and went on has the same bytes as
one that was not.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.sweeps.plan import Run
from fedlearn.runs.checkpoint import write_atomically
from fedlearn.runs.folder import SUMMARY, RunFolder

FIRST = ("status", "rounds")
LAST = ("bytes_up", "bytes_down", "compression_ratio", "model_sha256", "reason")
NOT_HERE = (
    "seed", "seconds", "dataset", "dataset_notice", "model", "metrics", "clients", "bytes_protocol", "noise_notice",
    *LAST,
)  # fmt: skip
"""Parts of a summary that are settings, or no result, or stand elsewhere in the row."""

NOT_OF_ROUNDS = ("round_number", "attempts", "ready", "uploads", "bytes_protocol")
NOT_AVERAGED = ("best_round", "rounds")

MB = 1e6  # bytes

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """A run that has ended.

    Parameters
    ----------
    summary
        As in its summary.json.
    rounds
        As in its metrics.csv, numbers where there is one.
    """

    run: Run
    summary: Mapping[str, Any]
    rounds: Sequence[Mapping[str, float | None]]

    @classmethod
    def read(cls, run: Run, folder: Path) -> Result | None:
        """Return the result in a run folder; None if the run has not ended."""
        if not (folder / SUMMARY).exists():
            return None
        table = folder / "metrics.csv"
        rows = csv.DictReader(table.read_text(encoding="utf-8").splitlines()) if table.exists() else []
        rounds = [{name: _number(text) for name, text in row.items()} for row in rows]
        return cls(run, RunFolder(folder).read_summary(), rounds)

    @property
    def completed(self) -> bool:
        """Whether it has committed all its rounds."""
        return bool(self.summary["status"] == "completed")

    def as_row(self) -> Row:
        """Return its row in runs.csv."""
        results = {name: value for name, value in self.summary.items() if name not in (*FIRST, *NOT_HERE)}
        first, last = ({name: self.summary[name] for name in names} for names in (FIRST, LAST))
        return {**self._labels(), **first, **results, **last}

    def round_rows(self) -> Iterator[Row]:
        """Return its rows in rounds.csv."""
        for values in self.rounds:
            kept = {k: v for k, v in values.items() if k not in NOT_OF_ROUNDS and not k.endswith("_seconds")}
            yield {**self._labels(), "round": values["round_number"], **kept}

    def _labels(self) -> Row:
        return {"run": self.run.name, **self.run.labels, "seed": self.run.seed}

    def curve(self, column: str) -> list[tuple[float, float]]:
        """Return (round, value) wherever there is a value."""
        pairs = ((values["round_number"], values.get(column)) for values in self.rounds)
        return [(number, value) for number, value in pairs if number is not None and value is not None]


Group = Sequence[Result]
"""The completed results of one point, one for each seed."""


def write_tables(results: Sequence[Result], folder: Path) -> None:
    """Write runs.csv, rounds.csv and points.csv."""
    _write(folder / "runs.csv", [result.as_row() for result in results])
    _write(folder / "rounds.csv", [row for result in results for row in result.round_rows()])
    _write(folder / "points.csv", [point_row(group) for group in by_point(results)])


def by_point(results: Iterable[Result]) -> list[Group]:
    """Return the completed results of each point together, points in the order of their first seed."""
    points: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        if result.completed:
            points.setdefault(tuple(result.run.labels.values()), []).append(result)
    return [tuple(group) for group in points.values()]


def point_row(group: Group) -> Row:
    """Return a point's row in points.csv: for each number of the runs its mean and sample standard deviation."""
    row: Row = {**group[0].run.labels, "seeds": len(group)}
    for name, value in group[0].as_row().items():
        if isinstance(value, int | float) and name not in ("seed", *NOT_AVERAGED):
            row[f"{name}_mean"], row[f"{name}_sd"] = mean_and_sd([result.summary[name] for result in group])
    return row


def mean_and_sd(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and the sample standard deviation, which one value does not have.

    >>> mean_and_sd([1.0, 3.0])
    (2.0, 1.4142135623730951)
    """
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def over_seeds(group: Group, name: str) -> tuple[float, float | None]:
    """Return the mean and the spread of one result of a point."""
    return mean_and_sd([result.summary[name] for result in group])


def _write(path: Path, rows: Sequence[Row]) -> None:
    text = io.StringIO()
    columns = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode())


def _number(text: str) -> float | None:
    if not text:
        return None
    return int(text) if text.isdigit() else float(text)
