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

Columns that are not named are not used. What is missing, and a category that is not declared, is NaN; rows without a
target are left out. A fixed fifth of the rows, drawn by a seed of its own, is for testing, whatever the run's seed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedlearn.data.base import Examples, TableDataset, TableSchema
from fedlearn.data.cache import Arrays, cached
from fedlearn.data.folder import data_folder, identity, one_line
from fedlearn.data.reading import text_of, through_the_door
from fedlearn.errors import DataNotFound, UsageError
from fedlearn.seeding import rng_for

TEST_SHARE = 0.2
SPLIT_SEED = 20  # of the test split; fixed, so that runs of all seeds are tested on the same rows
MISSING = ["", "?", "NA", "N/A", "NaN", "nan", "null", "None"]  # in a CSV file

Columns = dict[str, NDArray[Any]]
"""Column -> values: float64, or objects (text or None) for categories and classes."""


# --- the schema -------------------------------------------------------------------------------------------------------

Number = Annotated[float, Field(allow_inf_nan=False)]
Pair = tuple[Number, Number]


class _SchemaFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str
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


def read_schema(path: Path) -> tuple[Path, TableSchema]:
    """Return where the data are and what is declared about them.

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
    return path.parent / found.data, schema


@through_the_door
def load_schema_file(name: str, data_dir: str) -> TableDataset:
    """Return the table that a TOML file describes; looked for here, then in the data folder."""
    path = Path(name).expanduser()
    if not path.is_absolute() and not path.exists():
        folder, _ = data_folder(data_dir, wanted=name)
        path = folder / path if folder is not None else path
    path = path.absolute()
    data, schema = read_schema(path)
    if not data.is_file():
        raise DataNotFound(f"{path}: there is no file {data}")
    return table_dataset(str(path), schema, identity(data), lambda: read_columns(data, schema))


# --- the data ---------------------------------------------------------------------------------------------------------


def table_dataset(name: str, schema: TableSchema, key: str, read: Callable[[], Columns]) -> TableDataset:
    """Return a table from the cache, or from what `read` returns.

    Parameters
    ----------
    key
        Tells one version of the columns from another.
    """
    whole_key = f"{key}\n{schema!r}\ntest {TEST_SHARE} by seed {SPLIT_SEED}"
    entry = cached("table", whole_key, lambda: _split(*encoded(read(), schema)))
    parts = {
        part: Examples(entry.arrays[f"{part}_features"], entry.arrays[f"{part}_targets"]) for part in ("train", "test")
    }
    return TableDataset(name, parts["train"], parts["test"], schema, entry.content)


def read_columns(path: Path, schema: TableSchema) -> Columns:
    """Return the declared columns of a CSV or Parquet file."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    text = [*schema.categories, *([schema.target] if schema.classes else [])]
    names = [*schema.features, schema.target]
    try:
        if path.suffix == ".parquet":
            table = pa.parquet.read_table(path)
        else:
            convert = pa.csv.ConvertOptions(
                null_values=MISSING, strings_can_be_null=True, column_types=dict.fromkeys(text, pa.string())
            )
            table = pa.csv.read_csv(path, convert_options=convert)
        if absent := [name for name in names if name not in table.column_names]:
            raise UsageError(f"{path} has no column {absent[0]!r}; it has {', '.join(table.column_names)}")
        columns: Columns = {}
        for name in names:
            if name in text:
                columns[name] = np.array(table[name].cast(pa.string()).to_pylist(), object)
            else:
                columns[name] = table[name].cast(pa.float64()).to_numpy().astype(np.float64)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} cannot be read as the table that was declared: {one_line(error)}") from error
    return columns


def encoded(columns: Columns, schema: TableSchema) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return features (rows, features) and targets (rows,), without the rows that have no target."""
    features = np.column_stack(
        [
            codes_of(columns[name], schema.categories[name]) if name in schema.categories else columns[name]
            for name in schema.features
        ]
    ).astype(np.float64, copy=False)
    if schema.classes:
        present = np.array([value is not None for value in columns[schema.target]])
        codes = codes_of(columns[schema.target], schema.classes)
        if strangers := {columns[schema.target][row] for row in np.flatnonzero(present & np.isnan(codes))}:
            raise UsageError(f"target {schema.target!r}: {min(strangers)!r} is none of the classes {schema.classes}")
        targets: NDArray[Any] = np.where(present, codes, 0).astype(np.int64)
    else:
        targets = columns[schema.target].astype(np.float64)
        present = np.isfinite(targets)
    if present.sum() < 2:
        raise UsageError(f"target {schema.target!r}: fewer than two rows have a value")
    return np.ascontiguousarray(features[present]), targets[present]


def codes_of(values: NDArray[Any], known: tuple[str, ...]) -> NDArray[np.float64]:
    """Return the place of each value among the known ones; NaN for any other, and for None."""
    place = {value: float(code) for code, value in enumerate(known)}
    return np.array([place.get(value, np.nan) for value in values], np.float64)


def _split(features: NDArray[np.float64], targets: NDArray[Any]) -> Arrays:
    count = len(targets)
    order = rng_for(SPLIT_SEED, purpose="test split").permutation(count)
    held_out = max(1, round(TEST_SHARE * count))
    test, train = np.sort(order[:held_out]), np.sort(order[held_out:])
    return {
        "train_features": features[train], "train_targets": targets[train],
        "test_features": features[test], "test_targets": targets[test],
    }  # fmt: skip
