"""Data sets from the named columns of a table, in a file or a data frame: numbers, pictures or lists of numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.data.dataset import Dataset
from fedlearn.data.entries import Arrays
from fedlearn.data.folder import identity
from fedlearn.data.naming import plain_name
from fedlearn.data.reading import ending_of, one_line_errors
from fedlearn.data.sources.arrays import from_arrays
from fedlearn.data.sources.as_arrays import by_text, named_columns
from fedlearn.data.sources.column_values import FRAME, Columns, labels_of, values_of
from fedlearn.data.sources.declared import TEST_SHARE, Declared, Given
from fedlearn.data.sources.fitting import with_counted
from fedlearn.data.sources.images import Size
from fedlearn.data.sources.table_files import ENDINGS, Dialect, Labels, names_in, place_of, read_table, with_words
from fedlearn.data.stored import dataset_at, with_facts
from fedlearn.words.errors import DataNotFound, UsageError

KINDS = "kinds of its columns"  # one cell that is no number makes a column of texts
READING = 5  # version of what cells and columns mean: a new number makes every cached table unknown


@one_line_errors
def from_table(
    file: str | Path,
    *,
    target: str,
    inputs: str | Sequence[str] | None = None,
    without: str | Sequence[str] = (),
    groups: str | None = None,
    test: str | Path | None = None,
    classes: int | tuple[str, ...] | None = None,
    regression: bool = False,
    size: Size | None = None,
    test_share: float = TEST_SHARE,
    delimiter: str = "",
    decimal: str = ".",
    encoding: str = "utf-8",
) -> Dataset:
    """Return the rows of a CSV or Parquet file as a data set.

    Parameters
    ----------
    file
        Path that ends in .csv, .tsv or .parquet, in small letters or capitals; a CSV file may be compressed: .csv.gz,
        .csv.bz2, .csv.xz, or a .zip of one table.
    target
        The column to be learned: texts or integers are classes, other numbers a regression.
    inputs
        The columns learned from: columns of numbers; or one column of pictures (encoded bytes, as on the Hugging Face
        Hub) or of lists of numbers, all of one length. Unless given, all other columns but a column of row numbers, as
        pandas writes one. Columns that are not wanted are not read.
    without
        Columns that are left out, where `inputs` is not given.
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
    delimiter
        The character between the cells of a CSV file, as ``";"``, or ``"tab"``; unless given, a comma, in .tsv a tab.
    decimal
        The character before the decimals of numbers in a CSV file: ``"."`` or ``","``.
    encoding
        Encoding of a CSV file, as ``"cp1252"``, ``"latin-1"`` or ``"utf-16"``.

    Raises
    ------
    UsageError
        With the file, the column, the first wrong row, and the values that are allowed.
    """
    path = _found(Path(file).expanduser().absolute())
    test_path = None if test is None else _found(path.parent / Path(test).expanduser())
    chosen = _Chosen.of(target, inputs, without, groups, regression=regression, size=size)
    dialect = Dialect(delimiter, decimal, encoding)
    dialect.check()

    def make() -> Arrays:
        declared = Declared(str(path), classes=classes)
        labels = chosen.labels(classes)
        table = columns_of_file(path, dialect, chosen.wanted(path, dialect), labels)
        names = chosen.names_in(table)
        held_out: Given = (None, None, None)
        if test_path is not None:
            of_test = columns_of_file(test_path, dialect, {*labels, *names}, labels)
            held_out = _by_name(chosen.taken(of_test, names), classes)
        rows = _by_name(chosen.taken(table, names), classes)
        train, test_rows, facts = declared.checked(rows, held_out, test_share=test_share)
        index = table.index if table.index not in names and not chosen.inputs else None
        left_out = {} if index is None else {"notice": f"{path}: its column {index!r} of row numbers is left out"}
        return with_facts(train, test_rows, {**facts, **left_out, **named_columns(names)})

    files = identity(*(each for each in (path, test_path) if each is not None))
    key = f"{files}\n{chosen} {dialect} {classes=} {test_share=} {READING=}"
    found = dataset_at(str(path), "table-file", key, make)
    return with_counted(found, classes=classes, vocabulary=None, has_test=test is not None, also=[KINDS])


@one_line_errors
def from_frame(
    frame: Any,
    test: Any = None,
    *,
    target: str,
    inputs: str | Sequence[str] | None = None,
    without: str | Sequence[str] = (),
    groups: str | None = None,
    classes: int | Sequence[str] | None = None,
    regression: bool = False,
    size: Size | None = None,
    test_share: float = TEST_SHARE,
    name: str = "frame",
) -> Dataset:
    """Return the rows of a data frame as a data set, by the rules of `from_table`.

    Parameters
    ----------
    frame, test
        Frames of pandas or polars, or tables of Arrow: of rows to train on, and of rows for testing. Columns are found
        by their names in both.
    name
        Name in messages and results.
    target, inputs, without, groups, classes, regression, size, test_share
        As in `from_table`.
    """
    given = frame_arrays(
        frame, test, target=target, inputs=inputs, without=without, groups=groups, regression=regression, size=size,
        name=name,
    )  # fmt: skip
    for y in {"y", "y_test"} & given.keys():
        given[y] = by_text(given[y], classes)
    return from_arrays(**given, classes=classes, test_share=test_share, name=name)


def frame_arrays(
    frame: Any,
    test: Any = None,
    *,
    target: str,
    inputs: str | Sequence[str] | None = None,
    without: str | Sequence[str] = (),
    groups: str | None = None,
    regression: bool = False,
    size: Size | None = None,
    name: str,
) -> dict[str, Any]:
    """Return X, y, groups and those of the rows for testing, keywords of `from_arrays`; X is a frame of its columns."""
    chosen = _Chosen.of(target, inputs, without, groups, regression=regression, size=size)
    parts = [
        columns_of_frame(each, part) for each, part in ((frame, name), (test, f"{name}, test")) if each is not None
    ]
    chosen.check_without(parts[0].names, name)
    names = chosen.names_in(parts[0])
    given: dict[str, Any] = {}
    for ending, part in zip(("", "_test"), parts, strict=False):
        X, y, owners = chosen.taken(part, names)
        given |= {f"X{ending}": _named(X, names), f"y{ending}": y, f"groups{ending}": owners}
    return given


def _by_name(given: Given, classes: int | Sequence[str] | None) -> Given:
    X, y, groups = given
    return X, by_text(y, classes), groups


def _named(X: NDArray[Any], names: Sequence[str]) -> Any:
    """Return columns of numbers as a data frame, which has their names; pictures and lists stay an array."""
    import pandas as pd

    return pd.DataFrame(X, columns=list(names)) if X.ndim == 2 and X.shape[1] == len(names) else X


def _found(path: Path) -> Path:
    if ending_of(path) not in ENDINGS:
        raise UsageError(
            f"{path}: a table is a file that ends in {', '.join(ENDINGS)} or .csv.gz, .csv.bz2, .csv.xz, .zip"
        )
    if not path.is_file():
        raise DataNotFound(f"{path}: there is no such file")
    return path


@dataclass(frozen=True, slots=True)
class _Chosen:
    target: str
    inputs: tuple[str, ...]
    without: tuple[str, ...]
    groups: str | None
    regression: bool
    size: Size | None

    @classmethod
    def of(
        cls,
        target: str,
        inputs: str | Sequence[str] | None,
        without: str | Sequence[str],
        groups: str | None,
        *,
        regression: bool,
        size: Size | None,
    ) -> _Chosen:
        """Return the choice that a user's options make; names are without blanks around them."""
        named, left_out = (
            tuple(plain_name(each) for each in ((given,) if isinstance(given, str) else given or ()))
            for given in (inputs, without)
        )
        if named and left_out:
            raise UsageError("inputs and without are both given: inputs names all columns that are learned from")
        return cls(plain_name(target), named, left_out, plain_name(groups) if groups else None, regression, size)

    @property
    def special(self) -> set[str]:
        """The names of the columns that are not learned from."""
        return {self.target, *([self.groups] if self.groups else [])}

    def labels(self, classes: int | Sequence[str] | None) -> dict[str, tuple[str, ...]]:
        """Return the names of the columns that are not learned from, with the names of their classes, if declared."""
        names = () if classes is None or isinstance(classes, int) else tuple(classes)
        return {name: names if name == self.target else () for name in self.special}

    def wanted(self, path: Path, dialect: Dialect) -> set[str] | None:
        """Return the columns of a file that are read; None: all."""
        if self.without:
            names = [plain_name(name) for name in names_in(path, dialect)]
            self.check_without(names, path)
            return {*names} - {*self.without}
        return {*self.inputs, *self.special} if self.inputs else None

    def check_without(self, names: Sequence[str], where: str | Path) -> None:
        """Refuse to leave out a column that is not there, or the column that is learned."""
        if wrong := next((name for name in self.without if name not in names or name in self.special), None):
            text = "is learned or says the groups" if wrong in self.special else "is none of its columns"
            raise UsageError(f"{where}: without = {wrong!r}: it {text}")

    def names_in(self, table: Columns) -> tuple[str, ...]:
        """Return the names of the columns to learn from."""
        no_inputs = {*self.special, *self.without, table.index}
        return self.inputs or tuple(name for name in table.names if name not in no_inputs)

    def taken(self, table: Columns, names: tuple[str, ...]) -> Given:
        """Return X, y and groups from the columns of a table."""
        path = table.name
        table.check([self.target, *([self.groups] if self.groups else []), *names])
        if not names or not table.rows:
            raise UsageError(f"{path} has no {'rows' if names else 'columns to learn from'}")
        columns = [values_of(table, name, self.size) for name in names]
        if len(columns) > 1 and any(column.ndim > 1 for column in columns):
            raise UsageError(f"{path}: a column of pictures or lists must be the only input: name it by inputs")
        with np.errstate(over="ignore"):  # what float32 does not hold is refused by its row
            X = columns[0] if columns[0].ndim > 1 else np.column_stack([each.astype(np.float32) for each in columns])
        y = labels_of(table, self.target)
        groups = None if self.groups is None else labels_of(table, self.groups)
        return X, y.astype(np.float64) if self.regression else y, groups


def columns_of_file(path: Path, dialect: Dialect, wanted: Collection[str] | None, labels: Labels) -> Columns:
    """Return the columns of a file; `wanted` are the only ones that are read, `labels` those that may be texts."""
    table = read_table(path, dialect, wanted)
    if ending_of(path) != ".parquet":
        table = with_words(path, table, dialect, labels)
    return Columns.of(str(path), ending_of(path), table, lambda row: place_of(path, row, dialect), labels)


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
