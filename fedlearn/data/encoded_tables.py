"""Declared tables: columns encoded by a schema, split into training and test rows, kept in the cache.

A value that is missing, no number, or no declared category is NaN. A row without a target, or with a class that is not
declared, is left out. What is lost in these ways is said to the owner of the data alone (`Dataset.owner_notices`).

Some fifth of the rows is for testing, whatever the run's seed: each row draws its part by itself (`drawing.py`), so
that one row more moves no other row. The rows for testing are as private as the others, unless ``test = "public.csv"``
in the schema file (`schema_file.py`) names a file of public rows: then all rows of ``data`` are trained on.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import DataNotFound, UsageError
from fedlearn.data.array_file import is_of_arrays, load_array_file
from fedlearn.data.cache import cached
from fedlearn.data.column_files import MISSING, Columns, read_columns
from fedlearn.data.data_folder import identity
from fedlearn.data.data_spec import Examples, TableSchema, joined
from fedlearn.data.dataset import Dataset
from fedlearn.data.drawing import drawn, share_held_out
from fedlearn.data.entries import Arrays
from fedlearn.data.owners import NO_GROUPS, Owners, plain_text
from fedlearn.data.reading import one_line_errors
from fedlearn.data.schema_file import read_schema
from fedlearn.data.validation import OWN_ROWS

TEST_SHARE = 0.2
SPLIT_SEED = 20  # of the test split; fixed, so that runs of all seeds are tested on the same rows
READING = 3  # version of what cells mean: a new number makes every cached table unknown
EXAMPLES = 3  # lost values that a line shows
MISSED, DROPPED = "they count as missing", "their rows are left out"
LINES = 10  # lines about one table
SAID = "said"  # array with the JSON text of these lines
GROUPS = "group_names"  # array with the JSON text of these names
OWN = "validation"  # array with the number of the validation rows, where there are any


@one_line_errors
def load_schema_file(file: str | Path) -> Dataset:
    """Return the table, or the arrays or pictures, that a TOML file declares."""
    path = Path(file).expanduser().absolute()
    if is_of_arrays(path):
        return load_array_file(path)
    declared = read_schema(path)
    for each in declared.all:
        if not each.is_file():
            raise DataNotFound(f"{path}: there is no file {each}")

    def reads(file: Path | None) -> Callable[[], Columns] | None:
        return None if file is None else lambda: read_columns(file, declared.schema, declared.dialect)

    found = table_dataset(
        str(path),
        declared.schema,
        f"{identity(*declared.all)}\n{declared.dialect}",
        lambda: read_columns(declared.data, declared.schema, declared.dialect),
        read_test=reads(declared.test),
        read_validation=reads(declared.validation),
    )
    if declared.validation is not None and not found.validation:
        raise UsageError(f"{path}: no row of {declared.validation} is as declared: validation rows are to choose")
    return replace(found, notice=OWN_ROWS.format(declared.validation)) if found.validation else found


def table_dataset(
    name: str,
    schema: TableSchema,
    key: str,
    read: Callable[[], Columns],
    *,
    read_test: Callable[[], Columns] | None = None,
    read_validation: Callable[[], Columns] | None = None,
    is_published: bool = False,
    test_share: float = TEST_SHARE,
    groups: str = "",
) -> Dataset:
    """Return a table from the cache; if it is not there, encode the columns that `read` returns.

    Parameters
    ----------
    key
        Tells one version of the columns from another.
    read_test
        Returns the columns of public rows for testing; without `read_test` a share of the rows is held out.
    read_validation
        Returns the columns of public validation rows, beside those for testing.
    is_published
        Whether the table is published: then the rows held out are public, and there are no notices to an owner.
    test_share
        Share of the rows that is held out without `read_test`.
    groups
        The column with the group of each row, if there are groups.
    """
    share = 0.0 if read_test else share_held_out(test_share)
    whole_key = f"{key}\n{schema!r}\nreading {READING}, test {share} by each record with seed {SPLIT_SEED}"
    whole_key += f", groups by {groups}" if groups else ""

    def make() -> Arrays:
        columns, of_test = read(), read_test() if read_test else None
        own = read_validation() if read_validation else None
        return encoded_arrays(columns, of_test, schema, share, own=own, groups=groups)

    is_public = is_published or read_test is not None
    found = table_at(name, schema, whole_key, make, test_is_public=is_public)
    return replace(found, owner_notices=()) if is_published else found


def table_at(
    name: str, schema: TableSchema, key: str, make: Callable[[], Arrays], *, test_is_public: bool = False
) -> Dataset:
    """Return a table from the cache; if it is not there, from the arrays that `make` returns (`encoded_arrays`)."""
    entry = cached("table", key, make)
    train, test = (
        Examples(*(entry.arrays.get(f"{part}_{kind}") for kind in ("features", "targets", "groups")))  # type: ignore[arg-type]
        for part in ("train", "test")
    )
    names = json.loads(entry.arrays[GROUPS].tobytes()) if GROUPS in entry.arrays else ()
    lines = json.loads(entry.arrays[SAID].tobytes())
    more = [f"and {len(lines) - LINES:,} more such lines"] if len(lines) > LINES else []
    notices = tuple(f"{name}: {line}" for line in [*lines[:LINES], *more])
    return Dataset.of_table(
        name, train, test, schema, entry.content,
        owner_notices=notices, test_is_public=test_is_public, target_names=tuple(schema.targets),
        validation=int(entry.arrays[OWN][0]) if OWN in entry.arrays else 0, group_names=tuple(names),
    )  # fmt: skip


def encoded_arrays(
    columns: Columns,
    of_test: Columns | None,
    schema: TableSchema,
    share: float,
    *,
    own: Columns | None = None,
    groups: str = "",
) -> Arrays:
    """Return a table as arrays, with lines to its owner; without test rows a share of the rows is held out.

    Parameters
    ----------
    own
        Validation rows, which come before the test rows.
    groups
        The column with the group of each row, if there are groups.
    """
    owners = Owners.of(groups, [each for each in (columns, of_test, own) if each is not None])
    rows, notices = encoded(columns, schema, owners)
    if of_test is None:
        train, test, of_shares = _split(rows, share)
        return _arrays(train, test, [*notices, *of_shares], owners)
    test, of_rows = encoded(of_test, schema, owners)
    notices += [f"test rows: {line}" for line in of_rows]
    if own is None:
        return _arrays(rows, test, notices, owners)
    chosen, of_own = encoded(own, schema, owners)
    notices += [f"validation rows: {line}" for line in of_own]
    return {**_arrays(rows, joined([chosen, test]), notices, owners), OWN: np.array([len(chosen)])}


def _arrays(train: Examples, test: Examples, notices: list[str], owners: Owners) -> Arrays:
    of_groups: Arrays = {}
    if train.groups is not None and test.groups is not None:
        names = np.frombuffer(json.dumps(owners.names).encode(), np.uint8)
        of_groups = {"train_groups": train.groups, "test_groups": test.groups, GROUPS: names}
    return {
        **of_groups,
        "train_features": train.inputs, "train_targets": train.targets,
        "test_features": test.inputs, "test_targets": test.targets,
        SAID: np.frombuffer(json.dumps(notices).encode(), np.uint8),
    }  # fmt: skip


def _split(rows: Examples, share: float) -> tuple[Examples, Examples, list[str]]:
    """Return the rows to train on, the rows to test on, each in their order, and a line if the shares are odd."""
    is_test = drawn(rows, seed=SPLIT_SEED, purpose="test split") < share
    held_out, count = int(is_test.sum()), len(rows)
    by_chance = 4 * (share * (1 - share) * count) ** 0.5
    odd = abs(held_out - share * count) > by_chance or (count > 0 and share > 0 and not held_out)
    notice = (
        f"{held_out:,} of {count:,} rows are for testing, as equal rows draw one part: scores on them say little, and "
        "rows of another file can be declared for testing (test = FILE)"
    )
    return rows.at(np.flatnonzero(~is_test)), rows.at(np.flatnonzero(is_test)), [notice] if odd else []


def encoded(columns: Columns, schema: TableSchema, owners: Owners = NO_GROUPS) -> tuple[Examples, list[str]]:
    """Return the rows that have a target and a group, and a line for each kind of cell that is not as declared."""
    notices: list[str] = []
    features = encoded_features(columns, schema, notices)
    values = _targets(columns, schema, notices)
    absent = np.isnan(values).any(axis=tuple(range(1, values.ndim)))
    if absent.any():
        learned = " or ".join(schema.learned)
        notices.append(
            f"{int(absent.sum()):,} of {len(values):,} rows are left out, as they have no {learned} that is "
            f"declared, or not as many cells as the header; the first is row {int(np.flatnonzero(absent)[0]) + 1:,}"
        )
    groups = owners.codes(columns) if owners.column else None
    if groups is not None and (lost := (groups < 0) & ~absent).any():
        notices.append(f"{int(lost.sum()):,} of {len(values):,} rows are left out, as they have no {owners.column}")
        absent |= lost
    if absent.all():
        notices.append("no row is left")
    targets = values[~absent].astype(np.int64 if schema.classes else np.float64)
    rows = np.ascontiguousarray(features[~absent])
    return Examples(rows, targets, None if groups is None else groups[~absent]), notices


def _targets(columns: Columns, schema: TableSchema, notices: list[str]) -> NDArray[np.float64]:
    """Return the targets of all rows, (rows,), or (rows, targets) of several; NaN where there is none."""
    found = [
        _codes(name, columns[name], schema.classes, notices, DROPPED)
        if schema.classes
        else _within(name, columns[name], schema.ranges[name], notices, DROPPED)
        for name in schema.learned
    ]
    return np.column_stack(found) if schema.targets else found[0]


def encoded_features(columns: Columns, schema: TableSchema, notices: list[str]) -> NDArray[np.float64]:
    """Return the features of all rows, (rows, features); lines about lost cells are appended to `notices`."""
    features = [
        _codes(name, columns[name], schema.categories[name], notices)
        if name in schema.categories
        else _within(name, columns[name], schema.bounds[name][:2], notices)
        for name in schema.features
    ]
    return np.column_stack(features).astype(np.float64, copy=False)


def _codes(
    name: str, values: NDArray[Any], known: Sequence[str], notices: list[str], so: str = MISSED
) -> NDArray[np.float64]:
    """Return the place of each value among the known ones; NaN for other values, which are counted in a line."""
    place = {plain_text(text): float(code) for code, text in enumerate(known)}
    place |= {text: float(code) for code, text in enumerate(known)}
    codes = {None: np.nan} | {
        text: place.get(text, place.get(plain_text(text), np.nan)) for text in set(values.tolist()) - {None}
    }
    counts = Counter(values.tolist())
    is_missing = {
        text: text is None or (np.isnan(code) and plain_text(text) in MISSING) for text, code in codes.items()
    }
    strangers = {text: counts[text] for text, code in codes.items() if np.isnan(code) and not is_missing[text]}
    present = sum(count for text, count in counts.items() if not is_missing[text])
    _say(name, "values", present, strangers, "is declared", "are not declared", notices, so)
    return np.array([codes[text] for text in values.tolist()], np.float64)


def _within(
    name: str, values: NDArray[Any], bounds: Sequence[float], notices: list[str], so: str = MISSED
) -> NDArray[np.float64]:
    """Return the numbers of a column, NaN for a cell that is none; count lost cells and numbers outside the bounds."""
    texts = Counter(value for value in values.tolist() if isinstance(value, str)) if values.dtype == object else {}
    if values.dtype == object:
        values = np.array([np.nan if isinstance(value, str) else value for value in values.tolist()], np.float64)
    infinite = int(np.isinf(values).sum())
    numbers = np.where(np.isfinite(values), values, np.nan).astype(np.float64)
    lost = Counter(texts) + Counter({"inf": infinite} if infinite else {})
    present = int(np.isfinite(numbers).sum())
    _say(name, "cells", present + sum(lost.values()), lost, "is a number", "are no numbers", notices, so)
    low, high = bounds
    outside = numbers[(numbers < low) | (numbers > high)]
    beyond = Counter(f"{value:g}" for value in outside.tolist())
    span = f"[{low:g}, {high:g}]"
    is_so, are_not = f"lies within {span}", f"lie outside {span}"
    _say(name, "numbers", present, beyond, is_so, are_not, notices, "they count as its ends")
    return numbers


def _say(
    name: str, things: str, present: int, lost: dict[Any, int], is_so: str, are_not: str, notices: list[str], so: str
) -> None:
    """Append a line with the number of lost cells and the most frequent of them, if any cell was lost."""
    number = sum(lost.values())
    if number:
        most = sorted(lost, key=lambda text: (-lost[text], text))[:EXAMPLES]
        shown = ", ".join(repr(text[:40]) for text in most) + (", ..." if len(lost) > EXAMPLES else "")
        which = (
            f"none of {present:,} {things} {is_so}"
            if number == present
            else f"{number:,} of {present:,} {things} {are_not}"
        )
        notices.append(f"{name}: {which} ({shown}): {so}")
