"""Data sets from the named columns of a CSV or Parquet file: numbers, pictures or lists of numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.data.dataset import Dataset
from fedlearn.data.entries import Arrays
from fedlearn.data.folder import identity
from fedlearn.data.reading import check_unpacked, one_line_errors, opened
from fedlearn.data.sources.as_arrays import named_columns
from fedlearn.data.sources.declared import TEST_SHARE, Declared, Given
from fedlearn.data.sources.images import Size, decoded
from fedlearn.data.stored import dataset_at, with_facts
from fedlearn.words.errors import DataNotFound, UsageError, quoted

MISSING = ["", "?", "NA", "N/A", "NaN", "nan", "null", "None"]  # in a CSV file
READING = 2  # version of what cells and columns mean: a new number makes every cached table unknown
BLOCK = 1 << 24  # bytes of a CSV file that are parsed together; a longer row is refused
INDEX = ("", "Unnamed: 0", "__index_level_0__")  # names that pandas gives to the column of row numbers
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8}  # bytes of a value of Parquet
MOST_SHOWN = 20  # names of columns in an error


@one_line_errors
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
    """Return the rows of a CSV or Parquet file as a data set.

    Parameters
    ----------
    file
        Path that ends in .csv or .parquet.
    target
        The column to be learned: texts or integers are classes, other numbers a regression.
    inputs
        The columns learned from: columns of numbers; or one column of pictures (encoded bytes, as on the Hugging Face
        Hub) or of lists of numbers, all of one length. Unless given, all other columns but a column of row numbers, as
        pandas writes one.
    groups
        The column with the group of each row, for ``partition="natural"``.
    test
        Another file with the test examples, relative to the first. Without it a fixed share is held out.
    classes
        Number or names of the classes, if the file lacks some.
    regression
        Whether integers to be learned are numbers, not classes.
    size
        (height, width) to which pictures are scaled.
    test_share
        Share of the rows that is held out if there is no `test`.

    Raises
    ------
    UsageError
        With the file, the column, the first wrong row, and the values that are allowed.
    """
    path = _found(Path(file).expanduser().absolute())
    test_path = None if test is None else _found(path.parent / Path(test).expanduser())
    named = (inputs,) if isinstance(inputs, str) else tuple(inputs or ())
    chosen = _Chosen(target.strip(), named, groups.strip() if groups else None, regression, size)

    def make() -> Arrays:
        declared = Declared(str(path), classes=classes)
        table = _Columns.read(path)
        names = chosen.names_in(table)
        held_out: Given = (None, None, None)
        if test_path is not None:
            held_out = chosen.taken(_Columns.read(test_path), names)
        train, test_rows, facts = declared.checked(chosen.taken(table, names), held_out, test_share=test_share)
        index = table.index if table.index not in names and not chosen.inputs else None
        left_out = {} if index is None else {"notice": f"{path}: its column {index!r} of row numbers is left out"}
        return with_facts(train, test_rows, {**facts, **left_out, **named_columns(names)})

    files = identity(*(each for each in (path, test_path) if each is not None))
    return dataset_at(str(path), "table-file", f"{files}\n{chosen} {classes=} {test_share=} {READING=}", make)


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

    def names_in(self, table: _Columns) -> tuple[str, ...]:
        """Return the names of the columns to learn from."""
        special = {self.target, self.groups, table.index}
        names = tuple(name.strip() for name in self.inputs)
        return names or tuple(name for name in table.names if name not in special)

    def taken(self, table: _Columns, names: tuple[str, ...]) -> Given:
        """Return X, y and groups from the columns of a file."""
        path = table.path
        table.check([self.target, *([self.groups] if self.groups else []), *names])
        if not names or not table.rows:
            raise UsageError(f"{path} has no {'rows' if names else 'columns to learn from'}")
        columns = [_values(table, name, self.size) for name in names]
        if len(columns) > 1 and any(column.ndim > 1 for column in columns):
            raise UsageError(f"{path}: a column of pictures or lists must be the only input: name it by inputs")
        X = columns[0] if columns[0].ndim > 1 else np.column_stack([column.astype(np.float32) for column in columns])
        y = _labels(table, self.target)
        groups = None if self.groups is None else _labels(table, self.groups)
        return X, y.astype(np.float64) if self.regression else y, groups


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a file, by their names without blanks around them."""

    path: Path
    table: Any
    names: tuple[str, ...]
    places: dict[str, int]

    @classmethod
    def read(cls, path: Path) -> _Columns:
        """Return the columns of a file."""
        table = _table(path)
        names = tuple(name.strip() for name in table.column_names)  # read once: Arrow makes a new list each time
        return cls(path, table, names, {name: place for place, name in reversed([*enumerate(names)])})

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    @property
    def index(self) -> str | None:
        """The name of the column of row numbers, or None; in a CSV file it is the first column."""
        named = self.names[:1] if self.path.suffix == ".csv" else self.names
        return next((name for name in named if name in INDEX), None)

    def check(self, wanted: Sequence[str]) -> None:
        """Refuse names that no column has, or two columns have."""
        if absent := next((name for name in wanted if name not in self.places), None):
            names = ", ".join(quoted(name) for name in self.names[:MOST_SHOWN])
            more = f" and {len(self.names) - MOST_SHOWN} more" if len(self.names) > MOST_SHOWN else ""
            raise UsageError(f"{self.path} has no column {absent!r}; it has {names}{more}")
        if len(self.places) < len(self.names):
            counts = Counter(self.names)
            if twice := next((name for name in wanted if counts[name] > 1), None):
                raise UsageError(f"{self.path} has {counts[twice]} columns {twice!r}: rename or remove all but one")

    def column(self, name: str) -> Any:
        """Return a column in one piece; a missing value is refused."""
        import pyarrow as pa

        column = self.table.column(self.places[name]).combine_chunks()
        if pa.types.is_dictionary(column.type):
            check_unpacked(self.path, _spelled_out(column))
            column = column.dictionary_decode()
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64() if column.type.scale else pa.int64())
        if self.path.suffix == ".csv" and pa.types.is_string(column.type):
            column = _stripped(column)
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise UsageError(f"{self.place(row)}, column {name!r}: no value: fill it or leave the row out")
        return column

    def place(self, row: int) -> str:
        """Return file and line, or file and row, for an error."""
        return _row(self.path, row)


def _stripped(column: Any) -> Any:
    """Return texts without blanks around them, and None for each text that stands for a missing value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(column)
    return pc.if_else(pc.is_in(texts, pa.array(MISSING)), pa.scalar(None, texts.type), texts)


def _spelled_out(column: Any) -> int:
    """Return the number of bytes that texts or pictures take without their dictionary."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type.value_type
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        return 0
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    sizes = (pc.sum(pc.take(pc.binary_length(each.dictionary), each.indices)).as_py() for each in chunks)
    return sum(size or 0 for size in sizes)


def _table(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    with opened(path) as file:
        if path.suffix == ".parquet":
            schema = pa.parquet.read_schema(file)
            texts = [each.name for each in schema if pa.types.is_string(each.type) or pa.types.is_binary(each.type)]
            parquet = pa.parquet.ParquetFile(file, read_dictionary=texts)  # a text that repeats takes its place once
            check_unpacked(path, unpacked_size(parquet))
            return parquet.read()
        convert = pa.csv.ConvertOptions(null_values=MISSING, strings_can_be_null=True)
        return pa.csv.read_csv(file, pa.csv.ReadOptions(block_size=BLOCK), convert_options=convert)


def unpacked_size(parquet: Any) -> int:
    """Return the number of bytes that a Parquet file declares to unpack to: few may stand for a value that repeats."""
    groups = [parquet.metadata.row_group(number) for number in range(parquet.metadata.num_row_groups)]
    chunks = (group.column(place) for group in groups for place in range(group.num_columns))
    return sum(max(c.total_uncompressed_size, c.num_values * WIDTHS.get(c.physical_type, 8)) for c in chunks)


def _values(table: _Columns, name: str, size: Size | None) -> NDArray[Any]:
    """Return a column to learn from, shape (rows,), (rows, length) or (rows, height, width, channels)."""
    import pyarrow as pa

    column = table.column(name)
    kind = column.type
    if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        column = column.field("bytes")
        kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        places = [f"{table.place(row)}, column {name!r}" for row in range(len(column))]
        return decoded(column.to_pylist(), places, size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(table, name, column.to_pylist())
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        row, value = _first_text(column.to_pylist())
        allowed = "numbers alone are learned from; leave the column out by inputs, or declare the table in a .toml file"
        raise UsageError(f"{table.place(row)}, column {name!r}: {quoted(value)} is no number: {allowed}")
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise UsageError(
            f"{table.place(row)}, column {name!r}: {values[row]} is no number: fill it or leave the row out"
        )
    return values


def _labels(table: _Columns, name: str) -> NDArray[Any]:
    values = table.column(name).to_pylist()
    return np.array([str(value) for value in values]) if isinstance(values[0], str | bytes) else np.array(values)


def _lists(table: _Columns, name: str, lists: list[Any]) -> NDArray[Any]:
    first = np.shape(lists[0])
    for row, each in enumerate(lists):
        if np.asarray(each).dtype == object or np.shape(each) != first:
            allowed = f"all must have the shape of the first, {first}"
            raise UsageError(f"{table.place(row)}, column {name!r}: a list of shape {np.shape(each)}: {allowed}")
    array = np.array(lists)
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def _first_text(values: list[Any]) -> tuple[int, Any]:
    """Return row and value of the first value that is no number."""
    for row, value in enumerate(values):
        try:
            float(value)
        except (TypeError, ValueError):
            return row, value
    return 0, values[0]


def _row(path: Path, row: int) -> str:
    """Return file and line of a CSV file, as an editor counts lines, or file and row of a Parquet file, from 0.

    >>> _row(Path("a.csv"), 0), _row(Path("a.parquet"), 0)
    ('a.csv, line 2', 'a.parquet, row 0')
    """
    return f"{path}, line {row + 2}" if path.suffix == ".csv" else f"{path}, row {row}"
