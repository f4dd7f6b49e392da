"""The small TOML file that declares what is public about a table.

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

Columns that are not named are not used. A CSV file may be written otherwise, and compressed: ``delimiter = ";"``,
``decimal = ","`` and ``encoding = "cp1252"`` hold for `data` and `test`.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedlearn.data.base import TableSchema
from fedlearn.data.folder import one_line
from fedlearn.data.naming import in_one_form
from fedlearn.data.reading import text_of
from fedlearn.data.sources.table_files import Dialect
from fedlearn.words.errors import UsageError

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
    delimiter: str = ""
    decimal: str = "."
    encoding: str = "utf-8"

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


def _in_one_form(text: str) -> dict[str, Any]:
    """Return the content of a file with its names in one form; paths stay as they are written."""
    written = tomllib.loads(text)
    return tomllib.loads(in_one_form(text)) | {name: written[name] for name in ("data", "test") if name in written}


def read_schema(path: Path) -> tuple[Path, Path | None, TableSchema, Dialect]:
    """Return the path of the data, the path of public rows for testing or None, their schema and how they are written.

    Raises
    ------
    DataNotFound
        If there is no such file.
    UsageError
        If the file says something wrong; in one line.
    """
    try:
        found = _SchemaFile.model_validate(_in_one_form(text_of(path)))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not valid TOML: {one_line(error)}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][:2])
        text = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{path}: {f'{where}: ' if where else ''}{text}") from None
    schema = TableSchema(found.target, found.bounds, found.categories, found.target_bounds, found.classes)
    dialect = Dialect(found.delimiter, found.decimal, found.encoding)
    try:
        dialect.check()
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    return path.parent / found.data, path.parent / found.test if found.test else None, schema, dialect
