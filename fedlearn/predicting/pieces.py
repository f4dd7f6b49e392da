"""Files of rows in pieces, so that a file may be larger than memory: tables, folders of pictures, arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedlearn.core.errors import DataNotFound, UsageError
from fedlearn.data.naming import plain_name
from fedlearn.data.reading import check_unpacked, ending_of, one_line_of, opened, unpacked
from fedlearn.data.sources.column_values import Columns
from fedlearn.data.sources.table_files import ENDINGS, Dialect, names_in, place_of, unpacked_size
from fedlearn.predicting.pictures import files_in

if TYPE_CHECKING:
    from fedlearn.predicting.preparation import Preparation

ROWS = 20_000  # of a piece; of pictures, whose pixels are larger, a hundredth
BLOCK = 1 << 22  # bytes of a CSV file that are parsed together; a longer row is refused
ARRAYS = (".npy", ".npz")


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a file.

    Parameters
    ----------
    rows
        What `Preparation.arrays` takes.
    kept
        Name -> column of Arrow or list: what goes with the rows into the file of predictions.
    """

    rows: Any
    kept: dict[str, Any] = field(default_factory=dict)


def pieces_of(path: Path, preparation: Preparation, *, keep: Collection[str] = (), rows: int = ROWS) -> Iterator[Piece]:
    """Yield the rows of a file or folder in order.

    Parameters
    ----------
    path
        A CSV or Parquet file, also compressed; a folder of pictures, or one picture; .npy, or .npz with X.
    keep
        Columns of a table that go with the rows. Pictures keep their path in the folder, as ``file``.
    rows
        Rows of a piece.

    Raises
    ------
    DataNotFound, UsageError
        If there is no such file, it is of another kind, or lacks a column.
    """
    if not path.exists():
        raise DataNotFound(f"{path}: there is no such file or folder: give the path of new rows")
    with one_line_of(path):
        if ending_of(path) in ENDINGS:
            yield from _of_table(path, preparation, keep, rows)
        elif keep:
            raise UsageError(f"{path}: {', '.join(keep)}: only tables have columns that are kept")
        elif path.suffix in ARRAYS:
            yield from _of_arrays(path, rows)
        elif preparation.spec.is_image:
            yield from _of_pictures(path, max(1, rows // 100))
        else:
            raise UsageError(f"{path}: rows are a file that ends in {', '.join((*ENDINGS, *ARRAYS))}, also compressed")


def _of_table(path: Path, preparation: Preparation, keep: Collection[str], rows: int) -> Iterator[Piece]:
    dialect = preparation.dialect
    wanted = {*preparation.columns, *keep}
    named = Columns(str(path), ending_of(path), None, str, *_places(names_in(path, dialect)))
    named.check([*preparation.columns, *keep])
    chosen = [name for name in names_in(path, dialect) if plain_name(name) in wanted]
    start = 0
    for batch in _batches(path, dialect, chosen, rows):
        table = Columns.of(str(path), ending_of(path), batch, _place(path, dialect, start))
        yield Piece(table, {name: batch.column(table.places[name]) for name in keep})
        start += batch.num_rows


def _places(names: list[str]) -> tuple[tuple[str, ...], dict[str, int]]:
    plain = tuple(map(plain_name, names))
    return plain, {name: place for place, name in enumerate(plain)}


def _place(path: Path, dialect: Dialect, start: int) -> Any:
    return lambda row: place_of(path, start + row, dialect)


def _batches(path: Path, dialect: Dialect, chosen: list[str], rows: int) -> Iterator[Any]:
    """Yield tables of Arrow; all cells of a CSV file are texts, so that no piece is read otherwise than another."""
    import pyarrow as pa
    import pyarrow.csv as reader
    import pyarrow.parquet

    if ending_of(path) == ".parquet":
        with opened(path) as file:
            parquet = pa.parquet.ParquetFile(file)
            check_unpacked(path, unpacked_size(parquet))
            for batch in parquet.iter_batches(rows, columns=chosen):
                yield pa.Table.from_batches([batch])
        return
    with unpacked(path) as file:
        blocks = reader.open_csv(
            file,
            reader.ReadOptions(block_size=BLOCK, encoding=dialect.encoding),
            reader.ParseOptions(delimiter=dialect.between(path), newlines_in_values=True),
            reader.ConvertOptions(include_columns=chosen, column_types=dict.fromkeys(chosen, pa.string())),
        )
        for block in blocks:
            table = pa.Table.from_batches([block])
            yield from (table.slice(start, rows) for start in range(0, table.num_rows, rows))


def _of_pictures(path: Path, rows: int) -> Iterator[Piece]:
    files = files_in(path) if path.is_dir() else [path]
    top = path if path.is_dir() else path.parent
    for start in range(0, len(files), rows):
        some = files[start : start + rows]
        yield Piece(some, {"file": [str(file.relative_to(top)) for file in some]})


def _of_arrays(path: Path, rows: int) -> Iterator[Piece]:
    with opened(path) as file:
        found: Any = np.load(file, allow_pickle=False)
        array = found if isinstance(found, np.ndarray) else found["X"]
    yield from (Piece(array[start : start + rows]) for start in range(0, len(array), rows))
