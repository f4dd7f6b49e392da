"""The declared columns of a CSV or Parquet file; no cell and no line makes reading fail."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.data.base import TableSchema
from fedlearn.data.folder import one_line
from fedlearn.data.reading import check_unpacked, ending_of, size_of
from fedlearn.data.sources.table_files import unpacked_size
from fedlearn.words.errors import UsageError

MISSING = {"", "?", "NA", "N/A", "NaN", "nan", "null", "None"}  # texts, unless a category is declared so
NAMES = 20  # columns that an error names
NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
LARGEST_BLOCK = 2**31 - 1  # bytes that Arrow reads at once

Columns = dict[str, NDArray[Any]]
"""Column -> values. Numbers are float64, or objects if some cells are no numbers: then with the texts of these cells.
Categories and classes are objects: texts, or None where there is none."""


def read_columns(path: Path, schema: TableSchema) -> Columns:
    """Return the declared columns of a CSV or Parquet file; no cell and no line makes reading fail.

    Raises
    ------
    UsageError
        If the file is neither, or lacks a declared column; in one line.
    """
    import pyarrow as pa
    import pyarrow.parquet

    names = [*schema.features, schema.target]
    texts = {*schema.categories, *([schema.target] if schema.classes else [])}
    size_of(path)  # a regular file, without holes that would take all memory
    try:
        if ending_of(path) == ".parquet":
            with pa.parquet.ParquetFile(path) as file:
                check_unpacked(path, unpacked_size(file))
                _check_names(path, file.schema_arrow.names, names)
            table = pa.parquet.read_table(path, columns=names, partitioning=None)
        else:
            table = _read_csv(path, names)
        return {name: (_texts_of if name in texts else _numbers_of)(_values(table[name])) for name in names}
    except (pa.ArrowException, OSError, csv.Error) as error:
        raise UsageError(f"{path} cannot be read as the table that was declared: {one_line(error)}") from error


def _check_names(path: Path, found: Sequence[str], names: Iterable[str]) -> None:
    times = Counter(found)
    for name in names:
        if not times[name]:
            more = ", ..." if len(found) > NAMES else ""
            raise UsageError(f"{path} has no column {name!r}; it has {', '.join(found[:NAMES])}{more}")
        if times[name] > 1:
            raise UsageError(f"{path} has {times[name]} columns {name!r}: leave one")


def _read_csv(path: Path, names: list[str]) -> Any:
    """Return columns of bytes; a line that is no row, as by a quote that is not closed, is a row of empty cells."""
    import pyarrow as pa
    import pyarrow.csv

    header, *lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines() or [b""]
    found = [name.strip() for name in next(csv.reader([header.decode(errors="replace")]), [])]
    _check_names(path, found, names)
    empty = b"," * (len(found) - 1)
    body = b"\n".join(line if _cells(line) == len(found) else empty for line in lines if line)
    if not body:
        return pa.table({name: pa.array([], pa.binary()) for name in names})
    return pa.csv.read_csv(
        io.BytesIO(body),
        # One block: a row may not depend on where another row happens to be cut.
        read_options=pa.csv.ReadOptions(column_names=found, block_size=min(len(body) + 1, LARGEST_BLOCK)),
        convert_options=pa.csv.ConvertOptions(include_columns=names, column_types=dict.fromkeys(names, pa.binary())),
    )


def _cells(line: bytes) -> int:
    """Return the number of cells of a line, looked at alone; 0 if a quote is not closed."""
    if b'"' not in line:
        return line.count(b",") + 1
    try:
        return len(next(csv.reader([line.decode("latin-1")], strict=True)))
    except csv.Error:
        return 0


def _values(column: Any) -> Any:
    """Return a column of plain values, where the file keeps them as places in a dictionary, too."""
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _is_text(column: Any) -> bool:
    import pyarrow.types as kinds

    texts = (kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary)
    return any(is_one(column.type) for is_one in texts)


def _texts_of(column: Any) -> NDArray[Any]:
    """Return the texts of a column, None where there is none."""
    import pyarrow as pa

    if not _is_text(column):
        return np.array(column.cast(pa.string()).to_pylist(), object)
    found = column.cast(pa.binary()).to_pylist()  # not every cell need be UTF-8
    return np.array([None if cell is None else cell.decode(errors="replace") for cell in found], object)


def _numbers_of(column: Any) -> NDArray[Any]:
    """Return the numbers of a column as float64; objects if some cells are no numbers: then with the texts of these."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not _is_text(column):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)
    cells = column.cast(pa.binary())
    is_number = pc.fill_null(pc.match_substring_regex(cells, NUMBER), False)
    plain = pc.utf8_ltrim(pc.utf8_trim_whitespace(pc.if_else(is_number, cells, None).cast(pa.string())), "+")
    numbers = np.asarray(plain.cast(pa.float64()).to_numpy(), np.float64)
    others = np.flatnonzero(~np.asarray(is_number.to_numpy(), bool))
    words = {int(row): text for row in others if (text := _word(cells[int(row)].as_py())) not in MISSING}
    if not words:
        return numbers
    mixed: NDArray[Any] = numbers.astype(object)
    for row, text in words.items():
        mixed[row] = text
    return mixed


def _word(cell: bytes | None) -> str:
    return "" if cell is None else cell.decode(errors="replace").strip()
