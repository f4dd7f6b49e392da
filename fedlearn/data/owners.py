"""The groups of the rows of a declared table, such as the hospital of a patient: texts, numbered in their order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedlearn.data.column_files import MISSING, Columns


@dataclass(frozen=True, slots=True)
class Owners:
    """The column with the group of each row, and the names of all groups; without a column there are no groups."""

    column: str = ""
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, column: str, tables: Sequence[Columns]) -> Self:
        """Return the groups of tables that have the column; names that are whole numbers are in their order."""
        found = (
            {plain_text(text) for table in tables for text in table[column] if text is not None} if column else set()
        )
        are_numbers = all(text.isdecimal() for text in found)
        names = sorted(found - MISSING, key=(lambda text: (int(text), text)) if are_numbers else None)
        return cls(column, tuple(names))

    def codes(self, columns: Columns) -> NDArray[np.int64]:
        """Return the place of the group of each row; -1 where the row has none."""
        places = {name: place for place, name in enumerate(self.names)}
        texts = columns[self.column].tolist()
        return np.array([-1 if text is None else places.get(plain_text(text), -1) for text in texts], np.int64)


NO_GROUPS = Owners()


def plain_text(text: str) -> str:
    """Return the text by which a category is compared: without blanks around it, and 1 for 1.0.

    >>> [plain_text(text) for text in (" clerk", "1.0", "1.50")]
    ['clerk', '1', '1.50']
    """
    return re.sub(r"^([+-]?\d+)\.0*$", r"\1", text.strip())
