"""Results in a CSV file, one row written at once: a killed experiment continues from its last row."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class StoredRows:
    """The rows of a CSV file, as text; a last row torn by a kill is dropped.

    Parameters
    ----------
    path
        The file; created with its folder if it does not exist.
    columns
        Its columns; a file with other columns is refused.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path, self.columns = path, tuple(columns)
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        whole = [line for line in lines if line.endswith("\n")]
        if whole and tuple(next(csv.reader(whole))) != self.columns:
            raise SystemExit(f"{path}: its columns are {whole[0].strip()}, not {','.join(columns)}; name another file")
        if len(whole) != len(lines):
            path.with_suffix(".new").write_text("".join(whole), encoding="utf-8")
            path.with_suffix(".new").replace(path)
        if not whole:
            self._append(columns)
        self.rows: list[dict[str, str]] = list(csv.DictReader(whole))

    def add(self, row: Mapping[str, Any]) -> None:
        """Store one more row."""
        self._append([row[column] for column in self.columns])
        self.rows.append({column: str(row[column]) for column in self.columns})

    def _append(self, values: Sequence[Any]) -> None:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(values)
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(line.getvalue())
            file.flush()
            os.fsync(file.fileno())
