"""The columns of a table of Arrow as arrays: numbers, pictures, lists of numbers, labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import UsageError, quoted
from fedlearn.data.naming import plain_name
from fedlearn.data.reading import check_unpacked
from fedlearn.data.sources.images import Size, decoded
from fedlearn.data.sources.table_files import (
    DELIMITERS,
    WITH_COMMA,
    Labels,
    missing_without,
    no_number,
    other_delimiter,
)

INDEX = ("", "Unnamed: 0", "__index_level_0__")  # names that pandas gives to the column of row numbers
MOST_SHOWN = 20  # names of columns in an error
WORDS = (str, bytes, date, time, timedelta)  # kinds of labels that are classes by their texts
FRAME = "frame"  # kind of a table that is no file


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table, by their names without blanks around them.

    Parameters
    ----------
    name
        Path of the file or name of the frame, for errors.
    kind
        Ending of the file, or "frame".
    place
        Function of a row, from 0, that returns where the row stands, for errors.
    """

    name: str
    kind: str
    table: Any
    place: Callable[[int], str]
    names: tuple[str, ...]
    places: dict[str, int]
    labels: Labels = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, kind: str, table: Any, place: Callable[[int], str], labels: Labels | None = None) -> Columns:
        """Return the columns of a table of Arrow."""
        names = tuple(map(plain_name, table.column_names))  # read once: Arrow makes a new list each time
        places = {name: place for place, name in reversed([*enumerate(names)])}
        return cls(name, kind, table, place, names, places, labels or {})

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.table.num_rows)

    @property
    def is_text(self) -> bool:
        """Whether the table was written as text, so that blanks and words for missing values stand in it."""
        return self.kind in DELIMITERS

    @property
    def index(self) -> str | None:
        """The name of the column of row numbers, or None; in a CSV file it is the first column."""
        named = self.names[:1] if self.is_text else self.names
        return next((name for name in named if name in INDEX), None)

    def check(self, wanted: Sequence[str]) -> None:
        """Refuse names that no column has, or two columns have."""
        if absent := next((name for name in wanted if name not in self.places), None):
            names = ", ".join(quoted(name) for name in self.names[:MOST_SHOWN])
            more = f" and {len(self.names) - MOST_SHOWN} more" if len(self.names) > MOST_SHOWN else ""
            raise UsageError(f"{self.name} has no column {absent!r}; it has {names}{more}{other_delimiter(self.names)}")
        if len(self.places) < len(self.names):
            counts = Counter(self.names)
            if twice := next((name for name in wanted if counts[name] > 1), None):
                raise UsageError(f"{self.name} has {counts[twice]} columns {twice!r}: rename or remove all but one")

    def column(self, name: str) -> Any:
        """Return a column in one piece; a missing value is refused."""
        import pyarrow as pa

        column = self.table.column(self.places[name]).combine_chunks()
        if pa.types.is_dictionary(column.type):
            if self.kind != "frame":
                check_unpacked(Path(self.name), _spelled_out(column))
            column = column.dictionary_decode()
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64() if column.type.scale else pa.int64())
        if self.is_text and pa.types.is_string(column.type):
            column = stripped(column, self.labels.get(name, ()))
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            word = "; if its word is a class, name it by classes" if self.is_text and name in self.labels else ""
            raise UsageError(f"{self.place(row)}, column {name!r}: no value: fill it or leave the row out{word}")
        return column


def stripped(column: Any, words: Sequence[str] = ()) -> Any:
    """Return texts without blanks around them, and None for each text, no declared word, that stands for no value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(column)
    return pc.if_else(pc.is_in(texts, pa.array(missing_without(words))), pa.scalar(None, texts.type), texts)


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


def values_of(table: Columns, name: str, size: Size | None) -> NDArray[Any]:
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
        return _lists(table, name, column)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        row, value = _first_text(column.to_pylist())
        raise UsageError(f"{table.place(row)}, column {name!r}: {no_number(value)}")
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise UsageError(
            f"{table.place(row)}, column {name!r}: {values[row]} is no number: fill it or leave the row out"
        )
    return values


def labels_of(table: Columns, name: str) -> NDArray[Any]:
    """Return a column of classes, groups or numbers to be learned, shape (rows,) or (rows, length).

    Raises
    ------
    UsageError
        If a CSV file holds numbers with a decimal comma, which would be read as texts.
    """
    values = table.column(name).to_pylist()
    if table.is_text and all(isinstance(value, str) and WITH_COMMA.fullmatch(value) for value in values):
        raise UsageError(f"{table.place(0)}, column {name!r}: {no_number(values[0])}")
    return np.array([_word(value) for value in values]) if isinstance(values[0], WORDS) else np.array(values)


def _word(value: Any) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _lists(table: Columns, name: str, column: Any) -> NDArray[Any]:
    lists, kind = column.to_pylist(), column.type
    first = np.shape(lists[0])
    for row, each in enumerate(lists):
        if np.asarray(each).dtype == object or np.shape(each) != first:
            allowed = f"all must have the shape of the first, {first}"
            raise UsageError(f"{table.place(row)}, column {name!r}: a list of shape {np.shape(each)}: {allowed}")
    array = np.array(lists)
    while hasattr(kind, "value_type"):
        kind = kind.value_type
    return array.astype(np.float32 if array.dtype.kind == "f" else kind.to_pandas_dtype())


def _first_text(values: list[Any]) -> tuple[int, Any]:
    """Return row and value of the first value that is no number."""
    for row, value in enumerate(values):
        try:
            float(value)
        except (TypeError, ValueError):
            return row, value
    return 0, values[0]


def _dense(frame: Any) -> Any:
    """Return a frame of pandas whose sparse columns are stored in full."""
    sparse = {name: kind.subtype for name, kind in frame.dtypes.items() if hasattr(kind, "fill_value")}
    return frame.astype(sparse) if sparse else frame


def columns_of_frame(frame: Any, name: str) -> Columns:
    """Return the columns of a frame of pandas or polars, or of a table of Arrow."""
    import pyarrow as pa

    if hasattr(frame, "to_arrow"):  # of polars
        table = frame.to_arrow()
    else:
        table = frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(_dense(frame), preserve_index=False)
    return Columns.of(name, FRAME, table, lambda row: f"{name}, row {row}")
