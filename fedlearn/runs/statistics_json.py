"""Write and read statistics.json: number of records, and moments and histogram of each column, where a model counts.

The file is written when the run has completed, from the state alone: it says what `run.model()` says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from fedlearn.core.errors import printable
from fedlearn.runs.classes_json import LONGEST_NAME
from fedlearn.runs.file_names import STATISTICS
from fedlearn.runs.files import storing, write_atomically
from fedlearn.runs.safe_reading import read_as, schema_of

Number = Annotated[float, Field(ge=-(2**53), le=2**53)]  # of records, with noise


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The statistics of one column.

    Parameters
    ----------
    labels
        Names of its cells: bins or categories; the last is that of missing values.
    counts
        Number of records in each cell, with the noise of the release.
    mean
        Mean of the values within the declared bounds; None of categories.
    std
        Their standard deviation; None of categories, and of runs that have not measured it.
    """

    labels: Annotated[list[str], Field(min_length=1)]
    counts: list[Number]
    mean: Annotated[float, Field(allow_inf_nan=False)] | None = None
    std: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @property
    def most_frequent(self) -> int:
        """The place of the cell with the most records; the first of several."""
        return self.counts.index(max(self.counts))


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """The content of statistics.json.

    Parameters
    ----------
    count
        Number of records of all clients.
    deviation
        Standard deviation of the noise in each count, in records; 0 without noise.
    columns
        Column -> its statistics, the target last.
    """

    count: Number
    deviation: Number
    columns: dict[str, ColumnStatistics]

    def lines(self) -> list[str]:
        """Return a line for all records, and one for each column: mean, deviation and most frequent cell."""
        noise = f", each count with noise of standard deviation {self.deviation:.4g}" if self.deviation else ""
        lines = [f"{self.count:.0f} records of all clients{noise}"]
        for name, column in self.columns.items():
            mean = "" if column.mean is None else f"mean {column.mean:.6g}, "
            mean += "" if column.std is None else f"deviation {column.std:.6g}, "
            place = column.most_frequent
            lines.append(f"{name}: {mean}most frequent {column.labels[place]} ({column.counts[place]:.0f})")
        return lines


def write_statistics(folder: Path, plain: Mapping[str, object]) -> None:
    """Write statistics.json from what a model says of its state (`fedlearn.models.model.Counting`)."""
    found = schema_of(TableStatistics).validate_python(plain)
    with storing(folder):
        write_atomically(folder / STATISTICS, json.dumps(asdict(found)).encode())


def read_statistics(folder: Path) -> TableStatistics | None:
    """Return the content of statistics.json, its texts printable and short; None if there is no such file.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        In one line, if its content is not what a run writes.
    """
    if (found := read_as(TableStatistics, folder / STATISTICS)) is None:
        return None
    if any(len(each.labels) != len(each.counts) for each in found.columns.values()):
        raise ValueError("each column should have a count for each of its cells")
    columns = {
        _shown(name): ColumnStatistics([_shown(label) for label in each.labels], each.counts, each.mean, each.std)
        for name, each in found.columns.items()
    }
    return TableStatistics(found.count, found.deviation, columns)


def _shown(text: str) -> str:
    return printable(text)[:LONGEST_NAME]
