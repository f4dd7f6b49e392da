"""Write and read nodes.csv: the reports and measurements of single nodes, round by round.

| column | meaning |
|---|---|
| ``round``, ``partition`` | the round and the node |
| ``examples`` | how many examples the node trained on; empty if it was not in the cohort, or masked |
| ``train_loss``, ... | metrics of its report |
| ``test_examples`` | how many examples it has measured the metrics below on |
| ``accuracy_before``, ... | metrics of the state that was sent to it |
| ``accuracy_after``, ... | metrics of that state after its training |
| ``accuracy``, ... | metrics of the state that was made of all reports |
| ``accuracy_global``, ``..._tuned``, ``..._alone`` | what ``evaluation.beside`` has the node measure beside it |

A private model has no such file: the privacy budget does not pay for these measurements.
"""

from __future__ import annotations

import csv
import errno
import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fedlearn.runs.file_names import NODES
from fedlearn.runs.files import storing, write_atomically, write_from
from fedlearn.runs.safe_reading import open_regular, open_to_append

MOST_BYTES = 1 << 28  # of a file that is read; a row has about a hundred
ROUND, PARTITION, EXAMPLES = "round", "partition", "examples"

Cell = int | float | None
Row = Mapping[str, Cell]


class NodeTable:
    """The writer of nodes.csv: the rows of a round are appended before the round is stored.

    Parameters
    ----------
    folder
        The run folder.
    measured
        The columns after round, partition and examples.
    committed
        How many rounds are stored: rows of later rounds, which a kill has left behind, are removed.
    sound
        How many bytes belong to the stored rounds, by their checksum; None if this is not known.
    """

    def __init__(self, folder: Path, measured: Sequence[str], *, committed: int, sound: int | None = None) -> None:
        self._path = folder / NODES
        self._columns = [ROUND, PARTITION, EXAMPLES, *measured]
        if sound is not None and self._has_our_columns():
            with storing(folder):
                write_from(self._path, sound, b"")
        elif self._path.exists() or self._path.is_symlink():
            with storing(folder):
                kept = [row for row in _rows(self._path) if 0 < _round_of(row) <= committed]
                write_atomically(self._path, _as_csv(kept, self._columns, header=True).encode())

    def append(self, rows: Sequence[Row]) -> None:
        """Write the rows of a round."""
        if rows:
            with storing(self._path.parent, self._path):
                is_new = not self._path.exists()
                with open_to_append(self._path) as file:
                    file.write(_as_csv(rows, self._columns, header=is_new).encode())

    def _has_our_columns(self) -> bool:
        """Return whether the table has the columns that this session writes: ``evaluation.nodes`` may be changed."""
        header = _as_csv([], self._columns, header=True).encode()
        with suppress(OSError), open_regular(self._path) as file:
            return file.read(len(header)) == header
        return False


def read_nodes(folder: Path) -> list[dict[str, Cell]]:
    """Return the rows of a run's nodes.csv with numbers as numbers and empty cells as None; no rows without a file.

    A row that a kill has cut short is left out.
    """
    path = folder / NODES
    if path.is_symlink() or not path.is_file():
        return []
    rows = ({name: _number(text) for name, text in row.items()} for row in _rows(path))
    return [row for row in rows if row.get(ROUND) is not None and row.get(PARTITION) is not None]


def _rows(path: Path) -> list[dict[str, str]]:
    """Return the rows up to the first damaged one; OSError if the file is a link, no file, or far too large."""
    if path.stat().st_size > MOST_BYTES and path.is_file():
        raise OSError(errno.EFBIG, f"it is larger than {MOST_BYTES} bytes", str(path))
    with open_regular(path) as file:
        text = file.read(MOST_BYTES).decode(errors="replace")
    rows: list[dict[str, str]] = []
    with suppress(csv.Error):
        for row in csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1])):
            rows.append(
                {name: value for name, value in row.items() if isinstance(name, str) and isinstance(value, str)}
            )
    return rows


def _round_of(row: Mapping[str, str]) -> int:
    """Return the round of a row; 0 if the row has none."""
    text = row.get(ROUND, "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _number(text: str) -> Cell:
    try:
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        return None


def _as_csv(rows: Iterable[Mapping[str, object]], columns: list[str], *, header: bool) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    if header:
        writer.writeheader()
    for row in rows:
        writer.writerow({name: round(v, 6) if isinstance(v, float) else v for name, v in row.items()})
    return text.getvalue()
