"""A first draft of the TOML file by which an owner declares data: read from the records, to be edited by the owner."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedlearn.core.errors import DataNotFound, UsageError
from fedlearn.data.reading import ending_of, one_line_errors
from fedlearn.data.sources.column_values import Columns
from fedlearn.data.sources.image_folder import from_folder
from fedlearn.data.sources.npz import from_npz
from fedlearn.data.sources.table_files import ENDINGS, Dialect, place_of, read_table

MOST_CLASSES = 20  # values of a target that are taken for classes
MOST_CATEGORIES = 100
DRAFT = """\
# A DRAFT: what stands here was read from the records. Whoever sees a run sees this file's values: replace each by what
# is publicly known, so that none of them tells of a record (0 to 120 for an age, whatever the oldest patient's is).
"""

Draft = dict[str, Any]


@one_line_errors
def draft_of(data: Path, *, target: str = "", dialect: Dialect | None = None) -> Draft:
    """Return what a declaration of a table, of arrays or of a folder of pictures could say.

    Parameters
    ----------
    data
        A .csv, .tsv, .parquet or .npz file, or a folder of pictures.
    target
        Column of a table that is learned.

    Raises
    ------
    UsageError
        If the file is of another kind, or a table's target is not given; then its columns are listed.
    """
    if not data.exists():
        raise DataNotFound(f"{data}: there is no such file or folder: give the path of your data")
    if data.is_dir():
        return _of_pictures(data)
    if ending_of(data) == ".npz":
        return _of_arrays(data)
    if ending_of(data) in ENDINGS:
        return _of_table(data, target, dialect or Dialect())
    raise UsageError(f"{data}: declare a table ({', '.join(ENDINGS)}), a .npz file or a folder of pictures")


def _of_arrays(data: Path) -> Draft:
    found = from_npz(data)
    vocabulary = {"vocabulary": found.vocabulary} if found.vocabulary else {}
    return {"data": data.name, "classes": list(found.class_names) or found.num_classes, **vocabulary}


def _of_pictures(data: Path) -> Draft:
    found = from_folder(data)
    return {"data": data.name, "classes": list(found.class_names), "size": list(found.spec.shape[:2])}


def _of_table(data: Path, target: str, dialect: Dialect) -> Draft:
    table = read_table(data, dialect)
    columns = Columns.of(str(data), ending_of(data), table, lambda row: place_of(data, row, dialect))
    if target not in columns.places:
        asked = f"--target {target}: it is none of them" if target else "say which column is learned, by --target"
        raise UsageError(f"{data} has the columns {', '.join(columns.names)}: {asked}")
    values = {name: _present(columns, name) for name in columns.names if name != columns.index}
    learned = values.pop(target)
    numbers = {name: _outwards(each) for name, each in values.items() if _are_numbers(each)}
    texts = {name: _names(each) for name, each in values.items() if name not in numbers}
    named = {name: each for name, each in texts.items() if len(each) <= MOST_CATEGORIES}
    is_number = _are_numbers(learned) and (len(set(learned)) > MOST_CLASSES or any(each % 1 for each in learned))
    goal: Draft = {"target_bounds": _outwards(learned)} if is_number else {"classes": _names(learned)}
    return {"data": data.name, "target": target, **goal, "bounds": numbers, "categories": named}


def _present(columns: Columns, name: str) -> list[Any]:
    return [value for value in columns.table.column(columns.places[name]).to_pylist() if value is not None]


def _are_numbers(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _names(values: Sequence[Any]) -> list[str]:
    return sorted({str(value) for value in values})


def _outwards(values: Sequence[float]) -> list[float]:
    """Return bounds with one digit, outside of all values: rounded, so that they need not be the records' own.

    >>> _outwards([17, 83]), _outwards([-0.3, 2.5]), _outwards([4])
    ([0, 90], [-1, 3], [0, 5])
    """
    low, high = (float(edge) for edge in (np.nanmin(values), np.nanmax(values)))
    unit = 10.0 ** math.floor(math.log10(max(abs(low), abs(high)) or 1.0))
    ends = [round(math.floor(min(low, 0.0) / unit) * unit, 12), round((math.floor(high / unit) + 1) * unit, 12)]
    return [int(end) if unit >= 1 else end for end in ends]
