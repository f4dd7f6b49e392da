"""The small TOML file that declares what is public about a table.

```toml
data = "houses.csv"            # or .parquet; beside this file, unless the path is absolute
target = "price"
target_bounds = [0, 500_000]   # of a regression; in a classification: classes = ["no", "yes"]
# several: targets = ["price", "rent"] with target_bounds = { price = [0, 500_000], rent = [0, 5_000] }, or with classes

[bounds]                       # numeric features; "log" for heavy tails
age = [0, 120]
income = [1, 1_000_000, "log"]

[categories]                   # categorical features
job = ["clerk", "farmer", "other"]
```

Columns that are not named are not used. A CSV file may be written otherwise, and compressed: ``delimiter = ";"``,
``decimal = ","`` and ``encoding = "cp1252"`` hold for all files. ``test = "public.csv"`` names public rows for testing,
``validation = "chosen.csv"`` beside it public validation rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedlearn.config.syntax import parsed
from fedlearn.core.errors import UsageError
from fedlearn.data.data_spec import TableSchema
from fedlearn.data.naming import in_one_form
from fedlearn.data.reading import text_of
from fedlearn.data.sources.table_files import Dialect
from fedlearn.plugins.ranges import first_wrong

Number = Annotated[float, Field(allow_inf_nan=False)]
Pair = tuple[Number, Number]
FILES = ("data", "test", "validation")


class _SchemaFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str
    test: str = ""
    validation: str = ""
    target: str = ""
    targets: tuple[str, ...] = ()
    target_bounds: Pair | dict[str, Pair] | None = None
    classes: tuple[str, ...] = ()
    bounds: dict[str, Pair | tuple[Number, Number, Literal["linear", "log"]]] = {}
    categories: dict[str, Annotated[tuple[str, ...], Field(min_length=1)]] = {}
    delimiter: str = ""
    decimal: str = "."
    encoding: str = "utf-8"

    @model_validator(mode="after")
    def _is_whole(self) -> _SchemaFile:
        if wrong := wrong_validation(self.data, self.test, self.validation):
            raise ValueError(wrong)
        if bool(self.target) == bool(self.targets) or len(self.targets) == 1:
            raise ValueError("declare either target (one column) or targets (several)")
        if (self.target_bounds is None) == (len(self.classes) < 2):
            raise ValueError("declare either target_bounds (a regression) or classes (at least two)")
        if self.target_bounds is not None and {*self._ranges} != {*self._learned}:
            raise ValueError("target_bounds: give [low, high] of one target, NAME = [low, high] of each of several")
        names = [*self._learned, *self.bounds, *self.categories]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{', '.join(twice)} is declared twice")
        if len(names) == len(self._learned):
            raise ValueError("declare at least one feature, in [bounds] or [categories]")
        of = " of {}" if self.targets else ""
        pairs = {**{f"target_bounds{of.format(name)}": each for name, each in self._ranges.items()}, **self.bounds}
        for name, (low, high, *scale) in pairs.items():
            if not low < high or (scale == ["log"] and low <= 0):
                raise ValueError(f'{name} = [{low}, {high}]: the lower bound comes first; with "log" it is above 0')
        return self

    @property
    def _learned(self) -> tuple[str, ...]:
        return self.targets or (self.target,)

    @property
    def _ranges(self) -> dict[str, Pair]:
        given = self.target_bounds or {}
        return given if isinstance(given, dict) else dict.fromkeys(self._learned[:1], given)

    @property
    def table(self) -> TableSchema:
        several = {name: self._ranges.get(name) for name in self.targets}
        one = None if several else self._ranges.get(self.target)
        return TableSchema(self.target, self.bounds, self.categories, one, self.classes, several)


@dataclass(frozen=True, slots=True)
class DeclaredFiles:
    """The files that a declaration names, their schema, and how they are written.

    Parameters
    ----------
    data
        The rows to train on, and to test on where there are no others.
    test, validation
        Public rows for testing, and public validation rows; None where there are none.
    """

    data: Path
    test: Path | None
    validation: Path | None
    schema: TableSchema
    dialect: Dialect

    @property
    def all(self) -> list[Path]:
        """The files that are there."""
        return [each for each in (self.data, self.test, self.validation) if each is not None]


def wrong_validation(data: str, test: str, validation: str) -> str:
    """Return what is wrong with the validation rows that a file declares; empty if nothing is."""
    if validation and not test:
        return "validation: its rows choose, and those of test are reported: declare test = FILE, too"
    if validation and validation in (data, test):
        return f"validation = {validation!r}: rows that choose are neither trained on nor reported: name another file"
    return ""


def declared_schema(where: str | Path, **declared: Any) -> TableSchema:
    """Return the schema that keywords declare, by the rules of a file; categories and classes may be numbers.

    Raises
    ------
    UsageError
        If it is wrong; in one line that begins with `where`.
    """
    texts: dict[str, Any] = {"classes": _texts(declared.pop("classes", None) or ())}
    texts["categories"] = {name: _texts(each) for name, each in declared.pop("categories").items()}
    return _checked(where, {"data": "", **declared, **texts}).table


def _texts(given: Any) -> tuple[str, ...]:
    listed = () if isinstance(given, int) else (given,) if isinstance(given, str) else given
    return tuple(in_one_form(str(each)) for each in listed)


def _in_one_form(text: str) -> dict[str, Any]:
    """Return the content of a file with its names in one form; paths stay as they are written."""
    written, found = parsed(text), dict(parsed(in_one_form(text)))
    return found | {name: written[name] for name in FILES if name in written}


def read_schema(path: Path) -> DeclaredFiles:
    """Return the files that a TOML file declares, with their schema.

    Raises
    ------
    DataNotFound
        If there is no such file.
    UsageError
        If the file says something wrong; in one line.
    """
    try:
        found = _checked(path, _in_one_form(text_of(path)))
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None
    dialect = Dialect(found.delimiter, found.decimal, found.encoding)
    try:
        dialect.check()
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    test, validation = (path.parent / name if name else None for name in (found.test, found.validation))
    return DeclaredFiles(path.parent / found.data, test, validation, found.table, dialect)


def _checked(where: str | Path, declared: Mapping[str, Any]) -> _SchemaFile:
    try:
        return _SchemaFile.model_validate(declared)
    except ValidationError as error:
        raise UsageError(f"{where}: {first_wrong(error, _SchemaFile)}") from None
