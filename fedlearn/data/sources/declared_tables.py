"""Declared tables from keywords: bounds and categories of a frame or a file, in place of a TOML file that says them.

They are read as a file that a TOML file declares, so missing cells, undeclared categories and numbers outside of their
bounds mean the same. Test rows that are given beside a frame or file are as private as the others.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedlearn.core.errors import UsageError
from fedlearn.data.column_files import Columns, read_columns
from fedlearn.data.data_folder import identity
from fedlearn.data.data_spec import TableSchema
from fedlearn.data.dataset import Dataset
from fedlearn.data.drawing import share_held_out
from fedlearn.data.encoded_tables import encoded_arrays, table_at, table_dataset
from fedlearn.data.naming import plain_name
from fedlearn.data.packed_examples import hash_of
from fedlearn.data.schema_file import declared_schema
from fedlearn.data.sources.frame_columns import columns_named, declared_columns
from fedlearn.data.sources.table_files import Dialect

Bounds = Mapping[str, Sequence[Any]]
Categories = Mapping[str, Sequence[Any]]
log = logging.getLogger("fedlearn")


def schema_by_keywords(
    where: str, *, learned: Sequence[str], bounds: Bounds, categories: Categories, target_bounds: Any, classes: Any,
    groups: str | None, **others: Any,
) -> TableSchema | None:  # fmt: skip
    """Return the schema that keywords declare; None where they declare no columns.

    Parameters
    ----------
    others
        Keywords of tables that are not declared.

    Raises
    ------
    UsageError
        If the declaration is wrong, or a keyword goes with none.
    """
    if not (bounds or categories):
        if target_bounds is not None:
            raise UsageError(f"{where}: target_bounds: declare the columns that are learned from, too, by bounds=")
        return None
    if given := next((name for name, value in others.items() if value), None):
        raise UsageError(
            f"{where}: {given}: bounds and categories name all columns that are learned from: leave it out"
        )
    if groups in {*learned, *map(plain_name, bounds)}:
        raise UsageError(
            f"{where}: groups = {groups!r}: this column is declared as numbers, or is learned: name another"
        )
    several = len(learned) > 1
    by_name = isinstance(target_bounds, Mapping)
    return declared_schema(
        where,
        target="" if several else learned[0],
        targets=tuple(learned) if several else (),
        bounds={plain_name(name): tuple(each) for name, each in bounds.items()},
        categories={plain_name(name): each for name, each in categories.items()},
        target_bounds={plain_name(name): each for name, each in target_bounds.items()} if by_name else target_bounds,
        classes=classes,
    )


def declared_frame(
    frame: Any, test: Any, schema: TableSchema, *, test_share: float, name: str, groups: str | None = None
) -> Dataset:
    """Return a frame as a declared table; cells that are not as declared are said in a line each."""
    also = (groups,) if groups else ()
    rows, of_test = (None if each is None else _columns(each, schema, name, also) for each in (frame, test))
    assert rows is not None
    arrays = encoded_arrays(rows, of_test, schema, share_held_out(test_share), groups=groups or "")
    found = table_at(name, schema, f"{schema!r}\n{hash_of(arrays)}", lambda: arrays)
    for line in found.owner_notices:
        log.warning(line)
    return replace(found, owner_notices=())  # of exact counts, which would be stored with the run


def _columns(frame: Any, schema: TableSchema, name: str, also: Sequence[str]) -> Columns:
    names = (*schema.features, *schema.learned, *also)
    return declared_columns(columns_named(frame, names, name), names, schema, also=also)


def declared_file(
    path: Path,
    test: Path | None,
    schema: TableSchema,
    dialect: Dialect,
    *,
    test_share: float,
    groups: str | None = None,
) -> Dataset:
    """Return the rows of a CSV or Parquet file as a declared table."""
    also = (groups,) if groups else ()
    found = table_dataset(
        str(path),
        schema,
        f"{identity(*(each for each in (path, test) if each is not None))}\n{dialect}",
        lambda: read_columns(path, schema, dialect, also=also),
        read_test=None if test is None else lambda: read_columns(test, schema, dialect, also=also),
        test_share=test_share,
        groups=groups or "",
    )
    return replace(found, test_is_public=False)
