"""Read rows of numbers from metrics.csv and nodes.csv, which others may have changed, as far as they can be read."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from fedlearn.core.errors import printable, said
from fedlearn.core.metrics import COUNTS_IN
from fedlearn.runs.file_names import NODES
from fedlearn.runs.safe_reading import open_regular

LARGEST = 1e100  # above it, the difference of two numbers may be infinite
SMALLEST = 1 / LARGEST  # below it, a quotient may be infinite
MOST_COLUMNS = 200  # of metrics.csv
MOST_NODE_BYTES = 1 << 24  # of nodes.csv; a row takes about a hundred
LONGEST_COLUMN = 100  # letters of a column's name
UNEVEN = "it has another number of cells than the header"
LONGEST_ROW = 1 << 16  # bytes of metrics.csv without a line's end

Row = Mapping[str, float | None]


def read_rows(path: Path, problems: list[str]) -> list[Row]:
    """Return the rows up to the first one that cannot be read; `problems` gets a line on what is wrong."""
    rows: list[Row] = []
    try:
        with open_regular(path) as file:
            lines = csv.reader(_lines_of(file), strict=True)
            header = next(lines, [])
            _check_columns(header)
            names = [(place, printable(name)) for place, name in enumerate(header) if not name.endswith(COUNTS_IN)]
            for cells in filter(None, lines):
                if len(cells) != len(header):
                    raise ValueError(UNEVEN)
                rows.append({name: _value(cells[place]) for place, name in names})
    except FileNotFoundError:
        problems.append(f"{path.name} is missing: no round was committed")
    except OSError as error:
        problems.append(f"{path.name}: {error.strerror or error}")
    except (ValueError, csv.Error) as error:
        problems.append(f"{path.name} cannot be read beyond row {len(rows)}: {said(error)}")
    return rows


def node_rows(folder: Path, columns: Sequence[str] = ()) -> tuple[Sequence[Row], str]:
    """Return the rows of a run's nodes.csv, and a line on what cannot be read; both are empty if there is no file.

    Parameters
    ----------
    columns
        Names without which no row is read: that a file lacks one is seen from its first line.
    """
    path = folder / NODES
    try:
        found = path.lstat()
    except OSError:
        return (), ""
    if columns:
        with suppress(OSError, ValueError, csv.Error), open_regular(path) as file:
            if not {*columns} <= {*next(csv.reader(_lines_of(file)), ())}:
                return (), ""
    return _node_rows(path, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=8)
def _node_rows(path: Path, size: int, _changed: int) -> tuple[Sequence[Row], str]:
    """Return the rows of one version of a file; cached, as a live page reads the file more often than it changes."""
    if size > MOST_NODE_BYTES:
        return (), f"{path.name} is larger than the {MOST_NODE_BYTES} bytes that a page draws"
    problems: list[str] = []
    return tuple(read_rows(path, problems)), "".join(problems)


def _lines_of(file: BinaryIO) -> Iterator[str]:
    while line := file.readline(LONGEST_ROW):
        if len(line) == LONGEST_ROW:
            raise ValueError(f"a row has more than {LONGEST_ROW} bytes")
        yield line.decode("utf-8")


def _check_columns(names: Sequence[str]) -> None:
    if len(names) > MOST_COLUMNS:
        raise ValueError(f"it has {len(names)} columns, and {MOST_COLUMNS} are read")
    if long := [name for name in names if len(name) > LONGEST_COLUMN]:
        raise ValueError(f"a column's name has {len(long[0])} letters")


def _value(text: str) -> float | None:
    """Return a cell as a number, None if the cell is empty.

    >>> _value("0.25"), _value("")
    (0.25, None)
    """
    if text == "":
        return None
    number = float(text)
    return number if SMALLEST <= abs(number) < LARGEST else finite(number)


def finite(value: object) -> float | None:
    """Return a number as a float; None for other values, NaN, infinity, and numbers too large for an axis.

    Numbers below `SMALLEST` become zero.

    >>> finite(2), finite("2"), finite(float("nan")), finite(True)
    (2.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not abs(value) < LARGEST:  # nor is NaN
        return None
    return float(value) if abs(value) >= SMALLEST else 0.0
