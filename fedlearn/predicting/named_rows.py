"""Rows with names of columns, as the columns of a table of Arrow: frames, dicts, lists of dicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedlearn.core.errors import UsageError
from fedlearn.data.sources.as_arrays import columns_of
from fedlearn.data.sources.column_values import Columns, stripped
from fedlearn.data.sources.forms import is_hf
from fedlearn.data.sources.table_files import Dialect

TRUTH = {"true": 1.0, "false": 0.0}  # as Arrow reads them in a CSV file


def are_dicts(rows: Any) -> bool:
    """Return whether rows are a list of dicts, one for each row."""
    return isinstance(rows, list | tuple) and bool(rows) and all(isinstance(row, Mapping) for row in rows)


def is_one_row(rows: Any, columns: Sequence[str]) -> bool:
    """Return whether a series of pandas is one row of a frame, as ``frame.iloc[0]``."""
    has_names = hasattr(rows, "to_dict") and not columns_of(rows)
    return has_names and not set(columns).isdisjoint(getattr(rows, "index", ()))


def is_mixed(rows: Any, columns: Sequence[str]) -> bool:
    """Return whether rows without names hold texts, or nothing at some places, in the order of the columns."""
    if not isinstance(rows, list | tuple | np.ndarray):
        return False
    array = np.array(rows, object)
    return (
        array.ndim == 2 and array.shape[1] == len(columns) and any(x is None or isinstance(x, str) for x in array.flat)
    )


def as_frame(rows: Any, columns: Sequence[str]) -> Any:
    """Return rows in any form with names as a frame of pandas or polars, or a table of Arrow."""
    import pandas as pd

    if is_hf(rows):
        return rows.with_format("arrow")[:]
    if is_one_row(rows, columns):
        rows = rows.to_dict()
    if isinstance(rows, Mapping):
        are_columns = bool(rows) and all(isinstance(each, list | tuple | np.ndarray) for each in rows.values())
        return pd.DataFrame(dict(rows) if are_columns else [dict(rows)])
    if columns_of(rows):
        return rows
    return pd.DataFrame(list(rows), columns=None if are_dicts(rows) else list(columns))


def with_numbers(table: Columns, names: Sequence[str], dialect: Dialect) -> Columns:
    """Return a table of a CSV file, read as texts, with numbers in these columns, where all their cells are numbers."""
    if not table.is_text:
        return table
    arrow = table.table
    for name in names:
        place = table.places[name]
        arrow = arrow.set_column(place, arrow.column_names[place], _numbers(arrow.column(place), dialect.decimal))
    return replace(table, table=arrow)


def _numbers(column: Any, decimal: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = stripped(column.combine_chunks())
    plain = texts if decimal == "." else pc.replace_substring(texts, decimal, ".")
    try:
        return pc.cast(plain, pa.float64())
    except pa.ArrowInvalid:
        values = [text if text is None else TRUTH.get(text.lower()) for text in texts.to_pylist()]
        is_truth = all((value is None) == (text is None) for value, text in zip(values, texts.to_pylist(), strict=True))
        return pa.array(values, pa.float64()) if is_truth else column


def refuse_empty(names: Sequence[str], where: str) -> None:
    """Refuse named columns for a model whose columns have no names."""
    if not names:
        raise UsageError(f"{where}: the run's columns have no names: give an array")
