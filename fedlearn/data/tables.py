"""Tables from CSV and Parquet files, and the small TOML file that declares what is public about one.

```toml
data = "houses.csv"            # or .parquet; beside this file, unless the path is absolute
target = "price"
target_bounds = [0, 500_000]   # of a regression; in a classification: classes = ["no", "yes"]

[bounds]                       # numeric features; "log" for heavy tails
age = [0, 120]
income = [1, 1_000_000, "log"]

[categories]                   # categorical features
job = ["clerk", "farmer", "other"]
```

Columns that are not named are not used. What is missing, no number, or no declared category, is NaN; a row without a
target, or with a class that is not declared, is left out. What was lost so is said to the owner of the data
(`Dataset.owner_notices`), and no cell makes reading fail.

Some fifth of the rows is for testing, whatever the run's seed: each row draws its part by itself (`drawing.py`), so
that one row more moves no other. The rows for testing are as private as the others, unless ``test = "public.csv"``
names a file of public ones: then all rows of ``data`` are trained on.
"""

from __future__ import annotations

import csv
import io
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedlearn.data.base import Examples, TableSchema
from fedlearn.data.cache import Arrays, cached
from fedlearn.data.dataset import Dataset
from fedlearn.data.drawing import drawn, share_held_out
from fedlearn.data.folder import data_folder, identity, one_line
from fedlearn.data.reading import check_unpacked, size_of, text_of, through_the_door
from fedlearn.data.sources.columns import unpacked_size
from fedlearn.words.errors import DataNotFound, UsageError

TEST_SHARE = 0.2
SPLIT_SEED = 20  # of the test split; fixed, so that runs of all seeds are tested on the same rows
READING = 2  # what cells mean; a new number makes every table that is kept unknown
MISSING = {"", "?", "NA", "N/A", "NaN", "nan", "null", "None"}  # texts, unless a category is declared so
EXAMPLES = 3  # that a line shows of what was lost
MISSED, DROPPED = "they count as missing", "their rows are left out"
NAMES = 20  # of columns that a line shows
LINES = 10  # that are said of one table
SAID = "said"  # array with the JSON text of these lines
NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
LARGEST_BLOCK = 2**31 - 1  # bytes that Arrow reads at once

Columns = dict[str, NDArray[Any]]
"""Column -> values: float64, or objects: texts or None of categories and classes; numbers and the texts of cells that
are none."""


# --- the schema -------------------------------------------------------------------------------------------------------

Number = Annotated[float, Field(allow_inf_nan=False)]
Pair = tuple[Number, Number]


class _SchemaFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str
    test: str = ""
    target: str
    target_bounds: Pair | None = None
    classes: tuple[str, ...] = ()
    bounds: dict[str, Pair | tuple[Number, Number, Literal["linear", "log"]]] = {}
    categories: dict[str, Annotated[tuple[str, ...], Field(min_length=1)]] = {}

    @model_validator(mode="after")
    def _is_whole(self) -> _SchemaFile:
        if (self.target_bounds is None) == (len(self.classes) < 2):
            raise ValueError("declare either target_bounds (a regression) or classes (at least two)")
        names = [self.target, *self.bounds, *self.categories]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{', '.join(twice)} is declared twice")
        if len(names) == 1:
            raise ValueError("declare at least one feature, in [bounds] or [categories]")
        pairs = {"target_bounds": self.target_bounds or (0.0, 1.0), **self.bounds}
        for name, (low, high, *scale) in pairs.items():
            if not low < high or (scale == ["log"] and low <= 0):
                raise ValueError(f'{name} = [{low}, {high}]: the lower bound comes first; with "log" it is above 0')
        return self


def read_schema(path: Path) -> tuple[Path, Path | None, TableSchema]:
    """Return where the data are, where public rows for testing are, if anywhere, and what is declared about both.

    Raises
    ------
    DataNotFound
        Where there is no such file.
    UsageError
        Where it says something wrong; in one line.
    """
    try:
        found = _SchemaFile.model_validate(tomllib.loads(text_of(path)))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not valid TOML: {one_line(error)}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][:2])
        said = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{path}: {f'{where}: ' if where else ''}{said}") from None
    schema = TableSchema(found.target, found.bounds, found.categories, found.target_bounds, found.classes)
    return path.parent / found.data, path.parent / found.test if found.test else None, schema


@through_the_door
def load_schema_file(name: str, data_dir: str) -> Dataset:
    """Return the table that a TOML file describes; looked for here, then in the data folder."""
    path = Path(name).expanduser()
    if not path.is_absolute() and not path.exists():
        folder, _ = data_folder(data_dir, wanted=name)
        path = folder / path if folder is not None else path
    path = path.absolute()
    data, test, schema = read_schema(path)
    files = [data] if test is None else [data, test]
    for file in files:
        if not file.is_file():
            raise DataNotFound(f"{path}: there is no file {file}")
    return table_dataset(
        str(path),
        schema,
        identity(*files),
        lambda: read_columns(data, schema),
        read_test=None if test is None else lambda: read_columns(test, schema),
    )


# --- the data ---------------------------------------------------------------------------------------------------------


def table_dataset(
    name: str,
    schema: TableSchema,
    key: str,
    read: Callable[[], Columns],
    *,
    read_test: Callable[[], Columns] | None = None,
    is_published: bool = False,
) -> Dataset:
    """Return a table from the cache, or from what `read` returns.

    Parameters
    ----------
    key
        Tells one version of the columns from another.
    read_test
        Returns the columns of public rows for testing; without it a share of the rows is held out.
    is_published
        Whether everybody has the table: then the rows that are held out are public, and nothing is said of its cells.
    """
    share = 0.0 if read_test else share_held_out(TEST_SHARE)
    whole_key = f"{key}\n{schema!r}\nreading {READING}, test {share} by each record with seed {SPLIT_SEED}"

    def make() -> Arrays:
        rows, said = encoded(read(), schema)
        if read_test is None:
            train, test, of_shares = _split(rows, share)
            return _arrays(train, test, [*said, *of_shares])
        test, of_test = encoded(read_test(), schema)
        return _arrays(rows, test, [*said, *(f"test rows: {line}" for line in of_test)])

    entry = cached("table", whole_key, make)
    train, test = (
        Examples(entry.arrays[f"{part}_features"], entry.arrays[f"{part}_targets"]) for part in ("train", "test")
    )
    lines = json.loads(entry.arrays[SAID].tobytes())
    more = [f"and {len(lines) - LINES:,} more such lines"] if len(lines) > LINES else []
    said = () if is_published else tuple(f"{name}: {line}" for line in [*lines[:LINES], *more])
    is_public = is_published or read_test is not None
    return Dataset.of_table(name, train, test, schema, entry.content, owner_notices=said, test_is_public=is_public)


def _arrays(train: Examples, test: Examples, said: list[str]) -> Arrays:
    return {
        "train_features": train.inputs, "train_targets": train.targets,
        "test_features": test.inputs, "test_targets": test.targets,
        SAID: np.frombuffer(json.dumps(said).encode(), np.uint8),
    }  # fmt: skip


def _split(rows: Examples, share: float) -> tuple[Examples, Examples, list[str]]:
    """Return the rows to train on, those to test on, each in their order, and a line where the shares are odd."""
    is_test = drawn(rows, seed=SPLIT_SEED, purpose="test split") < share
    held_out, count = int(is_test.sum()), len(rows)
    by_chance = 4 * (share * (1 - share) * count) ** 0.5
    odd = abs(held_out - share * count) > by_chance or (count > 0 and share > 0 and not held_out)
    said = (
        f"{held_out:,} of {count:,} rows are for testing, as equal rows draw one part: scores on them say little, and "
        "rows of another file can be declared for testing (test = FILE)"
    )
    return rows.at(np.flatnonzero(~is_test)), rows.at(np.flatnonzero(is_test)), [said] if odd else []


def encoded(columns: Columns, schema: TableSchema) -> tuple[Examples, list[str]]:
    """Return the rows that have a target, and a line for each kind of cell that is not what was declared."""
    said: list[str] = []
    features = [
        _codes(name, columns[name], schema.categories[name], said)
        if name in schema.categories
        else _within(name, columns[name], schema.bounds[name][:2], said)
        for name in schema.features
    ]
    target = columns[schema.target]
    if schema.classes:
        values = _codes(schema.target, target, schema.classes, said, DROPPED)
    else:
        assert schema.target_bounds is not None
        values = _within(schema.target, target, schema.target_bounds, said, DROPPED)
    absent = np.isnan(values)
    if absent.any():
        said.append(
            f"{int(absent.sum()):,} of {len(values):,} rows are left out, as they have no {schema.target} that is "
            f"declared, or not as many cells as the header; the first is row {int(np.flatnonzero(absent)[0]) + 1:,}"
        )
    if absent.all():
        said.append("no row is left")
    inputs = np.ascontiguousarray(np.column_stack(features)[~absent].astype(np.float64, copy=False))
    return Examples(inputs, values[~absent].astype(np.int64 if schema.classes else np.float64)), said


def _codes(
    name: str, values: NDArray[Any], known: Sequence[str], said: list[str], so: str = MISSED
) -> NDArray[np.float64]:
    """Return the place of each value among the known ones; NaN for any other, which are counted."""
    place = {_plain(text): float(code) for code, text in enumerate(known)}
    place |= {text: float(code) for code, text in enumerate(known)}
    codes = {None: np.nan} | {
        text: place.get(text, place.get(_plain(text), np.nan)) for text in set(values.tolist()) - {None}
    }
    counts = Counter(values.tolist())
    is_missing = {text: text is None or (np.isnan(code) and _plain(text) in MISSING) for text, code in codes.items()}
    strangers = {text: counts[text] for text, code in codes.items() if np.isnan(code) and not is_missing[text]}
    present = sum(count for text, count in counts.items() if not is_missing[text])
    _say(name, "values", present, strangers, "is declared", "are not declared", said, so)
    return np.array([codes[text] for text in values.tolist()], np.float64)


def _plain(text: str) -> str:
    """Return a category as it is compared: without blanks around it, and 1 for 1.0.

    >>> [_plain(text) for text in (" clerk", "1.0", "1.50")]
    ['clerk', '1', '1.50']
    """
    return re.sub(r"^([+-]?\d+)\.0*$", r"\1", text.strip())


def _within(
    name: str, values: NDArray[Any], bounds: Sequence[float], said: list[str], so: str = MISSED
) -> NDArray[np.float64]:
    """Return numbers, NaN for what is none; it is counted, and so is what lies outside the bounds."""
    texts = Counter(value for value in values.tolist() if isinstance(value, str)) if values.dtype == object else {}
    if values.dtype == object:
        values = np.array([np.nan if isinstance(value, str) else value for value in values.tolist()], np.float64)
    infinite = int(np.isinf(values).sum())
    numbers = np.where(np.isfinite(values), values, np.nan).astype(np.float64)
    lost = Counter(texts) + Counter({"inf": infinite} if infinite else {})
    present = int(np.isfinite(numbers).sum())
    _say(name, "cells", present + sum(lost.values()), lost, "is a number", "are no numbers", said, so)
    low, high = bounds
    outside = numbers[(numbers < low) | (numbers > high)]
    beyond = Counter(f"{value:g}" for value in outside.tolist())
    span = f"[{low:g}, {high:g}]"
    _say(name, "numbers", present, beyond, f"lies within {span}", f"lie outside {span}", said, "they count as its ends")
    return numbers


def _say(
    name: str, things: str, present: int, lost: dict[Any, int], is_so: str, are_not: str, said: list[str], so: str
) -> None:
    """Add a line with the number of lost cells and the most frequent ones, if any cell was lost."""
    number = sum(lost.values())
    if number:
        most = sorted(lost, key=lambda text: (-lost[text], text))[:EXAMPLES]
        shown = ", ".join(repr(text[:40]) for text in most) + (", ..." if len(lost) > EXAMPLES else "")
        which = (
            f"none of {present:,} {things} {is_so}"
            if number == present
            else f"{number:,} of {present:,} {things} {are_not}"
        )
        said.append(f"{name}: {which} ({shown}): {so}")


# --- files ------------------------------------------------------------------------------------------------------------


def read_columns(path: Path, schema: TableSchema) -> Columns:
    """Return the declared columns of a CSV or Parquet file; no cell or line makes it fail.

    Raises
    ------
    UsageError
        Where the file is none, or has not the columns that are declared; in one line.
    """
    import pyarrow as pa
    import pyarrow.parquet

    names = [*schema.features, schema.target]
    texts = {*schema.categories, *([schema.target] if schema.classes else [])}
    size_of(path)  # a regular file, without holes that would take all memory
    try:
        if path.suffix == ".parquet":
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
    """Return columns of bytes; a line that is no row, as by a quote that nothing closes, is a row of empty cells."""
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
        # One block: a row may not depend on where another one happens to be cut.
        read_options=pa.csv.ReadOptions(column_names=found, block_size=min(len(body) + 1, LARGEST_BLOCK)),
        convert_options=pa.csv.ConvertOptions(include_columns=names, column_types=dict.fromkeys(names, pa.binary())),
    )


def _cells(line: bytes) -> int:
    """Return how many cells a line has by itself; 0 where a quote is not closed."""
    if b'"' not in line:
        return line.count(b",") + 1
    try:
        return len(next(csv.reader([line.decode("latin-1")], strict=True)))
    except csv.Error:
        return 0


def _values(column: Any) -> Any:
    """Return a column whose values are kept as they are, not as places among categories."""
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _is_text(column: Any) -> bool:
    import pyarrow.types as kinds

    texts = (kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary)
    return any(is_one(column.type) for is_one in texts)


def _texts_of(column: Any) -> NDArray[Any]:
    """Return texts, None where there is none."""
    import pyarrow as pa

    if not _is_text(column):
        return np.array(column.cast(pa.string()).to_pylist(), object)
    found = column.cast(pa.binary()).to_pylist()  # not every cell need be UTF-8
    return np.array([None if cell is None else cell.decode(errors="replace") for cell in found], object)


def _numbers_of(column: Any) -> NDArray[Any]:
    """Return float64; objects where some cells are no numbers, their texts in place of these."""
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
