"""A description of all records, "Table 1": each declared column, by groups if a column names them, in one round.

A record adds, for each number x, scaled to u from -1 to 1 by its declared bounds: 1, u and u^2, and 1 to a cell of the
histogram of its group; for each category 1 to its cell. From these follow mean, standard deviation (n - 1), shares, the
median and quartiles, and tests. A quartile is the least value that a quarter of the records do not exceed; it lies in
the cell in which it is interpolated, so that it is off by less than the width of a cell.

* The t test of two groups with variances of their own (Welch 1947), of more groups the F test of one variance.
* Pearson's chi-square test of categories by groups.
* The correlations of all numbers, over the records that have all of them.

Smallest and largest values are those of single records: they are never read. What is shown are the declared bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from scipy.special import chdtrc, fdtrc, stdtr

from fedlearn.core.state import State
from fedlearn.data.data_spec import DataSpec, Examples, TableSchema
from fedlearn.runs.answers import Answer, AnswerTable, Cell
from fedlearn.statistics.analysis import Analysis, blocks, built, products, symmetric, whole
from fedlearn.statistics.design import Counted, FloatArray, IntArray

MOMENTS = 3  # of each number in each group: its known values, sum of u, sum of u^2
QUARTILES = (0.25, 0.5, 0.75)
ALL = "all"


class Describe(Analysis):
    """Description of declared columns.

    Parameters
    ----------
    schema
        Declared columns and target of the table.
    by : str, default=""
        Column of categories by which records are grouped; its missing values are left out.
    columns : list of str, default=[]
        Columns that are described; all but `by` unless given.
    bins : int, default=20
        Cells of the histogram of a number, of equal width.
    """

    name = "describe"

    def __init__(
        self,
        schema: TableSchema,
        *,
        by: str = "",
        columns: Sequence[str] = (),
        bins: Annotated[int, Field(ge=1, le=1000)] = 20,
    ) -> None:
        super().__init__(schema)
        self.by, self.bins = self.declared.check("by", by, of="words") if by else "", bins
        self.groups = self.declared.words[by] if by else ()
        chosen = [self.declared.check("columns", name) for name in columns or self.declared.names if name != by]
        self.numbers = [name for name in chosen if name not in self.declared.words]
        self.categories = [name for name in chosen if name in self.declared.words]
        self.counted = Counted(self.declared, [*([by] if by else []), *chosen])
        self._sizes = [len(self.declared.words[name]) + 1 for name in self.categories]  # the last: missing

    def length(self, round_number: int) -> int:
        """Return the number of sums: counts, of each group its size, moments, histograms and categories, products."""
        size = len(self.numbers) + 1
        return self.counted.length + max(len(self.groups), 1) * self._of_group + size * (size + 1) // 2

    def asked(self, state: State, examples: Examples) -> IntArray:
        """Return (length,) what these records add."""
        group = self.declared.values(self.by, examples) if self.by else np.zeros(len(examples))
        parts = [self._group(examples.at(np.flatnonzero(group == place))) for place in range(max(len(self.groups), 1))]
        complete = examples.at(np.flatnonzero(~np.any([np.isnan(u) for u in self._scaled(examples)], axis=0)))
        counts = self.counted.counts(examples) * self.cap
        return np.concatenate([counts, *parts, self._products(complete if self.numbers else examples)])

    def answer(self, state: State) -> Answer:
        """Return the tables."""
        sums = self.rounds(state)[0] / self.cap
        rows = self.counted.read(sums[: self.counted.length])
        last = self.counted.length + max(len(self.groups), 1) * self._of_group
        parts = sums[self.counted.length : last].reshape(-1, self._of_group)
        groups = {name: self._read(part) for name, part in zip(self.groups or (ALL,), parts, strict=True)}
        shown = {ALL: self._read(parts.sum(axis=0)), **groups} if self.by else groups
        tables = [self._table_one(shown), self._numbers(shown)]
        tables += [self._tests(groups)] if self.by else []
        tables += [self._correlations(sums[last:])] if len(self.numbers) > 1 else []
        return Answer(
            title="Description of all records" + (f" by {self.by}" if self.by else ""),
            facts={"records": rows.records, "sites": int(state["reports"][0])},
            tables=tuple(tables),
            notes=self._notes(rows.missing.get(self.by, 0), [*rows.outside.items()]),
        )

    @property
    def _of_group(self) -> int:
        """The number of sums of a group."""
        return 1 + len(self.numbers) * (MOMENTS + self.bins) + sum(self._sizes)

    def _scaled(self, examples: Examples) -> list[FloatArray]:
        """Return (rows,) each number, from -1 to 1; NaN where it is missing."""
        bounds = [self.declared.bounds(name) for name in self.numbers]
        columns = [self.declared.values(name, examples) for name in self.numbers]
        return [(2 * x - low - high) / (high - low) for x, (low, high) in zip(columns, bounds, strict=True)]

    def _group(self, rows: Examples) -> IntArray:
        """Return what the records of one group add."""
        counts = [np.array([len(rows)]) * self.cap]
        for u in self._scaled(rows):
            u = u[~np.isnan(u)]
            moments = whole(np.column_stack([np.ones_like(u), u, u * u]), np.ones(1), self.cap).sum(axis=0)
            cells = np.minimum(((u + 1) / 2 * self.bins).astype(np.int64), self.bins - 1)
            counts += [moments, np.bincount(cells, minlength=self.bins) * self.cap]
        for name, size in zip(self.categories, self._sizes, strict=True):
            place = self.declared.values(name, rows)
            cells = np.where(np.isnan(place), size - 1, place).astype(np.int64)
            counts.append(np.bincount(cells, minlength=size) * self.cap)
        return np.concatenate(counts)

    def _products(self, rows: Examples) -> IntArray:
        """Return the products of each two numbers, and of each with 1, of records that have all."""
        columns = np.column_stack([np.ones(len(rows)), *self._scaled(rows)])
        size = len(self.numbers) + 1
        sums = np.zeros(size * (size + 1) // 2, np.int64)
        for block in blocks(len(rows)):
            sums += whole(products(columns[block]), np.ones(1), self.cap).sum(axis=0)
        return sums

    def _read(self, sums: FloatArray) -> Group:
        """Return what the sums of a group tell."""
        of_numbers = sums[1 : 1 + len(self.numbers) * (MOMENTS + self.bins)].reshape(len(self.numbers), -1)
        ends = np.cumsum(self._sizes)[:-1]
        of_categories = np.split(sums[1 + of_numbers.size :], ends) if self.categories else []
        numbers = {
            name: Number.read(part, sums[0], self.declared.bounds(name))
            for name, part in zip(self.numbers, of_numbers, strict=True)
        }
        return Group(sums[0], numbers, dict(zip(self.categories, of_categories, strict=True)))

    def _table_one(self, groups: Mapping[str, Group]) -> AnswerTable:
        """Return the table as papers print it: groups as columns."""
        rows: list[tuple[Cell, ...]] = [("records", *(int(group.records) for group in groups.values()))]
        for name in self.numbers:
            found = [group.numbers[name] for group in groups.values()]
            rows.append((f"{name}, mean (SD)", *(f"{each.mean:.4g} ({each.std:.3g})" for each in found)))
            rows.append((f"{name}, median [Q1, Q3]", *(_quartiles(each) for each in found)))
        for name in self.categories:
            counts = [group.categories[name] for group in groups.values()]
            for place, word in enumerate((*self.declared.words[name], "missing")):
                if word != "missing" or any(each[-1] for each in counts):
                    rows.append((f"{name}: {word}, n (%)", *(_share(each, place) for each in counts)))
        return AnswerTable("table1", ("column", *groups), tuple(rows))

    def _numbers(self, groups: Mapping[str, Group]) -> AnswerTable:
        titles = ("column", "group", "n", "missing", "mean", "SD", "Q1", "median", "Q3", "declared from", "to")
        rows: list[tuple[Cell, ...]] = [
            (name, label, int(found.known), int(found.missing), found.mean, found.std,
             *found.quartiles, *self.declared.bounds(name))
            for name in self.numbers for label, group in groups.items() for found in (group.numbers[name],)
        ]  # fmt: skip
        return AnswerTable("numbers", titles, tuple(rows))

    def _tests(self, groups: Mapping[str, Group]) -> AnswerTable:
        """Return the test of each column, that all groups are alike."""
        rows: list[tuple[Cell, ...]] = [
            (name, *compared([group.numbers[name] for group in groups.values()])) for name in self.numbers
        ]
        for name in self.categories:
            counts = np.array([group.categories[name][:-1] for group in groups.values()])
            rows.append((name, *independent(counts)))
        return AnswerTable("tests", ("column", "test", "statistic", "df", "p"), tuple(rows))

    def _correlations(self, sums: FloatArray) -> AnswerTable:
        matrix = symmetric(sums, len(self.numbers) + 1)
        count, means = matrix[0, 0], matrix[0, 1:] / matrix[0, 0]
        covariance = matrix[1:, 1:] / count - np.outer(means, means)
        deviations = np.sqrt(np.diag(covariance))
        values = covariance / np.outer(deviations, deviations)
        rows = ((name, *line) for name, line in zip(self.numbers, values.tolist(), strict=True))
        return AnswerTable("correlation", (f"correlation of {count:,.0f}", *self.numbers), tuple(rows))

    def _notes(self, ungrouped: int, outside: list[tuple[str, int]]) -> tuple[str, ...]:
        notes = [
            f"medians and quartiles are off by less than a cell of the histogram: {1 / self.bins:.3g} of the bounds"
        ]
        notes += [f"{ungrouped:,} records without {self.by} are left out of all groups"] if ungrouped else []
        moved = ", ".join(f"{name} ({count:,})" for name, count in outside if count)
        return (
            *notes,
            *([f"values outside the declared bounds were moved to the nearer bound: {moved}"] if moved else []),
        )


@dataclass(frozen=True, slots=True)
class Number:
    """A number in a group: how many records have and lack it, mean, standard deviation, quartiles."""

    known: float
    missing: float
    mean: float
    std: float
    quartiles: tuple[float, float, float]

    @classmethod
    def read(cls, sums: FloatArray, records: float, bounds: tuple[float, float]) -> Number:
        """Return what n, sum of u, sum of u^2 and a histogram tell."""
        (count, total, squares), cells = sums[:MOMENTS], sums[MOMENTS:]
        low, high = bounds
        center, half = (low + high) / 2, (high - low) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = total / count
            std = half * np.sqrt(np.maximum(squares - count * mean**2, 0.0) / (count - 1))
        first, median, third = (low + (high - low) * quantile(cells, share) for share in QUARTILES)
        return cls(count, records - count, float(center + half * mean), float(std), (first, median, third))


@dataclass(frozen=True, slots=True)
class Group:
    """A group of records: how many, their numbers, and counts of each column of categories, missing ones last."""

    records: float
    numbers: Mapping[str, Number]
    categories: Mapping[str, FloatArray]


def quantile(cells: FloatArray, share: float) -> float:
    """Return the place, from 0 to 1, below which a share of a histogram lies; NaN of an empty one.

    >>> quantile(np.array([0.0, 4.0, 4.0, 0.0]), 0.5)
    0.5
    """
    reached = np.cumsum(cells)
    if not reached[-1] > 0:
        return float("nan")
    wanted = share * reached[-1]
    place = int(np.searchsorted(reached, wanted))
    before = reached[place] - cells[place]
    return float((place + (wanted - before) / cells[place]) / len(cells))


def compared(groups: Sequence[Number]) -> tuple[Cell, ...]:
    """Return name, statistic, degrees of freedom and p of the test that groups have one mean.

    Two groups: t = (m1 - m2) / sqrt(s1^2 / n1 + s2^2 / n2), with Welch's degrees of freedom. More: F, the mean square
    between groups over that within.
    """
    present = [each for each in groups if each.known > 1]
    n, mean, std = (np.array([getattr(each, name) for each in present]) for name in ("known", "mean", "std"))
    if len(present) < 2 or not (std > 0).any():
        return "", None, None, None
    if len(present) == 2:
        errors = std**2 / n
        t = float((mean[0] - mean[1]) / np.sqrt(errors.sum()))
        degrees = float(errors.sum() ** 2 / (errors**2 / (n - 1)).sum())
        return "t (Welch)", t, degrees, float(2 * stdtr(degrees, -abs(t)))
    between, within = len(n) - 1, float(n.sum() - len(n))
    ratio = float((n @ (mean - n @ mean / n.sum()) ** 2 / between) / ((n - 1) @ std**2 / within))
    return "F (one-way)", ratio, float(between), float(fdtrc(between, within, ratio))


def independent(counts: FloatArray) -> tuple[Cell, ...]:
    """Return name, statistic, degrees of freedom and p of Pearson's test of (groups, categories) counts."""
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    if min(counts.shape) < 2:
        return "", None, None, None
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    chi2 = float(((counts - expected) ** 2 / expected).sum())
    degrees = (counts.shape[0] - 1) * (counts.shape[1] - 1)
    return "chi2 (Pearson)", chi2, float(degrees), float(chdtrc(degrees, chi2))


def _quartiles(number: Number) -> str:
    first, median, third = number.quartiles
    return f"{median:.4g} [{first:.4g}, {third:.4g}]"


def _share(counts: FloatArray, place: int) -> str:
    total = counts.sum()
    return f"{counts[place]:,.0f} ({100 * counts[place] / total:.1f})" if total else "0"


def describe(spec: DataSpec, options: Mapping[str, Any]) -> Describe:
    """Return the model ``describe`` for a table; raise `SettingError` for other data."""
    model: Describe = built(Describe, spec, options)
    return model
