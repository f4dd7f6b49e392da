"""Write the predictions for a file of rows to another file, in pieces: as many rows, in the same order."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedlearn.core.errors import UsageError
from fedlearn.predicting.lost import Lost
from fedlearn.predicting.pieces import ROWS, pieces_of
from fedlearn.predicting.predictions_in_words import Wanted, columns
from fedlearn.predicting.predictor import Predictor

KINDS = (".csv", ".parquet")
ROW = "row"  # the column of row numbers, from 0, where no column is kept


def predict_file(
    predictor: Predictor,
    source: Path,
    out: Path,
    *,
    keep: Sequence[str] = (),
    wanted: Wanted,
    proba: bool = False,
    rows: int = ROWS,
) -> tuple[int, list[str]]:
    """Write the predictions for all rows of a file; return their number, and lines on cells that were not as declared.

    Parameters
    ----------
    source
        The rows; see `pieces_of`.
    out
        The file of predictions, .csv or .parquet; it is there when all rows are in it.
    keep
        Columns of the rows that stand in it before the predictions, as an id.
    wanted, proba
        As in `columns`.
    rows
        Rows of a piece.

    Raises
    ------
    UsageError
        If the rows cannot be read, or a column that is kept has the name of a prediction.
    """
    if out.suffix.lower() not in KINDS:
        raise UsageError(f"--out {out}: predictions are written to a file that ends in {' or '.join(KINDS)}")
    if out.resolve() == source.resolve():
        raise UsageError(f"--out {out}: it is the file of the rows: name another")
    lost, count = Lost(), 0
    with _written(out) as write:
        for piece in pieces_of(source, predictor.preparation, keep=keep, rows=rows):
            found = predictor.raw(piece.rows, lost=lost)
            kept = piece.kept or {ROW: range(count, count + len(found.guess))}
            write(_table(kept, columns(predictor.spec, found, wanted, proba=proba)))
            count += len(found.guess)
    if not count:
        raise UsageError(f"{source}: it has no rows")
    return count, lost.lines


def _table(kept: dict[str, Any], answers: dict[str, Any]) -> Any:
    import pyarrow as pa

    if twice := sorted(kept.keys() & answers.keys()):
        raise UsageError(f"the column {twice[0]!r} is kept, and is a name of the predictions: rename it in the file")
    return pa.table({name: _plain(column) for name, column in {**kept, **answers}.items()})


def _plain(column: Any) -> Any:
    import pyarrow as pa

    return column if isinstance(column, pa.ChunkedArray) else pa.array(column)


@contextmanager
def _written(out: Path) -> Iterator[Any]:
    """Give a function that appends a table to a file beside `out`, which takes its name when the block ends well."""
    aside = out.with_name(f".{out.name}.{os.getpid()}")
    writers: list[Any] = []

    def write(table: Any) -> None:
        if out.suffix.lower() == ".csv":
            table = _flat(table)
        if not writers:
            writers.append(_writer(aside, out.suffix.lower(), table.schema))
        writers[0].write_table(table.cast(writers[0].schema) if hasattr(writers[0], "schema") else table)

    try:
        try:
            yield write
        finally:
            for each in writers:
                each.close()
        if writers:
            aside.replace(out)
    finally:
        aside.unlink(missing_ok=True)


def _writer(path: Path, kind: str, schema: Any) -> Any:
    import pyarrow.csv
    import pyarrow.parquet

    if kind == ".csv":
        return pyarrow.csv.CSVWriter(path, schema)
    return pyarrow.parquet.ParquetWriter(path, schema)


def _flat(table: Any) -> Any:
    """Return a table in which a list of several answers is a text: a CSV file has no lists."""
    import pyarrow as pa

    for place, name in enumerate(table.column_names):
        if pa.types.is_list(table.column(place).type):
            table = table.set_column(
                place, name, pa.array([json.dumps(each) for each in table.column(place).to_pylist()])
            )
    return table
