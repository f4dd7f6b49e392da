"""Columns of a CSV or Parquet file, by the names that they have there: numbers, pictures or lists of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.data.base import Dataset
from fedlearn.data.cache import Arrays
from fedlearn.data.folder import identity, one_line
from fedlearn.data.sources.declared import TEST_SHARE, Declared, Given
from fedlearn.data.sources.images import Size, decoded
from fedlearn.data.stored import dataset_at, with_facts
from fedlearn.errors import DataNotFound, UsageError

MISSING = ["", "?", "NA", "N/A", "NaN", "nan", "null", "None"]  # in a CSV file


def from_table(
    file: str | Path,
    *,
    target: str,
    inputs: str | Sequence[str] | None = None,
    groups: str | None = None,
    test: str | Path | None = None,
    classes: int | tuple[str, ...] | None = None,
    regression: bool = False,
    size: Size | None = None,
    test_share: float = TEST_SHARE,
) -> Dataset:
    """Return the examples that the rows of a CSV or Parquet file are.

    Parameters
    ----------
    file
        Ends in .csv or .parquet.
    target
        The column to be learned: texts or integers are classes, other numbers a regression.
    inputs
        The columns learned from: of numbers; or one of pictures (encoded bytes, as on the Hugging Face Hub) or of lists
        of numbers, all of one length. Unless given, all others.
    groups
        The column that says whose a row is, for ``partition="natural"``.
    test
        Another file, of the test examples; relative to the first. Without it a fixed share is held out.
    classes
        Their number or names, where not every one is in the file.
    regression
        Integers to be learned are numbers, not classes.
    size
        (height, width) to which pictures are scaled.
    test_share
        Share that is held out.

    Raises
    ------
    UsageError
        With the file, the column, the first row that is wrong, and what is allowed.
    """
    path = _found(Path(file).expanduser().absolute())
    test_path = None if test is None else _found(path.parent / Path(test).expanduser())
    chosen = _Chosen(target, (inputs,) if isinstance(inputs, str) else tuple(inputs or ()), groups, regression, size)

    def make() -> Arrays:
        declared = Declared(str(path), classes=classes)
        held_out: Given = (None, None, None) if test_path is None else chosen.read(test_path)
        return with_facts(*declared.checked(chosen.read(path), held_out, test_share=test_share))

    files = identity(*(each for each in (path, test_path) if each is not None))
    return dataset_at(str(path), "table-file", f"{files}\n{chosen} {classes=} {test_share=}", make)


def _found(path: Path) -> Path:
    if path.suffix not in (".csv", ".parquet"):
        raise UsageError(f"{path}: a table is a file that ends in .csv or .parquet")
    if not path.is_file():
        raise DataNotFound(f"{path}: there is no such file")
    return path


@dataclass(frozen=True, slots=True)
class _Chosen:
    target: str
    inputs: tuple[str, ...]
    groups: str | None
    regression: bool
    size: Size | None

    def read(self, path: Path) -> Given:
        """Return X, y and groups of a file."""
        table = _table(path)
        special = [self.target, *([self.groups] if self.groups else [])]
        names = self.inputs or tuple(name for name in table.column_names if name not in special)
        if absent := [name for name in (*special, *names) if name not in table.column_names]:
            raise UsageError(f"{path} has no column {absent[0]!r}; it has {', '.join(table.column_names)}")
        if not names or not table.num_rows:
            raise UsageError(f"{path} has no {'rows' if names else 'columns to learn from'}")
        columns = [_values(path, table, name, self.size) for name in names]
        if len(columns) > 1 and any(column.ndim > 1 for column in columns):
            raise UsageError(f"{path}: a column of pictures or lists is learned from alone: name it by inputs")
        X = columns[0] if columns[0].ndim > 1 else np.column_stack([column.astype(np.float32) for column in columns])
        y = _labels(path, table, self.target)
        groups = None if self.groups is None else _labels(path, table, self.groups)
        return X, y.astype(np.float64) if self.regression else y, groups


def _table(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    try:
        if path.suffix == ".parquet":
            return pa.parquet.read_table(path)
        convert = pa.csv.ConvertOptions(null_values=MISSING, strings_can_be_null=True)
        return pa.csv.read_csv(path, convert_options=convert)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} cannot be read as a table: {one_line(error)}") from error


def _values(path: Path, table: Any, name: str, size: Size | None) -> NDArray[Any]:
    """Return a column to learn from, shape (rows,), (rows, length) or (rows, height, width, channels)."""
    import pyarrow as pa

    column = table[name].combine_chunks()
    _refuse_missing(path, column, name)
    kind = column.type
    if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        column = column.field("bytes")
        kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        places = [f"{_row(path, row)}, column {name!r}" for row in range(len(column))]
        return decoded(column.to_pylist(), places, size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(path, name, column.to_pylist())
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        row, value = _first_text(column.to_pylist())
        allowed = "numbers alone are learned from; leave the column out by inputs, or declare the table in a .toml file"
        raise UsageError(f"{_row(path, row)}, column {name!r}: {value!r} is no number: {allowed}")
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise UsageError(
            f"{_row(path, row)}, column {name!r}: {values[row]} is no number: fill it or leave the row out"
        )
    return values


def _labels(path: Path, table: Any, name: str) -> NDArray[Any]:
    column = table[name].combine_chunks()
    _refuse_missing(path, column, name)
    values = column.to_pylist()
    return np.array([str(value) for value in values]) if isinstance(values[0], str | bytes) else np.array(values)


def _lists(path: Path, name: str, lists: list[Any]) -> NDArray[Any]:
    first = np.shape(lists[0])
    for row, each in enumerate(lists):
        if np.asarray(each).dtype == object or np.shape(each) != first:
            allowed = f"all must have the shape of the first, {first}"
            raise UsageError(f"{_row(path, row)}, column {name!r}: a list of shape {np.shape(each)}: {allowed}")
    array = np.array(lists)
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def _refuse_missing(path: Path, column: Any, name: str) -> None:
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise UsageError(f"{_row(path, row)}, column {name!r}: no value: fill it or leave the row out")


def _first_text(values: list[Any]) -> tuple[int, Any]:
    """Return the row and the value of the first that is no number."""
    for row, value in enumerate(values):
        try:
            float(value)
        except (TypeError, ValueError):
            return row, value
    return 0, values[0]


def _row(path: Path, row: int) -> str:
    """Return where a row stands, as an editor counts the lines of a CSV file, and Parquet its rows.

    >>> _row(Path("a.csv"), 0), _row(Path("a.parquet"), 0)
    ('a.csv, line 2', 'a.parquet, row 0')
    """
    return f"{path}, line {row + 2}" if path.suffix == ".csv" else f"{path}, row {row}"
