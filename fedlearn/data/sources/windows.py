"""Windows of series: a long table with a row for each series and time becomes examples of the last rows and the next.

An example is `window` rows in a row of one series; its target are the values of the `horizon` rows that follow. The
last part of each series, in time, is for testing: no row is in examples of both parts. A row is in several examples of
its part, so that a promise about examples is none about rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from fedlearn.core.errors import UsageError
from fedlearn.data.dataset import WINDOWS, Dataset
from fedlearn.data.drawing import share_held_out
from fedlearn.data.naming import plain_name
from fedlearn.data.reading import one_line_errors
from fedlearn.data.sources.array_source import from_arrays
from fedlearn.data.sources.column_values import Columns, columns_of_frame, labels_of, values_of
from fedlearn.data.sources.declared import TEST_SHARE
from fedlearn.data.sources.named_columns import columns_of_file
from fedlearn.data.sources.table_files import Dialect

UNEVEN = "the steps of {time!r} differ, from {fewest} to {most}: a window counts rows, not time"
Floats = NDArray[np.float32]
Rows = NDArray[np.int64]


@one_line_errors
def from_windows(
    data: Any,
    *,
    target: str,
    window: int,
    horizon: int = 1,
    stride: int = 1,
    series: str | None = None,
    time: str | None = None,
    inputs: str | Sequence[str] | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    test_share: float = TEST_SHARE,
    delimiter: str = "",
    decimal: str = ".",
    encoding: str = "utf-8",
    name: str = "series",
) -> Dataset:
    """Return windows of the series of a long table as a data set, to forecast the rows that follow.

    Parameters
    ----------
    data
        A frame of pandas or polars, a table of Arrow, or the path of a CSV or Parquet file: a row for each time.
    target
        The column that is forecast.
    window
        How many rows an example has, (window, channels).
    horizon
        How many of the following values are the target: (n,) for one, else (n, horizon).
    stride
        How many rows later the next window begins.
    series
        The column that says which series a row belongs to; each series is a group, for ``partition="natural"``. Without
        it all rows are one series.
    time
        The column by which the rows of a series are sorted: numbers, or dates. Without it they are in order.
    inputs
        The columns of a window; all but `series` and `time`, unless given.
    mean, std, name
        As in `from_arrays`; of all columns of a window, or of each.
    test_share
        Share of the rows of each series, the last in time, of which the windows for testing are made.
    delimiter, decimal, encoding
        Of a CSV file, as in `from_table`.

    Raises
    ------
    UsageError
        If a column is wrong, a time stands twice in a series, or no series is long enough.
    """
    shape = _Windows(*(_whole(word, given) for word, given in _named(window=window, horizon=horizon, stride=stride)))
    roles = [plain_name(each) for each in (series, time) if each]
    table = _read(data, roles, Dialect(delimiter, decimal, encoding), name)
    chosen = [plain_name(each) for each in ([inputs] if isinstance(inputs, str) else inputs or ())]
    chosen = chosen or [each for each in table.names if each not in (*roles, table.index)]
    table.check([plain_name(target), *roles, *chosen])
    values = np.column_stack([values_of(table, each, None).astype(np.float32) for each in chosen])
    targets = values_of(table, plain_name(target), None).astype(np.float32)
    owners = labels_of(table, plain_name(series)) if series else np.zeros(table.rows, np.int64)
    times = _times_of(table, plain_name(time)) if time else None
    ordered = dict(_rows_of(owners, times, table.name))
    share = share_held_out(test_share)
    train, test = (
        _joined([(owner, *shape.of(values[part(rows)], targets[part(rows)])) for owner, rows in ordered.items()])
        for part in _parts(share)
    )
    _check(train, test if share else train, shape, table.name)
    given: dict[str, Any] = dict(zip(("X", "y", "groups"), train, strict=True))
    given |= dict(zip(("X_test", "y_test", "groups_test"), test, strict=True)) if share else {}
    given = {key: each for key, each in given.items() if series or not key.startswith("groups")}
    found = from_arrays(**given, mean=mean, std=std, name=table.name)
    uneven = () if times is None else (_uneven(times[rows], time) for rows in ordered.values())
    notice = "; ".join(filter(None, (found.notice, next(filter(None, uneven), ""))))
    return replace(found, notice=notice, counted=(*found.counted, WINDOWS))


_Part = tuple[Any, Floats, Floats]  # a series, its windows and their targets
_Joined = tuple[Floats, Floats, NDArray[Any]]  # windows, targets, the series of each


@dataclass(frozen=True, slots=True)
class _Windows:
    window: int
    horizon: int
    stride: int

    def of(self, values: Floats, targets: Floats) -> tuple[Floats, Floats]:
        """Return the windows (n, window, channels) of some rows in a row, and what follows each, (n, horizon)."""
        starts = np.arange(0, len(values) - self.window - self.horizon + 1, self.stride)
        if not len(starts):
            return np.zeros((0, self.window, values.shape[1]), np.float32), np.zeros((0, self.horizon), np.float32)
        windows = sliding_window_view(values, self.window, axis=0)[starts].transpose(0, 2, 1)
        return windows, sliding_window_view(targets, self.horizon)[starts + self.window]


def _named(**given: Any) -> Iterator[tuple[str, Any]]:
    yield from given.items()


def _whole(name: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise UsageError(f"{name} = {given!r}: write a whole number of rows, from 1")
    return int(given)


def _read(data: Any, roles: Sequence[str], dialect: Dialect, name: str) -> Columns:
    if isinstance(data, str | Path):
        dialect.check()
        path = Path(data).expanduser().absolute()
        return columns_of_file(path, dialect, None, dict.fromkeys(roles, ()))
    return columns_of_frame(data, name)


def _times_of(table: Columns, time: str) -> NDArray[Any]:
    """Return times as numbers, or as dates."""
    import pandas as pd

    found = table.column(time).to_pandas()
    if pd.api.types.is_numeric_dtype(found) or pd.api.types.is_datetime64_any_dtype(found):
        return np.asarray(found)
    return np.asarray(pd.to_datetime(found, utc=True).dt.tz_localize(None))


def _rows_of(owners: NDArray[Any], times: NDArray[Any] | None, name: str) -> Iterator[tuple[Any, Rows]]:
    """Yield each series with its rows, in the order of time."""
    for owner in np.unique(owners):
        rows = np.flatnonzero(owners == owner)
        if times is not None:
            rows = rows[np.argsort(times[rows], kind="stable")]
            twice = np.flatnonzero(times[rows][1:] == times[rows][:-1])
            if len(twice):
                raise UsageError(f"{name}: series {owner!s} has the time {times[rows[twice[0]]]} twice")
        yield owner, rows


def _parts(share: float) -> tuple[Callable[[Rows], Rows], Callable[[Rows], Rows]]:
    """Return what takes, of the rows of a series in order, those to train on; and what takes the last ones."""

    def place(rows: Rows) -> int:
        return len(rows) - round(share * len(rows))

    return (lambda rows: rows[: place(rows)]), (lambda rows: rows[place(rows) :])


def _check(train: _Joined, test: _Joined, shape: _Windows, name: str) -> None:
    for part, which in ((train, "to train on"), (test, "for testing, of its last rows: take a larger test_share")):
        if not len(part[0]):
            raise UsageError(f"{name}: no series has {shape.window + shape.horizon} rows {which}")


def _uneven(times: NDArray[Any], time: str | None) -> str:
    steps = np.diff(times)
    if len(steps) and steps.min() != steps.max():
        return UNEVEN.format(time=time, fewest=_step(steps.min()), most=_step(steps.max()))
    return ""


def _step(step: Any) -> str:
    import pandas as pd

    return str(pd.Timedelta(step)) if isinstance(step, np.timedelta64) else f"{step:g}"


def _joined(parts: Sequence[_Part]) -> _Joined:
    """Return the windows of all series, what follows each, and its series; one number each with a horizon of 1."""
    windows, targets = (np.concatenate([part[place] for part in parts]) for place in (1, 2))
    owners = np.repeat([part[0] for part in parts], [len(part[1]) for part in parts])
    return windows, targets[:, 0] if targets.shape[1] == 1 else targets, owners
