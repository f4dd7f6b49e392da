"""The columns of a table by their names: which are learned, which are learned from, and their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import UsageError
from fedlearn.data.naming import plain_name
from fedlearn.data.sources.as_arrays import as_float32
from fedlearn.data.sources.column_values import Columns, labels_of, values_of
from fedlearn.data.sources.declared import Given
from fedlearn.data.sources.images import Size
from fedlearn.data.sources.table_files import Dialect, names_in


def listed(where: str | Path, target: str | Sequence[str], targets: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the columns to be learned; raise UsageError if there are none."""
    found = (*((target,) if isinstance(target, str) else target), *targets)
    names = tuple(plain_name(name) for name in found if name)
    if not names or len({*names}) < len(names) or (target and targets):
        raise UsageError(f"{where}: say once which column is learned: target=COLUMN, or targets=[COLUMN, ...]")
    return names


@dataclass(frozen=True, slots=True)
class Chosen:
    """The columns of a table that are learned, and learned from, and how they are read."""

    targets: tuple[str, ...]
    inputs: tuple[str, ...]
    without: tuple[str, ...]
    groups: str | None
    regression: bool
    size: Size | None

    @classmethod
    def of(
        cls,
        targets: tuple[str, ...],
        inputs: str | Sequence[str] | None,
        without: str | Sequence[str],
        groups: str | None,
        *,
        regression: bool,
        size: Size | None,
    ) -> Chosen:
        """Return the choice that a user's options make; names are without blanks around them."""
        named, left_out = (
            tuple(plain_name(each) for each in ((given,) if isinstance(given, str) else given or ()))
            for given in (inputs, without)
        )
        if named and left_out:
            raise UsageError("inputs and without are both given: inputs names all columns that are learned from")
        return cls(targets, named, left_out, plain_name(groups) if groups else None, regression, size)

    @property
    def special(self) -> set[str]:
        """The names of the columns that are not learned from."""
        return {*self.targets, *([self.groups] if self.groups else [])}

    @property
    def undeclared(self) -> dict[str, object]:
        """The options that a declared table does not have, with what was given."""
        names = ("inputs", "without", "regression", "size")
        return {name: getattr(self, name) for name in names}

    def labels(self, classes: int | Sequence[str] | None) -> dict[str, tuple[str, ...]]:
        """Return the names of the columns that are not learned from, with the names of their classes, if declared."""
        names = () if classes is None or isinstance(classes, int) else tuple(classes)
        return {name: names if name in self.targets else () for name in self.special}

    def wanted(self, path: Path, dialect: Dialect) -> set[str] | None:
        """Return the columns of a file that are read; None: all."""
        if self.without:
            names = [plain_name(name) for name in names_in(path, dialect)]
            self.check_without(names, path)
            return {*names} - {*self.without}
        return {*self.inputs, *self.special} if self.inputs else None

    def check_without(self, names: Sequence[str], where: str | Path) -> None:
        """Refuse to leave out a column that is not there, or the column that is learned."""
        if wrong := next((name for name in self.without if name not in names or name in self.special), None):
            text = "is learned or says the groups" if wrong in self.special else "is none of its columns"
            raise UsageError(f"{where}: without = {wrong!r}: it {text}")

    def names_in(self, table: Columns) -> tuple[str, ...]:
        """Return the names of the columns to learn from."""
        no_inputs = {*self.special, *self.without, table.index}
        return self.inputs or tuple(name for name in table.names if name not in no_inputs)

    def taken(self, table: Columns, names: tuple[str, ...]) -> Given:
        """Return X, y and groups from the columns of a table."""
        path = table.name
        table.check([*self.targets, *([self.groups] if self.groups else []), *names])
        if not names or not table.rows:
            raise UsageError(f"{path} has no {'rows' if names else 'columns to learn from'}")
        columns = [values_of(table, name, self.size) for name in names]
        if len(columns) > 1 and any(column.ndim > 1 for column in columns):
            raise UsageError(f"{path}: a column of pictures or lists must be the only input: name it by inputs")
        places = [f"{path}, column {name!r}" for name in names]
        is_table = columns[0].ndim == 1
        X = np.column_stack(list(map(as_float32, columns, places, repeat(UsageError)))) if is_table else columns[0]
        y = self._learned(table)
        groups = None if self.groups is None else labels_of(table, self.groups)
        return X, y.astype(np.float64) if self.regression else y, groups

    def _learned(self, table: Columns) -> NDArray[Any]:
        """Return the targets, (rows,), or (rows, targets) of several columns, which are words or numbers, not both."""
        found = [labels_of(table, name) for name in self.targets]
        if len(found) == 1:
            return found[0]
        kinds = [each.dtype.kind if each.ndim == 1 else "lists" for each in found]
        if "lists" in kinds or 0 < kinds.count("U") < len(kinds):
            said = " and ".join(dict.fromkeys("words" if kind == "U" else "numbers" for kind in kinds))
            raise UsageError(f"{table.name}: its targets {', '.join(self.targets)} hold {said}: give one kind of them")
        return np.column_stack(found)
