"""Counts, means, standard deviations and histograms of declared columns, from sums over all nodes.

A record adds at most one `UNIT` to each statistic: to the number of records, to one cell of each column's histogram,
and to the moments of each numeric column. So the sums of a record are at most `Columns.most` in the L1 norm; a mean is
exact to 1 / (2 UNIT) of the width of its bounds.

*The moments of a column cost no more than its mean.* A value whose place within the declared bounds is p, from 0 to 1,
adds p to one sum and p (1 - p) to another. Together they are 2 p - p^2 = 1 - (1 - p)^2, at most 1. In whole UNITs, with
a = p UNIT rounded, the second sum gets b = a (UNIT - a) / UNIT rounded: a (UNIT - a) / UNIT is at most the whole number
UNIT - a, hence so is b, and a + b is at most UNIT. The sum of squares is that of p less that of p (1 - p).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.data.data_spec import TableSchema

UNIT = 2**20
CLEAR = 3  # times the noise in a variance, at most so large, that a variance must exceed to be told
BEFORE = 2**10  # UNIT of runs whose sums have no second moment
MISSING = "missing"
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Histogram:
    """The statistics of one column.

    Parameters
    ----------
    labels
        Of its cells: bounds of bins as ``"[20, 40)"``, or categories; the last is ``"missing"``.
    counts
        (cells,) number of records in each, with the noise of the release.
    mean
        Mean of the values within the declared bounds; NaN for categories.
    std
        Their standard deviation; NaN for categories, and where the noise in it may be as large.
    """

    labels: tuple[str, ...]
    counts: FloatArray
    mean: float = float("nan")
    std: float = float("nan")


@dataclass(frozen=True, slots=True)
class Statistics:
    """What all nodes together hold.

    Parameters
    ----------
    count
        Number of records.
    columns
        Column -> its statistics.
    deviation
        Standard deviation of the noise in `count` and in the count of each cell, in records; 0 without noise.
    """

    count: float
    columns: Mapping[str, Histogram]
    deviation: float

    def to_plain(self) -> dict[str, object]:
        """Return the statistics as plain values; None for a mean or deviation that there is not."""
        columns = {
            name: {
                "labels": list(each.labels),
                "counts": each.counts.tolist(),
                "mean": each.mean if np.isfinite(each.mean) else None,
                "std": each.std if np.isfinite(each.std) else None,
            }
            for name, each in self.columns.items()
        }
        return {"count": self.count, "deviation": self.deviation, "columns": columns}

    def __str__(self) -> str:
        """Return a line for all records, and one for each column: mean, deviation, most frequent cell."""
        noise = f", each count with noise of standard deviation {self.deviation:.4g}" if self.deviation else ""
        lines = [f"{self.count:.0f} records{noise}"]
        for name, each in self.columns.items():
            place = int(np.argmax(each.counts))
            said = f"mean {each.mean:.6g}, " if np.isfinite(each.mean) else ""
            said += f"deviation {each.std:.6g}, " if np.isfinite(each.std) else ""
            lines.append(f"{name}: {said}most frequent {each.labels[place]} ({each.counts[place]:.0f})")
        return "\n".join(lines)


class Columns:
    """The columns of a table, the target last, with the cells of their histograms.

    Parameters
    ----------
    schema
        Declared bounds, categories and target.
    bins
        Number of bins of a numeric column, at least 1: of equal width, or of equal ratio if it is declared ``"log"``.
    chosen
        Names of the columns; all unless given.

    Attributes
    ----------
    edges
        Column of numbers -> (bins + 1,) the ends of its cells.
    """

    def __init__(self, schema: TableSchema, bins: int, chosen: Sequence[str] = ()) -> None:
        numbers: dict[str, Any] = {**schema.bounds, **schema.ranges}
        self._all = (*schema.features, *schema.learned)
        self.names = tuple(name for name in self._all if not chosen or name in chosen)
        self.edges = {name: _edges(given, bins) for name, given in numbers.items() if name in self.names}
        self._words = schema.words
        self.sizes = [len(self.labels(name)) for name in self.names]
        self.length = 1 + sum(self.sizes) + 2 * len(self.edges)
        self.most = UNIT * (1 + len(self.names) + len(self.edges))

    def labels(self, name: str) -> tuple[str, ...]:
        """Return the labels of a column's cells."""
        if name in self._words:
            return (*self._words[name], MISSING)
        return (*(f"[{low:g}, {high:g})" for low, high in pairwise(self.edges[name].tolist())), MISSING)

    def cells(self, rows: FloatArray, targets: FloatArray) -> list[IntArray]:
        """Return (rows,) the cell of each row, for each column; what is not declared is missing."""
        values = self._values(rows, targets)
        return [self._cell(name, values[name]) for name in self.names]

    def _values(self, rows: FloatArray, targets: FloatArray) -> dict[str, FloatArray]:
        return dict(zip(self._all, [*rows.T, *np.atleast_2d(targets.T)], strict=True))

    def sums(self, rows: FloatArray, targets: FloatArray) -> IntArray:
        """Return (length,) the sums of rows, in UNITs: their number, the histograms, both moments of each number."""
        values = self._values(rows, targets)
        cells = zip(self.cells(rows, targets), self.sizes, strict=True)
        counts = [np.bincount(cell, minlength=size) for cell, size in cells]
        places = [np.rint(UNIT * self._place(name, values[name])) for name in self.edges]
        moments = [places, [np.rint(each * (UNIT - each) / UNIT) for each in places]]
        sums = [np.nansum(each) for moment in moments for each in moment]
        return np.concatenate([[UNIT * len(rows)], *(UNIT * each for each in counts), sums]).astype(np.int64)

    def read(self, sums: IntArray, variance: float) -> Statistics:
        """Return the statistics that (length,) released sums tell, with the variance of their noise."""
        unit = UNIT if len(sums) == self.length else BEFORE
        count, *rest = sums / unit
        deviation = float(np.sqrt(variance)) / unit
        *parts, moments = np.split(np.array(rest), np.cumsum(self.sizes))
        moments = np.append(moments, np.full(2 * len(self.edges) - len(moments), np.nan)).reshape(2, -1)
        moments_of = dict(zip(self.edges, moments.T, strict=True))
        columns = {
            name: Histogram(
                self.labels(name), part, *self._moments(name, count - part[-1], moments_of.get(name), deviation)
            )
            for name, part in zip(self.names, parts, strict=True)
        }
        return Statistics(float(count), columns, deviation)

    def _moments(self, name: str, known: float, moments: FloatArray | None, deviation: float) -> tuple[float, float]:
        """Return mean and standard deviation of known values in the unit of the column; NaN where there is none."""
        if moments is None or known < 1:
            return float("nan"), float("nan")
        low, high = self.edges[name][[0, -1]]
        place, spread = moments / known
        variance = place - spread - place**2
        is_clear = variance > CLEAR * deviation / known
        std = float((high - low) * np.sqrt(variance)) if is_clear else float("nan")
        return float(low + (high - low) * np.clip(place, 0, 1)), std

    def _place(self, name: str, values: FloatArray) -> FloatArray:
        low, high = self.edges[name][[0, -1]]
        return np.asarray((np.clip(values, low, high) - low) / (high - low))

    def _cell(self, name: str, values: FloatArray) -> IntArray:
        size = len(self.labels(name)) - 1
        if name in self._words:
            known = (values >= 0) & (values < size)
        else:
            known = ~np.isnan(values)
            edges = self.edges[name]
            values = np.minimum(np.searchsorted(edges[1:-1], values, side="right"), size - 1)
        return np.where(known, np.where(known, values, 0), size).astype(np.int64)


def _edges(bounds: Any, bins: int) -> FloatArray:
    low, high, *scale = bounds
    return np.geomspace(low, high, bins + 1) if scale == ["log"] else np.linspace(low, high, bins + 1)
