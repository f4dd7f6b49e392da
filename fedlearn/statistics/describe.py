"""A description of all records, "Table 1": each declared column, by groups if a column names them, in one round.

A record adds, for each number x, scaled to u from -1 to 1 by its declared bounds: 1, u and u^2, and 1 to a cell of the
histogram of its group; for each category 1 to its cell. From these follow mean, standard deviation (n - 1), shares, the
median and quartiles, and tests. A quartile is the least value that a quarter of the records do not exceed; it lies in
the cell in which it is interpolated, so that it is off by less than the width of a cell.

* The t test of two groups with variances of their own (Welch 1947), of more groups the F test of one variance.
* Pearson's chi-square test of categories by groups.
* The correlations of all numbers, over the records that have all of them.

Smallest and largest values are those of single records: they are never read. What is shown are the declared bounds.

*Small cells* (`fedlearn.statistics.small_cells`): groups with few records are left out, and of a column those in which few
records have a value. Rare categories are merged, and cells of a histogram before quartiles are read from it. How many
records lack a value is shown as it is: it says of no record which value it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import chdtrc, fdtrc, stdtr

from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples, TableSchema
from fedlearn.models.model import Finished
from fedlearn.runs.analysis_answers import Answer, AnswerTable, Cell
from fedlearn.statistics.analysis import Exact, blocks, products, symmetric, whole
from fedlearn.statistics.column_histograms import MISSING
from fedlearn.statistics.design import Counted, FloatArray, IntArray, Rows
from fedlearn.statistics.small_cells import LEAST, blocks_of, in_blocks, is_small, nothing_to_show

MOMENTS = 3  # of each number in each group: its known values, sum of u, sum of u^2
QUARTILES = (0.25, 0.5, 0.75)
ALL = "all"
FEW = "groups, and columns in a group, of fewer than {} records are left out, of totals as well"
T = TypeVar("T")
Found = Mapping[str, Any]  # label of a group -> what is shown of a column; None where it has few records


class Describe(Exact):
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
    least_count : int, default=5
        Least number of records in a cell that is shown; 1 shows all.
    """

    name = "describe"

    def __init__(
        self,
        schema: TableSchema,
        *,
        by: str = "",
        columns: Sequence[str] = (),
        bins: Annotated[int, Field(ge=1, le=1000)] = 20,
        least_count: Annotated[int, Field(ge=1)] = LEAST,
    ) -> None:
        super().__init__(schema)
        self.least_count = least_count
        self.by, self.bins = self.declared.check("by", by, of="words") if by else "", bins
        self.groups = self.declared.words[by] if by else ()
        chosen = [self.declared.check("columns", name) for name in columns or self.declared.names if name != by]
        self.numbers = [name for name in chosen if name not in self.declared.words]
        self.categories = [name for name in chosen if name in self.declared.words]
        self.counted = Counted(self.declared, [*([by] if by else []), *chosen])
        self._sizes = [len(self.declared.words[name]) + 1 for name in self.categories]  # the last: missing

    def length(self, round_number: int) -> int:
        """Return the number of sums: counts, of each group its size, moments, histograms and categories, products."""
        return self.counted.length + max(len(self.groups), 1) * self._of_group + self._of_products

    def asked(self, state: State, examples: Examples) -> IntArray:
        """Return (length,) what these records add."""
        group = self.declared.values(self.by, examples) if self.by else np.zeros(len(examples))
        parts = [self._group(examples.at(np.flatnonzero(group == place))) for place in range(max(len(self.groups), 1))]
        complete = examples.at(np.flatnonzero(~np.any([np.isnan(u) for u in self._scaled(examples)], axis=0)))
        _, counts = self.counted.taken(examples)
        return np.concatenate([counts * self.cap, *parts, self._products(complete if self.numbers else examples)])

    def progress(self, state: State) -> Finished:
        """Return that all sums are there, or that none may be shown."""
        records = self._parts(state)[:, 0]
        few = is_small(records, self.least_count)
        return nothing_to_show(self.least_count) if few.all() else super().progress(state)

    def answer(self, state: State) -> Answer:
        """Return the tables."""
        sums = self.rounds(state)[0] / self.cap
        rows, parts = self.counted.read(sums[: self.counted.length]), self._parts(state)
        shown = ~is_small(parts[:, 0], self.least_count)
        names = [name for name, is_shown in zip(self.groups or (ALL,), shown, strict=True) if is_shown]
        groups = Groups(names, parts[shown, 0], self.least_count)
        of_numbers = parts[shown, 1 : 1 + len(self.numbers) * (MOMENTS + self.bins)]
        of_categories = np.split(parts[shown, 1 + of_numbers.shape[1] :], np.cumsum(self._sizes)[:-1], axis=1)
        numbers = {
            name: groups.number(part, self.declared.bounds(name))
            for name, part in zip(self.numbers, np.split(of_numbers, max(len(self.numbers), 1), axis=1), strict=False)
        }
        words = {name: (*self.declared.words[name], MISSING) for name in self.categories}
        categories = {
            name: groups.category(part, words[name]) for name, part in zip(self.categories, of_categories, strict=False)
        }
        is_whole = bool(shown.all()) and all(None not in found.values() for found in (numbers | categories).values())
        tables = [self._table_one(groups, numbers, categories), self._numbers(numbers)]
        tables += [self._tests(numbers, categories)] if self.by else []
        tables += self._correlations(sums[-self._of_products :], is_whole=is_whole)
        return Answer(
            title="Description of all records" + (f" by {self.by}" if self.by else ""),
            facts={"records": round(groups.records.sum()), "sites": int(state["reports"][0])},
            tables=tuple(tables),
            notes=self._notes(rows, is_whole=is_whole),
        )

    def _parts(self, state: State) -> FloatArray:
        """Return (groups, sums) what the records of each group have added."""
        sums = self.rounds(state)[0] / self.cap
        return np.asarray(sums[self.counted.length : -self._of_products].reshape(-1, self._of_group))

    @property
    def _of_group(self) -> int:
        """The number of sums of a group."""
        return 1 + len(self.numbers) * (MOMENTS + self.bins) + sum(self._sizes)

    @property
    def _of_products(self) -> int:
        """The number of products of two numbers, or of one with 1."""
        return (len(self.numbers) + 1) * (len(self.numbers) + 2) // 2

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
        sums = np.zeros(self._of_products, np.int64)
        for block in blocks(len(rows)):
            sums += whole(products(columns[block]), np.ones(1), self.cap).sum(axis=0)
        return sums

    def _table_one(self, groups: Groups, numbers: Mapping[str, Found], categories: Mapping[str, Found]) -> AnswerTable:
        """Return the table as papers print it: groups as columns."""
        rows: list[tuple[Cell, ...]] = [("records", *map(round, groups.of_all(groups.records).tolist()))]
        for name, found in numbers.items():
            rows.append((f"{name}, mean (SD)", *(each and each.moments() for each in found.values())))
            rows.append((f"{name}, median [Q1, Q3]", *(each and each.places() for each in found.values())))
        for name, found in categories.items():
            shown = [each for each in found.values() if each is not None]
            for word in shown[0] if shown else ():
                if word != MISSING or any(each[word] for each in shown):
                    rows.append((f"{name}: {word}, n (%)", *(each and _share(each, word) for each in found.values())))
        return AnswerTable("table1", ("column", *groups.labels), tuple(rows))

    def _numbers(self, numbers: Mapping[str, Found]) -> AnswerTable:
        titles = ("column", "group", "n", "missing", "mean", "SD", "Q1", "median", "Q3", "declared from", "to")
        rows: list[tuple[Cell, ...]] = [
            (name, label, int(found.known), int(found.missing), found.mean, found.std,
             *found.quartiles, *self.declared.bounds(name))
            for name, of_groups in numbers.items() for label, found in of_groups.items() if found is not None
        ]  # fmt: skip
        return AnswerTable("numbers", titles, tuple(rows))

    def _tests(self, numbers: Mapping[str, Found], categories: Mapping[str, Found]) -> AnswerTable:
        """Return the test of each column, that all groups are alike."""

        def of_groups(found: Found) -> list[Any]:
            return [each for label, each in found.items() if label != ALL and each is not None]

        rows: list[tuple[Cell, ...]] = [(name, *compared(of_groups(found))) for name, found in numbers.items()]
        for name, found in categories.items():
            counts = [[count for word, count in each.items() if word != MISSING] for each in of_groups(found)]
            rows.append((name, *independent(np.array(counts, ndmin=2))))
        return AnswerTable("tests", ("column", "test", "statistic", "df", "p"), tuple(rows))

    def _correlations(self, sums: FloatArray, *, is_whole: bool) -> list[AnswerTable]:
        """Return the table of correlations, if there are two numbers, and enough records that have all."""
        matrix = symmetric(sums, len(self.numbers) + 1)
        if len(self.numbers) < 2 or is_small(matrix[0, 0], self.least_count):
            return []
        count, means = matrix[0, 0], matrix[0, 1:] / matrix[0, 0]
        covariance = matrix[1:, 1:] / count - np.outer(means, means)
        deviations = np.sqrt(np.diag(covariance))
        values = covariance / np.outer(deviations, deviations)
        rows = ((name, *line) for name, line in zip(self.numbers, values.tolist(), strict=True))
        title = f"correlation of {count:,.0f}" if is_whole else "correlation"  # the count would tell of those left out
        return [AnswerTable("correlation", (title, *self.numbers), tuple(rows))]

    def _notes(self, rows: Rows, *, is_whole: bool) -> tuple[str, ...]:
        off = "a cell of the histogram" if self.least_count == 1 else "a block of cells of the histogram"
        notes = [f"medians and quartiles are off by less than {off}: each cell is {1 / self.bins:.3g} of the bounds"]
        if ungrouped := rows.missing.get(self.by, 0):
            notes.append(f"{ungrouped:,} records without {self.by} are left out of all groups")
        return (*notes, *rows.moved(self.least_count), *([] if is_whole else [FEW.format(self.least_count)]))


class Groups:
    """Groups of records that are shown, and what is shown of a column in each.

    Parameters
    ----------
    names
        Names of the groups; `ALL` is that of records without groups.
    records
        (groups,) how many records each has.
    least
        Least count that is shown.
    """

    def __init__(self, names: Sequence[str], records: FloatArray, least: int) -> None:
        self.names, self.records, self.least = names, records, least
        self.labels = names if names == [ALL] else [ALL, *names]

    def of_all(self, sums: FloatArray) -> FloatArray:
        """Return (groups, ...) sums with those of all groups before them, where there are groups."""
        return sums if self.labels is self.names else np.concatenate([sums.sum(axis=0, keepdims=True), sums])

    def number(self, sums: FloatArray, bounds: tuple[float, float]) -> dict[str, Number | None]:
        """Return what (groups, sums) tell of a number; None where few records have it."""
        known = ~is_small(sums[:, 0], self.least)
        if not known.any():
            return dict.fromkeys(self.labels)
        block = blocks_of(sums[known, MOMENTS:], self.least)
        rows = zip(self.of_all(sums[known]), self.of_all(self.records[known]).tolist(), strict=True)
        return self._by_label([Number.read(*each, bounds, block) for each in rows], known)

    def category(self, counts: FloatArray, words: Sequence[str]) -> dict[str, dict[str, float] | None]:
        """Return the counts of words, of which rare ones are merged; None where few records have any."""
        known = ~is_small(counts[:, :-1].sum(axis=1), self.least)
        if not known.any():
            return dict.fromkeys(self.labels)
        block = np.append(blocks_of(counts[known, :-1], self.least, is_ordered=False), len(words))
        places = [np.flatnonzero(block == each).tolist() for each in dict.fromkeys(block.tolist())]
        labels = [" or ".join(words[place] for place in each) for each in places]
        rows = self.of_all(counts[known])
        return self._by_label([dict(zip(labels, [row[at].sum() for at in places], strict=True)) for row in rows], known)

    def _by_label(self, read: list[T], known: NDArray[np.bool_]) -> dict[str, T | None]:
        """Return what was read by labels, with None for groups that are not known."""
        shown = [label for label, is_known in zip(self.names, known, strict=True) if is_known]
        found = dict(zip(shown if self.labels is self.names else [ALL, *shown], read, strict=True))
        return {label: found.get(label) for label in self.labels}


@dataclass(frozen=True, slots=True)
class Number:
    """A number in a group: how many records have and lack it, mean, standard deviation, quartiles."""

    known: float
    missing: float
    mean: float
    std: float
    quartiles: tuple[float, float, float]

    @classmethod
    def read(cls, sums: FloatArray, records: float, bounds: tuple[float, float], block: IntArray) -> Number:
        """Return what n, sum of u, sum of u^2 and a histogram tell, whose cells are merged into blocks."""
        (count, total, squares), cells = sums[:MOMENTS], in_blocks(sums[MOMENTS:], block)
        low, high = bounds
        center, half = (low + high) / 2, (high - low) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = total / count
            std = half * np.sqrt(np.maximum(squares - count * mean**2, 0.0) / (count - 1))
        widths = np.bincount(block) / len(block)
        first, median, third = (low + (high - low) * quantile(cells, share, widths) for share in QUARTILES)
        return cls(count, records - count, float(center + half * mean), float(std), (first, median, third))

    def moments(self) -> str:
        """Return mean and standard deviation as people read them."""
        return f"{self.mean:.4g} ({self.std:.3g})"

    def places(self) -> str:
        """Return median and quartiles as people read them."""
        first, median, third = self.quartiles
        return f"{median:.4g} [{first:.4g}, {third:.4g}]"


def quantile(cells: FloatArray, share: float, widths: FloatArray) -> float:
    """Return the place, from 0 to 1, below which a share of a histogram lies; NaN of an empty one.

    >>> quantile(np.array([0.0, 4.0, 4.0, 0.0]), 0.5, np.full(4, 0.25))
    0.5
    """
    reached = np.cumsum(cells)
    if not reached[-1] > 0:
        return float("nan")
    wanted = share * reached[-1]
    place = int(np.searchsorted(reached, wanted))
    before = reached[place] - cells[place]
    return float(widths[:place].sum() + widths[place] * (wanted - before) / cells[place])


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


def _share(counts: Mapping[str, float], word: str) -> str:
    total = sum(counts.values())
    return f"{counts[word]:,.0f} ({100 * counts[word] / total:.1f})" if total else "0"
