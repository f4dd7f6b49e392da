"""nodes.csv: what single nodes have reported and measured, round by round; its writer and its readers.

| column | what |
|---|---|
| ``round``, ``partition`` | when, and which node |
| ``examples`` | how many it trained on; empty where it was not in the cohort |
| ``train_loss``, ... | what its report says |
| ``test_examples`` | on how many it has measured what follows |
| ``accuracy_before``, ... | the state that it was sent |
| ``accuracy_after``, ... | what it has made of that state |
| ``accuracy``, ... | the state that was made of all reports |

A private model has no such file: what its nodes measure is paid for by no budget.
"""

from __future__ import annotations

import csv
import errno
import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fedlearn.runs.files import storing, write_atomically, write_from
from fedlearn.runs.names import NODES
from fedlearn.runs.reading import open_regular, open_to_append

MOST_BYTES = 1 << 28  # that are read; a row takes about a hundred
ROUND, PARTITION, EXAMPLES = "round", "partition", "examples"

Cell = int | float | None
Row = Mapping[str, Cell]


class NodeTable:
    """Appends rows to nodes.csv, each round's before the round is stored.

    Parameters
    ----------
    folder
        The run folder.
    measured
        The columns after round, partition and examples.
    committed
        How many rounds are stored: rows of later ones, which a kill has left behind, are taken away.
    sound
        How many bytes are of those rounds, by their checksum; None where that is not known.
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
    """Return the rows of a run's nodes.csv, numbers as numbers and what is empty as None; none where there is no file.

    A row that a kill has cut short is left out.
    """
    path = folder / NODES
    if path.is_symlink() or not path.is_file():
        return []
    rows = ({name: _number(text) for name, text in row.items()} for row in _rows(path))
    return [row for row in rows if row.get(ROUND) is not None and row.get(PARTITION) is not None]


def _rows(path: Path) -> list[dict[str, str]]:
    """Return the whole rows up to the first that is none; OSError if the file is a link, no file, or far too large."""
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
    """Return the round of a row; 0 where it says none."""
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
