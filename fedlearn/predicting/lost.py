"""Cells of a declared table that are not as declared: counted over all pieces of a file, said in a line each."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from fedlearn.data.column_files import MISSING, Columns
from fedlearn.data.data_spec import TableSchema

SHOWN = 3  # values in one line
UNKNOWN = "none of the declared categories"
NO_NUMBER = "no numbers"
OUTSIDE = "outside the declared range"
SO = {
    UNKNOWN: "they count as missing",
    NO_NUMBER: "they count as missing",
    OUTSIDE: "they count as its ends",
}


class Lost:
    """Counts of cells that were not taken as they are; missing ones are not among them."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], Counter[str]] = {}

    def add(self, columns: Columns, rows: NDArray[np.float64], schema: TableSchema) -> None:
        """Count the cells of some rows.

        Parameters
        ----------
        columns
            The columns as they were read.
        rows
            The same rows, encoded: (rows, features).
        """
        for place, name in enumerate(schema.features):
            cells, values = columns[name], rows[:, place]
            if cells.dtype == object:
                lost = [each for each in cells[np.isnan(values)] if isinstance(each, str)]
                kind = UNKNOWN if name in schema.categories else NO_NUMBER
                self._count(name, kind, [text for text in lost if text.strip() not in MISSING])
            if name in schema.bounds:
                low, high = schema.bounds[name][:2]
                self._count(name, OUTSIDE, [f"{each:g}" for each in values[(values < low) | (values > high)]])

    def _count(self, name: str, kind: str, cells: list[str]) -> None:
        if cells:
            self._counts.setdefault((name, kind), Counter()).update(cells)

    @property
    def lines(self) -> list[str]:
        """A line for each column and kind of cell."""
        return [self._line(*key) for key in self._counts]

    def _line(self, name: str, kind: str) -> str:
        counts = self._counts[name, kind]
        most = sorted(counts, key=lambda text: (-counts[text], text))[:SHOWN]
        shown = ", ".join(repr(text[:40]) for text in most) + (", ..." if len(counts) > SHOWN else "")
        return f"column {name!r}: {counts.total():,} cells are {kind} ({shown}): {SO[kind]}"
