"""Tables in files, read by Arrow: CSV in any dialect, also compressed, and Parquet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from fedlearn.core.errors import UsageError, quoted
from fedlearn.data.naming import plain_name
from fedlearn.data.reading import check_unpacked, ending_of, opened, unpacked

MISSING = ["", "?", "NA", "N/A", "NaN", "nan", "null", "None"]  # in a CSV file
DELIMITERS = {".csv": ",", ".tsv": "\t"}
TYPED = {"tab": "\t", "\\t": "\t"}  # as a command line has a tab
ENDINGS = (*DELIMITERS, ".parquet")
BLOCK = 1 << 24  # bytes of a CSV file that are parsed together; a longer row is refused
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8}  # bytes of a value of Parquet
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # beginnings of such a file
NO_NUMBER = r"^\s*(0\d|\d{19})"  # a label with a leading zero, or of more digits than integers of 64 bits have
WITH_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")  # a number with a decimal comma


Labels = Mapping[str, tuple[str, ...]]
"""Names of columns that are not learned from -> names of their classes, if declared."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a CSV file is written.

    Parameters
    ----------
    delimiter
        One character between cells, or ``"tab"``; empty: that of the file's ending.
    decimal
        The character before the decimals of a number: "." or ",".
    encoding
        A name that Python knows, as ``"cp1252"``.
    """

    delimiter: str = ""
    decimal: str = "."
    encoding: str = "utf-8"

    def check(self) -> None:
        """Refuse what no CSV file can have.

        Raises
        ------
        UsageError
            With the option, and the values that are allowed.
        """
        between = TYPED.get(self.delimiter, self.delimiter)
        if len(between) > 1 or not between.isascii() or between in ('"', "\n", "\r"):
            raise UsageError(f"delimiter = {self.delimiter!r}: give one character, as ';' or 'tab'")
        if self.decimal not in (".", ","):
            raise UsageError(f"decimal = {self.decimal!r}: give '.' or ','")
        try:
            "".encode(self.encoding)
        except (LookupError, UnicodeError, ValueError):
            raise UsageError(
                f"encoding = {self.encoding[:100]!r}: Python knows none of this name: give utf-8, cp1252 or utf-16"
            ) from None

    def between(self, path: Path) -> str:
        """Return the character between the cells of a file."""
        found = TYPED.get(self.delimiter, self.delimiter) or DELIMITERS.get(ending_of(path), ",")
        if found == self.decimal:
            raise UsageError(f"{path}: delimiter and decimal are both {found!r}: give another delimiter, as ';'")
        return found


@contextmanager
def _text(path: Path, dialect: Dialect) -> Iterator[Any]:
    """Open a CSV file as a reader of rows of texts, for its header and for the lines of errors."""
    encoding = "utf-8-sig" if dialect.encoding.lower() in ("utf-8", "utf8") else dialect.encoding
    with unpacked(path) as file, io.TextIOWrapper(file, encoding, errors="replace", newline="") as text:
        yield csv.reader(text, delimiter=dialect.between(path))


def names_in(path: Path, dialect: Dialect) -> list[str]:
    """Return the names of the columns of a file, as they stand there."""
    import pyarrow.parquet

    if ending_of(path) == ".parquet":
        with opened(path) as file:
            return list(pyarrow.parquet.read_schema(file).names)
    with _text(path, dialect) as rows:
        return next((row for row in rows if row), [])


def read_table(path: Path, dialect: Dialect, wanted: Collection[str] | None = None) -> Any:
    """Return a file as a table of Arrow.

    Parameters
    ----------
    wanted
        The only columns that are read, by their names without blanks around them; None: all.

    Raises
    ------
    UsageError
        If the file is not in this encoding.
    """
    import pyarrow as pa

    found = names_in(path, dialect) if wanted is not None else []
    chosen = [name for name in found if plain_name(name) in (wanted or ())]
    if len(chosen) != len(wanted or ()):  # a name that no column has, or two have: its error lists all names
        chosen = []
    if ending_of(path) == ".parquet":
        return _parquet(path, chosen)
    try:
        with unpacked(path) as file:
            table = _csv(path, file, dialect, chosen)
        names = table.column_names
    except UnicodeError as error:
        raise _of_another_encoding(str(path), dialect) from error
    except pa.ArrowInvalid as error:
        if advice := other_delimiter(names_in(path, dialect)):
            raise UsageError(f"{path} cannot be read{advice}") from error
        raise _ragged(path, dialect) from error
    for name, column in zip(names, table.columns, strict=True):
        if pa.types.is_binary(column.type):  # texts that are not of the encoding
            row = next(row for row, cell in enumerate(column.to_pylist()) if _is_garbage(cell))
            raise _of_another_encoding(f"{place_of(path, row, dialect)}, column {name.strip()!r}", dialect)
    return table


def with_words(path: Path, table: Any, dialect: Dialect, labels: Labels) -> Any:
    """Return a table of a CSV file in which labels that are no plain numbers stay texts: "01" is not "1"."""
    import pyarrow as pa

    for place, name in enumerate(table.column_names):
        words = labels.get(plain_name(name))
        if words is None or (pa.types.is_string(table.column(place).type) and not {*words} & {*MISSING}):
            continue
        with unpacked(path) as file:
            texts = _csv(path, file, dialect, [name], {name: pa.string()}, words).column(0)
        if _are_words(texts, table.column(place).type, words):
            table = table.set_column(place, name, texts)
    return table


def _are_words(texts: Any, kind: Any, words: Collection[str]) -> bool:
    """Return whether labels are texts: of no kind of number, codes, or the names of declared classes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return True
    trimmed = pc.utf8_trim_whitespace(texts)
    are_declared = {*words} >= {*pc.unique(trimmed).to_pylist()}
    are_whole = pc.all(pc.match_substring_regex(trimmed, r"^\d+$")).as_py()
    return are_declared or bool(are_whole and pc.any(pc.match_substring_regex(trimmed, NO_NUMBER)).as_py())


def missing_without(words: Collection[str]) -> list[str]:
    """Return the texts that stand for a missing value, unless they are declared as names of classes."""
    return [text for text in MISSING if text not in words]


def _csv(
    path: Path,
    file: BinaryIO,
    dialect: Dialect,
    chosen: list[str],
    types: Mapping[str, Any] | None = None,
    words: Collection[str] = (),
) -> Any:
    import pyarrow.csv as reader

    if file.read(2) in UTF_16 and not dialect.encoding.lower().startswith(("utf-16", "utf16", "utf_16")):
        raise _of_another_encoding(str(path), dialect)
    file.seek(0)
    return reader.read_csv(
        file,
        reader.ReadOptions(block_size=BLOCK, encoding=dialect.encoding),
        reader.ParseOptions(delimiter=dialect.between(path), newlines_in_values=True),
        reader.ConvertOptions(
            null_values=missing_without(words),
            strings_can_be_null=True,
            decimal_point=dialect.decimal,
            include_columns=chosen or None,
            column_types=types,
        ),
    )


def _parquet(path: Path, chosen: list[str]) -> Any:
    import pyarrow as pa
    import pyarrow.parquet

    with opened(path) as file:
        schema = pa.parquet.read_schema(file)
        texts = [each.name for each in schema if pa.types.is_string(each.type) or pa.types.is_binary(each.type)]
        parquet = pa.parquet.ParquetFile(file, read_dictionary=texts)  # a text that repeats takes its place once
        check_unpacked(path, unpacked_size(parquet))
        is_plain = chosen and not any("." in name for name in chosen)  # Parquet's own names of nested columns
        return parquet.read(columns=chosen) if is_plain else parquet.read()


def unpacked_size(parquet: Any) -> int:
    """Return the number of bytes that a Parquet file declares to unpack to: few may stand for a value that repeats."""
    groups = [parquet.metadata.row_group(number) for number in range(parquet.metadata.num_row_groups)]
    chunks = (group.column(place) for group in groups for place in range(group.num_columns))
    return sum(max(c.total_uncompressed_size, c.num_values * WIDTHS.get(c.physical_type, 8)) for c in chunks)


def _is_garbage(cell: bytes | None) -> bool:
    try:
        (cell or b"").decode()
    except UnicodeDecodeError:
        return True
    return False


def _of_another_encoding(place: str, dialect: Dialect) -> UsageError:
    return UsageError(
        f"{place}: it is not {dialect.encoding}: say how it is written, as data.options.encoding=cp1252 (of Windows), "
        "latin-1 or utf-16"
    )


def place_of(path: Path, row: int, dialect: Dialect) -> str:
    """Return file and line, as an editor counts lines, of a row of a CSV file; file and row, from 0, of Parquet."""
    if ending_of(path) == ".parquet":
        return f"{path}, row {row}"
    count, before = -1, 0  # the header is row -1
    with _text(path, dialect) as rows, suppress(csv.Error):  # as of a cell that is longer than Python's reader allows
        for cells in rows:
            if cells and count == row:
                break
            count, before = count + bool(cells), rows.line_num
    return f"{path}, line {before + 1}"


def _ragged(path: Path, dialect: Dialect) -> UsageError:
    """Return what is wrong with a CSV file that is no table: the first row with more or fewer cells than the header."""
    with _text(path, dialect) as rows, suppress(csv.Error):
        header: list[str] = next((row for row in rows if row), [])
        for cells in rows:
            if cells and len(cells) != len(header):
                return UsageError(
                    f"{path}, line {rows.line_num}: it has {len(cells)} cells, the header has {len(header)}: mend the "
                    "line, or put quotes around a cell with a comma in it"
                )
        if not header:
            return UsageError(f"{path}: it is empty: write a header and rows")
    return UsageError(f"{path} cannot be read: a cell is too long, or its quote is not closed: close it")


def other_delimiter(names: Collection[str]) -> str:
    """Return advice for a file whose header is one cell with another delimiter in it; else an empty text.

    >>> other_delimiter(["rooms;price"])
    "; its header has ';' between names: say data.options.delimiter=';'"
    """
    (only,) = names if len(names) == 1 else ("",)
    found = next((each for each in (";", "\t", "|", ",") if each in only), "")
    shown = "tab" if found == "\t" else f"'{found}'"
    return f"; its header has {shown} between names: say data.options.delimiter={shown}" if found else ""


def no_number(value: object) -> str:
    """Return what to do about a value that is no number."""
    if isinstance(value, str) and WITH_COMMA.fullmatch(value.strip()):
        return f"{quoted(value)} has a decimal comma: say data.options.decimal=','"
    allowed = "leave the column out by inputs or without, or declare the table (bounds, categories)"
    return f"{quoted(value)} is no number: numbers alone are learned from; {allowed}"
