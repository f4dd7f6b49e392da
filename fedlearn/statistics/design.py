"""Columns of a declared table as numbers, and the design matrix of a regression, by what is declared alone.

A number x with declared bounds [a, b] enters a regression as (x - (a + b) / 2) / ((b - a) / 2), from -1 to 1. A
category enters as one column for each category but the reference: 1 where the record has it, else 0. So each entry of
the matrix is at most 1 in size, whatever the data, and what a record adds to a sum is bounded. Results are turned back
into the columns' own units (`Design.in_own_units`).

A value outside its bounds is moved to the nearer bound, and counted. A record that lacks one of the columns is left
out, and counted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import Examples, TableSchema
from fedlearn.plugins.registry import did_you_mean
from fedlearn.runs.analysis_answers import INTERCEPT

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Declared:
    """The columns of a table by their names, targets as well as features.

    Parameters
    ----------
    schema
        Declared bounds, categories and target.
    """

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.names = (*schema.features, *schema.learned)
        self.words = schema.words
        self._bounds = {**schema.bounds, **schema.ranges}

    def check(self, setting: str, name: str, *, of: str = "") -> str:
        """Return the name of a declared column; raise `SettingError` for any other, or one that is not of a kind.

        Parameters
        ----------
        of
            ``"words"`` or ``"numbers"``, where the column must be of that kind.
        """
        option = f"model.options.{setting}"
        if name not in self.names:
            known = f"choose one of {', '.join(self.names)}{did_you_mean(name, self.names)}"
            raise SettingError(option, name, f"no such column is declared: {known}")
        if of and (of == "words") is not (name in self.words):
            kind, instead = ("numbers", "categories") if of == "words" else ("words", "bounds")
            raise SettingError(option, name, f"the column holds {kind}: declare {instead} for it, or name another one")
        return name

    def bounds(self, name: str) -> tuple[float, float]:
        """Return the declared bounds of a number; of words, their first and last place."""
        if name in self.words:
            return 0.0, len(self.words[name]) - 1.0
        low, high, *_ = self._bounds[name]
        return float(low), float(high)

    def raw(self, name: str, examples: Examples) -> FloatArray:
        """Return (rows,) a column as it stands: numbers, or places among the declared words; NaN where it is missing.

        A place that is not declared is missing.
        """
        features, learned = self.schema.features, self.schema.learned
        if name in features:
            values = examples.inputs[:, features.index(name)].astype(np.float64)
        else:
            values = np.atleast_2d(examples.targets.T)[learned.index(name)].astype(np.float64)
        if name in self.words:
            return np.where((values >= 0) & (values < len(self.words[name])), values, np.nan)
        return np.asarray(np.where(np.isfinite(values), values, np.nan))

    def values(self, name: str, examples: Examples) -> FloatArray:
        """Return (rows,) a column with its numbers within their bounds; NaN where it is missing."""
        return np.asarray(np.clip(self.raw(name, examples), *self.bounds(name)))


class Counted:
    """How many records lack each of some columns, and how many lie outside its bounds: a record is counted in each.

    Parameters
    ----------
    declared
        The columns of the table.
    names
        Those that an analysis uses.
    compared
        Columns of categories of which the complete records are counted by category.
    """

    def __init__(self, declared: Declared, names: Sequence[str], compared: Collection[str] = ()) -> None:
        self.declared, self.compared = declared, tuple(compared)
        self.names = tuple(dict.fromkeys(names))
        self.ends = np.cumsum([2 + 2 * len(self.names), *(len(declared.words[name]) for name in self.compared)])
        self.length = int(self.ends[-1])

    def taken(self, examples: Examples) -> tuple[Examples, IntArray]:
        """Return the records that have all columns, and (length,) counts.

        Counted are the records, the complete ones, those that lack each column or lie outside of it, and categories.
        """
        complete, counts = np.ones(len(examples), bool), []
        for name in self.names:
            values, (low, high) = self.declared.raw(name, examples), self.declared.bounds(name)
            missing = np.isnan(values)
            complete &= ~missing
            counts += [missing.sum(), ((values < low) | (values > high)).sum()]
        rows = examples if complete.all() else examples.at(np.flatnonzero(complete))
        for name in self.compared:
            places = self.declared.raw(name, rows).astype(np.int64)
            counts += np.bincount(places, minlength=len(self.declared.words[name])).tolist()
        return rows, np.array([len(examples), len(rows), *counts], np.int64)

    def read(self, counts: FloatArray) -> Rows:
        """Return what (length,) summed counts tell."""
        of_records, *by_category = np.split(np.rint(counts).astype(int), self.ends[:-1])
        records, complete, *others = of_records.tolist()
        missing, outside = (dict(zip(self.names, others[at::2], strict=True)) for at in (0, 1))
        categories = {
            f"{name}: {word}": int(count)
            for name, counted in zip(self.compared, by_category, strict=True)
            for word, count in zip(self.declared.words[name], counted, strict=True)
        }
        return Rows(records, complete, missing, outside, categories)


@dataclass(frozen=True, slots=True)
class Rows:
    """How many records an analysis has used, and why it has left others out.

    Parameters
    ----------
    records, used
        Records of all nodes; those with a value in each column.
    missing, outside
        Column -> records that lack it; records whose number was moved to the nearer declared bound.
    categories
        Category, as it is shown -> the complete records that have it.
    """

    records: int
    used: int
    missing: Mapping[str, int]
    outside: Mapping[str, int]
    categories: Mapping[str, int]

    def lines(self, least: int) -> list[str]:
        """Return a line for the records that were left out, and one for the values that were moved to a bound."""
        why = ", ".join(f"{name} ({count:,})" for name, count in self.missing.items() if count)
        left_out = self.records - self.used
        return [*([f"{left_out:,} records are left out, as they lack {why}"] if left_out else []), *self.moved(least)]

    def moved(self, least: int) -> list[str]:
        """Return a line for the values that were moved to a bound, in which no count is below the least one."""
        counts = [(name, count) for name, count in self.outside.items() if count]
        where = ", ".join(f"{name} ({f'{n:,}' if n >= least else f'fewer than {least}'})" for name, n in counts)
        return [f"values outside the declared bounds were moved to the nearer bound: {where}"] if where else []

    def too_few(self, least: int) -> str:
        """Return why a regression of these records may not be shown; empty where it may."""
        counts = {"all columns": self.used, **{repr(name): count for name, count in self.categories.items()}}
        few = next((name for name, count in counts.items() if 0 < count < least), "")
        return few and f"fewer than model.options.least_count = {least} records have {few}: leave it out"


class Design:
    """The design matrix of a regression, in columns of size at most 1.

    Parameters
    ----------
    declared
        The columns of the table.
    columns
        Names of the columns that the regression has.
    reference
        Column of categories -> the category that the others are compared with; the first unless given.
    intercept
        Whether a first column of ones is added.
    """

    def __init__(
        self, declared: Declared, columns: Sequence[str], reference: Mapping[str, str], *, intercept: bool
    ) -> None:
        self.declared = declared
        self.columns = tuple(declared.check("columns", name) for name in columns)
        self.intercept = intercept
        self.references = {name: self._reference(name, reference) for name in columns if name in declared.words}
        if strange := [name for name in reference if name not in self.references]:
            why = "it is no column of categories in this regression: leave it out"
            raise SettingError("model.options.reference", strange[0], why)
        self.terms = [term for name in self.columns for term in self._terms(name)]
        self.names = [*([INTERCEPT] if intercept else []), *(f"{n}: {w}" if w else n for n, w in self.terms)]
        self.size = len(self.names)
        if not self.terms:
            raise SettingError("model.options.columns", list(columns), "a regression needs at least one column")

    def matrix(self, examples: Examples) -> FloatArray:
        """Return (rows, size) the matrix; NaN where a column is missing."""
        return np.column_stack(self.scaled(examples))

    def scaled(self, examples: Examples) -> list[FloatArray]:
        """Return the columns of the matrix."""
        ones = [np.ones(len(examples))] if self.intercept else []
        return [*ones, *(each for name in self.columns for each in self._scaled(name, examples))]

    def largest(self, coefficients: FloatArray) -> float:
        """Return the most that the linear predictor can be, in size, for any record within the declared bounds."""
        first = int(self.intercept)
        low = high = float(coefficients[0]) if self.intercept else 0.0
        for name in self.columns:
            own = coefficients[first : first + len(self._terms(name))]
            first += len(own)
            is_words = name in self.declared.words
            low += float(min(0.0, own.min(initial=0.0))) if is_words else -abs(float(own[0]))
            high += float(max(0.0, own.max(initial=0.0))) if is_words else abs(float(own[0]))
        return max(-low, high)

    def compared(self) -> list[str]:
        """Return a line for each column of categories: which one the others are compared with."""
        return [f"{name} is compared with {word!r}" for name, word in self.references.items()]

    def in_own_units(self) -> FloatArray:
        """Return (size, size) the matrix A that turns coefficients b of the scaled columns into those of the units.

        A column (x - c) / h has the coefficient b, hence x has b / h, and the intercept loses b c / h.
        """
        first = int(self.intercept)
        matrix = np.eye(self.size)
        for place, (name, word) in enumerate(self.terms, first):
            center, half = (0.0, 1.0) if word else self._scale(name)
            matrix[place, place] = 1 / half
            if self.intercept:
                matrix[0, place] = -center / half
        return matrix

    def _reference(self, name: str, given: Mapping[str, str]) -> str:
        words = self.declared.words[name]
        if (chosen := given.get(name, words[0])) not in words:
            raise SettingError("model.options.reference", chosen, f"{name} has {', '.join(words)}: name one of them")
        return chosen

    def _terms(self, name: str) -> list[tuple[str, str]]:
        words = self.declared.words.get(name, ())
        return [(name, word) for word in words if word != self.references[name]] if words else [(name, "")]

    def _scale(self, name: str) -> tuple[float, float]:
        low, high = self.declared.bounds(name)
        return (low + high) / 2, (high - low) / 2

    def _scaled(self, name: str, examples: Examples) -> list[FloatArray]:
        values = self.declared.values(name, examples)
        if name not in self.declared.words:
            center, half = self._scale(name)
            return [(values - center) / half]
        places = [self.declared.words[name].index(word) for _, word in self._terms(name)]
        return [np.where(np.isnan(values), np.nan, values == place) for place in places]
