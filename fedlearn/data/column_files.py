"""The declared columns of a CSV or Parquet file; no cell and no line makes reading fail."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import UsageError
from fedlearn.data.data_folder import one_line
from fedlearn.data.data_spec import TableSchema
from fedlearn.data.naming import in_one_form, plain_name, spelled
from fedlearn.data.reading import check_unpacked, ending_of, size_of, unpacked
from fedlearn.data.sources.table_files import Dialect, unpacked_size

MISSING = {"", "?", "NA", "N/A", "NaN", "nan", "null", "None"}  # texts, unless a category is declared so
NAMES = 20  # columns that an error names
NUMBER = r"^\s*[+-]?(\d+{point}?\d*|{point}\d+)([eE][+-]?\d+)?\s*$"
PLAIN = Dialect()
ASCII = '1,2;"x"\t\n'  # that means the same in an encoding of single lines
LARGEST_BLOCK = 2**31 - 1  # bytes that Arrow reads at once

Columns = dict[str, NDArray[Any]]
"""Column -> values. Numbers are float64, or objects if some cells are no numbers: then with the texts of these cells.
Categories and classes are objects: texts, or None where there is none."""


def read_columns(path: Path, schema: TableSchema, dialect: Dialect = PLAIN, *, also: Sequence[str] = ()) -> Columns:
    """Return the declared columns of a CSV or Parquet file; no cell and no line makes reading fail.

    Cells are read line by line, so a line break in quotes ends a line.

    Parameters
    ----------
    also
        Further columns, of texts.

    Raises
    ------
    UsageError
        If the file is neither, or lacks a declared column; in one line.
    """
    import pyarrow as pa
    import pyarrow.parquet

    names = list(dict.fromkeys([*schema.features, *schema.learned, *also]))
    size_of(path)  # a regular file, without holes that would take all memory
    try:
        if ending_of(path) == ".parquet":
            with pa.parquet.ParquetFile(path) as file:
                check_unpacked(path, unpacked_size(file))
                written = file.schema_arrow.names
            _check_names(path, [*map(plain_name, written)], names)
            theirs = [spelled(name, written) for name in names]
            table = pa.parquet.read_table(path, columns=theirs, partitioning=None).select(theirs).rename_columns(names)
            point = PLAIN.decimal
        else:
            table, point = _read_csv(path, names, dialect), dialect.decimal
        return plain_columns({name: table[name] for name in names}, {*schema.words, *also}, point)
    except (pa.ArrowException, OSError, csv.Error) as error:
        raise UsageError(f"{path} cannot be read as the table that was declared: {one_line(error)}") from error


def plain_columns(table: Mapping[str, Any], texts: Collection[str], point: str) -> Columns:
    """Return columns of Arrow as categories, those in `texts`, and numbers, with the decimal point of a CSV file."""
    columns = {name: _values(column) for name, column in table.items()}
    return {name: _texts_of(c) if name in texts else _numbers_of(c, point) for name, c in columns.items()}


def _check_names(path: Path, found: Sequence[str], names: Iterable[str]) -> None:
    times = Counter(found)
    for name in names:
        if not times[name]:
            more = ", ..." if len(found) > NAMES else ""
            raise UsageError(f"{path} has no column {name!r}; it has {', '.join(found[:NAMES])}{more}")
        if times[name] > 1:
            raise UsageError(f"{path} has {times[name]} columns {name!r}: leave one")


def _read_csv(path: Path, names: list[str], dialect: Dialect) -> Any:
    """Return columns of bytes; a line that is no row, as by a quote that is not closed, is a row of empty cells."""
    import pyarrow as pa
    import pyarrow.csv

    between = dialect.between(path)
    header, *lines = _lines_of(path, dialect.encoding) or [b""]
    found = [plain_name(name) for name in next(csv.reader([header.decode(errors="replace")], delimiter=between), [])]
    _check_names(path, found, names)
    empty = between.encode() * (len(found) - 1)
    body = b"\n".join(line if _cells(line, between) == len(found) else empty for line in lines if line)
    if not body:
        return pa.table({name: pa.array([], pa.binary()) for name in names})
    return pa.csv.read_csv(
        io.BytesIO(body),
        # One block: a row may not depend on where another row happens to be cut.
        read_options=pa.csv.ReadOptions(column_names=found, block_size=min(len(body) + 1, LARGEST_BLOCK)),
        parse_options=pa.csv.ParseOptions(delimiter=between),
        convert_options=pa.csv.ConvertOptions(include_columns=names, column_types=dict.fromkeys(names, pa.binary())),
    )


def _lines_of(path: Path, encoding: str) -> list[bytes]:
    """Return the lines of a file in UTF-8, each decoded alone: a line in which bytes are wrong changes no other line.

    Raises
    ------
    UsageError
        If lines cannot be told apart before they are decoded, as in UTF-16.
    """
    with unpacked(path) as file:
        lines = file.read().removeprefix(b"\xef\xbb\xbf").splitlines()
    if encoding.lower() in ("utf-8", "utf8", "utf-8-sig"):
        return lines
    if ASCII.encode(encoding) != ASCII.encode():
        raise UsageError(f"{path}: encoding = {encoding!r}: a declared table is read line by line: save it as UTF-8")
    texts = (line.decode(encoding, errors="replace") for line in lines)
    return [text.replace("\n", " ").replace("\r", " ").encode(errors="replace") for text in texts]


def _cells(line: bytes, between: str) -> int:
    """Return the number of cells of a line, looked at alone; 0 if a quote is not closed."""
    if b'"' not in line:
        return line.count(between.encode()) + 1
    try:
        return len(next(csv.reader([line.decode("latin-1")], delimiter=between, strict=True)))
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
    return np.array([None if cell is None else in_one_form(cell.decode(errors="replace")) for cell in found], object)


def _numbers_of(column: Any, point: str) -> NDArray[Any]:
    """Return the numbers of a column as float64; objects if some cells are no numbers: then with the texts of these."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not _is_text(column):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)
    cells = column.cast(pa.binary())
    is_number = pc.fill_null(pc.match_substring_regex(cells, NUMBER.format(point=re.escape(point))), False)
    plain = pc.utf8_ltrim(pc.utf8_trim_whitespace(pc.if_else(is_number, cells, None).cast(pa.string())), "+")
    plain = plain if point == "." else pc.replace_substring(plain, point, ".")
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
