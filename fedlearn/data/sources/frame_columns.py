"""The declared columns of a frame, read by the rules of a declared file (`fedlearn.data.column_files`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedlearn.data import column_files
from fedlearn.data.data_spec import TableSchema
from fedlearn.data.naming import plain_name
from fedlearn.data.sources.as_arrays import columns_of
from fedlearn.data.sources.column_values import FRAME, Columns, columns_of_frame

ROWS = "the frame"  # name of rows that are no file, in errors


def declared_columns(
    table: Columns, names: Sequence[str], schema: TableSchema, *, decimal: str = ".", also: Sequence[str] = ()
) -> column_files.Columns:
    """Return columns of a table as those of a declared file: numbers, and the words of categories and classes.

    Parameters
    ----------
    decimal
        The character before the decimals of numbers that are written as text.
    also
        Those of the names that are further columns, of texts.
    """
    words = {**dict.fromkeys(also, ()), **schema.words}
    arrow = {name: _in_words(table.table.column(table.places[name]), words.get(name, ())) for name in names}
    return column_files.plain_columns(arrow, words, decimal if table.is_text else ".")


def columns_named(frame: Any, names: Sequence[str], where: str = ROWS) -> Columns:
    """Return the columns of these names; others are left out, and may hold anything.

    Raises
    ------
    UsageError
        With the first column that is missing, or that two columns are named.
    """
    import pyarrow as pa

    found = [plain_name(str(name)) for name in columns_of(frame)]
    Columns(where, FRAME, None, str, tuple(found), {name: place for place, name in enumerate(found)}).check(names)
    wanted = [original for original in columns_of(frame) if plain_name(str(original)) in names]
    if not hasattr(frame, "iloc"):  # of polars and Arrow
        return columns_of_frame(frame.select(wanted), where)
    try:
        return columns_of_frame(frame[wanted], where)
    except pa.ArrowException:  # a column with values of several kinds, as texts among numbers
        return columns_of_frame(frame[wanted].apply(_as_texts), where)


def _as_texts(column: Any) -> Any:
    if column.dtype != object:
        return column
    return column.map(lambda value: None if value is None or value != value else str(value))


def _in_words(column: Any, categories: Sequence[str]) -> Any:
    """Return a column of truth values in the words in which its categories are declared, ``true`` or ``True``."""
    import pyarrow as pa

    if not categories or not pa.types.is_boolean(column.type):
        return column
    case = str.title if {"True", "False"} & set(categories) else str.lower
    return pa.chunked_array([pa.array([None if x is None else case(str(x)) for x in column.to_pylist()], pa.string())])
