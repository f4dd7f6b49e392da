"""Data sets from the named columns of a table, in a file or a data frame: numbers, pictures or lists of numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedlearn.core.errors import DataNotFound, UsageError, said
from fedlearn.data.data_folder import identity
from fedlearn.data.dataset import Dataset
from fedlearn.data.entries import Arrays
from fedlearn.data.kept_arrays import dataset_at, with_facts
from fedlearn.data.reading import ending_of, one_line_errors
from fedlearn.data.sources.array_source import from_arrays
from fedlearn.data.sources.as_arrays import by_text, columns_of, named_columns
from fedlearn.data.sources.column_values import Columns, columns_of_frame
from fedlearn.data.sources.declared import TEST_SHARE, Declared, Given
from fedlearn.data.sources.declared_tables import (
    Bounds,
    Categories,
    declared_file,
    declared_frame,
    schema_by_keywords,
)
from fedlearn.data.sources.fitting import with_counted
from fedlearn.data.sources.images import Size
from fedlearn.data.sources.named import Chosen, listed
from fedlearn.data.sources.table_files import (
    ENDINGS,
    Dialect,
    Labels,
    names_in,
    other_delimiter,
    place_of,
    read_table,
    with_words,
)

Range = tuple[float, float]
KINDS = "kinds of its columns"  # one cell that is no number makes a column of texts
MOST_NAMES = 20  # of columns in an error
READING = 5  # version of what cells and columns mean: a new number makes every cached table unknown


@one_line_errors
def from_table(
    file: str | Path,
    *,
    target: str | Sequence[str] = "",
    targets: Sequence[str] = (),
    inputs: str | Sequence[str] | None = None,
    without: str | Sequence[str] = (),
    groups: str | None = None,
    test: str | Path | None = None,
    classes: int | tuple[str, ...] | None = None,
    regression: bool = False,
    size: Size | None = None,
    test_share: float = TEST_SHARE,
    bounds: Bounds | None = None,
    categories: Categories | None = None,
    target_bounds: Range | Mapping[str, Range] | None = None,
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
    targets
        Several columns to be learned, in place of `target`: numbers, or labels, of which an example may have several.
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
    bounds, categories
        Declare the table, as a .toml file does, so that values may be missing and columns may hold words: the (low,
        high) of each column of numbers, also (low, high, "log"), and the categories of each other column. They name all
        columns that are learned from.
    target_bounds
        The (low, high) of the target of a declared table, or of each of several by its name; or give `classes`.
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
    dialect = Dialect(delimiter, decimal, encoding)
    dialect.check()
    if not (target or targets):
        raise _without_target(path, names_in(path, dialect))
    chosen = Chosen.of(listed(path, target, targets), inputs, without, groups, regression=regression, size=size)
    schema = schema_by_keywords(
        str(path), learned=chosen.targets, bounds=bounds or {}, categories=categories or {},
        target_bounds=target_bounds, classes=classes, groups=chosen.groups, **chosen.undeclared,
    )  # fmt: skip
    if schema is not None:
        return declared_file(path, test_path, schema, dialect, test_share=test_share, groups=chosen.groups)

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
        several = {"target_names": chosen.targets} if len(chosen.targets) > 1 else {}
        return with_facts(train, test_rows, {**facts, **left_out, **several, **named_columns(names)})

    files = identity(*(each for each in (path, test_path) if each is not None))
    key = f"{files}\n{chosen} {dialect} {classes=} {test_share=} {READING=}"
    found = dataset_at(str(path), "table-file", key, make)
    return with_counted(found, classes=classes, vocabulary=None, has_test=test is not None, also=[KINDS])


@one_line_errors
def from_frame(
    frame: Any,
    test: Any = None,
    *,
    target: str | Sequence[str] = "",
    targets: Sequence[str] = (),
    inputs: str | Sequence[str] | None = None,
    without: str | Sequence[str] = (),
    groups: str | None = None,
    classes: int | Sequence[str] | None = None,
    regression: bool = False,
    size: Size | None = None,
    test_share: float = TEST_SHARE,
    bounds: Bounds | None = None,
    categories: Categories | None = None,
    target_bounds: Range | Mapping[str, Range] | None = None,
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
    target, targets, inputs, without, groups, classes, regression, size, test_share, bounds, categories, target_bounds
        As in `from_table`.

    Examples
    --------
    >>> import pandas as pd
    >>> people = pd.DataFrame({"age": [30.0, None], "job": ["nurse", "clerk"], "sick": ["no", "yes"]})
    >>> jobs = {"job": ["clerk", "nurse"]}
    >>> table = from_frame(people, target="sick", bounds={"age": (0, 120)}, categories=jobs, classes=["no", "yes"])
    >>> table.spec.table.features
    ('age', 'job')
    """
    if isinstance(frame, Mapping) and any(map(columns_of, frame.values())):
        each = "{'west': from_frame(west, ...), 'east': from_frame(east, ...)}"
        raise UsageError(f"{name}: these are frames of several clients: give fedlearn.run(data={each})")
    learned = listed(name, target, targets)
    chosen = Chosen.of(learned, inputs, without, groups, regression=regression, size=size)
    schema = schema_by_keywords(
        name, learned=chosen.targets, bounds=bounds or {}, categories=categories or {},
        target_bounds=target_bounds, classes=classes, groups=chosen.groups, **chosen.undeclared,
    )  # fmt: skip
    if schema is not None:
        return declared_frame(frame, test, schema, test_share=test_share, name=name, groups=chosen.groups)
    given = frame_arrays(
        frame, test, target=learned, inputs=inputs, without=without, groups=groups, regression=regression, size=size,
        name=name, classes=classes,
    )  # fmt: skip
    return from_arrays(**given, classes=classes, test_share=test_share, name=name)


def frame_arrays(
    frame: Any,
    test: Any = None,
    *,
    target: str | Sequence[str],
    inputs: str | Sequence[str] | None = None,
    without: str | Sequence[str] = (),
    groups: str | None = None,
    regression: bool = False,
    size: Size | None = None,
    name: str,
    classes: int | Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return X, y, groups and those of the rows for testing, keywords of `from_arrays`; X is a frame of its columns.

    Several targets are a frame, too, which has their names.
    """
    chosen = Chosen.of(listed(name, target, ()), inputs, without, groups, regression=regression, size=size)
    parts = [
        columns_of_frame(each, part) for each, part in ((frame, name), (test, f"{name}, test")) if each is not None
    ]
    chosen.check_without(parts[0].names, name)
    names = chosen.names_in(parts[0])
    given: dict[str, Any] = {}
    for ending, part in zip(("", "_test"), parts, strict=False):
        X, y, owners = _by_name(chosen.taken(part, names), classes)
        given |= {f"X{ending}": _named(X, names), f"y{ending}": _named(y, chosen.targets), f"groups{ending}": owners}
    return given


def _by_name(given: Given, classes: int | Sequence[str] | None) -> Given:
    X, y, groups = given
    return X, by_text(y, classes), groups


def _named(X: NDArray[Any], names: Sequence[str]) -> Any:
    """Return columns of numbers as a data frame, which has their names; pictures and lists stay an array."""
    import pandas as pd

    return pd.DataFrame(X, columns=list(names)) if X.ndim == 2 and X.shape[1] == len(names) else X


def _without_target(path: Path, names: Sequence[str]) -> UsageError:
    if advice := other_delimiter(names):
        return UsageError(f"{path} cannot be read{advice}")
    shown = ", ".join(map(said, names[:MOST_NAMES])) + ", ..." * (len(names) > MOST_NAMES)
    return UsageError(
        f"{path}: which column is learned? Write --set data.options.target=COLUMN, or several as data.options.targets; "
        f"its columns are {shown}"
    )


def _found(path: Path) -> Path:
    if ending_of(path) not in ENDINGS:
        raise UsageError(
            f"{path}: a table is a file that ends in {', '.join(ENDINGS)} or .csv.gz, .csv.bz2, .csv.xz, .zip"
        )
    if not path.is_file():
        raise DataNotFound(f"{path}: there is no such file")
    return path


def columns_of_file(path: Path, dialect: Dialect, wanted: Collection[str] | None, labels: Labels) -> Columns:
    """Return the columns of a file; `wanted` are the only ones that are read, `labels` those that may be texts."""
    table = read_table(path, dialect, wanted)
    if ending_of(path) != ".parquet":
        table = with_words(path, table, dialect, labels)
    return Columns.of(str(path), ending_of(path), table, lambda row: place_of(path, row, dialect), labels)
