"""Twins of analyses with noise: each record is protected by pure epsilon, and intervals contain the noise.

Add or remove one record of one node. All is one release, of whole numbers with geometric noise, so that it costs
``privacy.epsilon`` once (`fedlearn.models.sums` says whose noise protects).

* ``dp-kaplan-meier``: a complete record adds 1 to one number, the events or the other ends of its group and time: the
  L1 norm is 1. Records at risk are sums of these from a time on, which cost nothing more.
* ``dp-describe``: a record lies in one group, and adds there what `fedlearn.statistics.column_histograms` says.

*Noise in a curve.* Let each count have noise of variance s^2. With a_j = d_j / (n_j (n_j - d_j)), log S(t) = sum of
log (1 - d_j / n_j) over t_j <= t changes with the number of other ends at t_i by the sum of a_j over t_j up to t and
t_i, and with that of events by as much less 1 / (n_i - d_i) if t_i <= t. The variance of log S(t) is Greenwood's and
s^2 times the sum of their squares; the band is exp(log S -+ q sqrt(variance)), inside 0 and 1. Where fewer are at risk
than `SURE` deviations of their noise the curve ends.

*Noise in a mean.* A mean m = total / n of values from 0 to 1 has the variance (v + s^2 (1 + 2 m^2) / n) / n: v of the
values, s^2 in the total and in each of the two counts that n is the difference of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from scipy.special import ndtri

from fedlearn.core.errors import UsageError
from fedlearn.core.metric import EPSILON
from fedlearn.core.metrics import Metrics
from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples, TableSchema
from fedlearn.runs.analysis_answers import Answer, AnswerTable, Cell
from fedlearn.statistics.analysis import Analysis
from fedlearn.statistics.coefficients import interval_titles
from fedlearn.statistics.column_histograms import UNIT, Columns, Histogram
from fedlearn.statistics.describe import ALL, QUARTILES, quantile
from fedlearn.statistics.design import FloatArray, IntArray
from fedlearn.statistics.survival import Curves, LifeTable

SURE = 4.0  # least ratio of the records at risk to the deviation of their noise
NOISY = "each count has noise of standard deviation {:.4g}; intervals contain it"


class Noisy(Analysis):
    """Base class of analyses with noise."""

    metrics = Metrics((EPSILON,), ())
    not_taken: ClassVar[tuple[str, ...]] = ("least_count",)  # noise hides each record in every count

    def fit(self, tables: Sequence[Examples]) -> Answer:
        """Raise `UsageError`: a run draws the noise, and books what it costs."""
        raise UsageError(f"{self.name} has noise, which a run draws: fedlearn.run(clients=1, model={self.name!r}, ...)")


class NoisyKaplanMeier(Curves, Noisy):
    """Kaplan-Meier curves with noise in each count."""

    name = "dp-kaplan-meier"

    most_times = 2000  # the variance is that of all pairs of times

    def length(self, round_number: int) -> int:
        """Return the number of counts: events and other ends of each group and time."""
        return 2 * len(self.groups) * self.grid.size

    def unit(self, round_number: int) -> int:
        """Return 1: a record adds 1 to one count."""
        return 1

    def asked(self, state: State, examples: Examples) -> IntArray:
        """Return (length,) the counts of these records."""
        return self.cells(self.counted.taken(examples)[0])

    def answer(self, state: State) -> Answer:
        """Return curves, medians, restricted means and numbers at risk."""
        released = self.released(state)[0]
        left, events = released.sums.reshape(2, len(self.groups), self.grid.size).astype(np.float64)
        lives = [self._life_of(*each, released.variance) for each in zip(events, left, strict=True)]
        notes = [NOISY.format(np.sqrt(released.variance)), "no log-rank test is computed with noise"]
        notes += ["a curve ends where fewer are at risk than four deviations of their noise"]
        return self.shown(state, dict(zip(self.groups, lives, strict=True)), (), notes)

    def _life_of(self, events: FloatArray, left: FloatArray, noise: float) -> LifeTable:
        """Return the survival of a group by counts with noise of a variance, as far as it is sure."""
        at_risk = np.cumsum((events + left)[::-1])[::-1]
        counts = 2 * np.arange(len(events), 0, -1)  # that each number at risk is the sum of
        unsure = np.flatnonzero(at_risk - events < SURE * np.sqrt(noise * counts))
        known = int(unsure[0]) if unsure.size else len(events)
        blur = noise * (slopes(events[:known], at_risk[:known], len(events)) ** 2).sum(axis=1)
        return LifeTable(self.grid.times[:known], events[:known], at_risk, self.level, blur)


def slopes(events: FloatArray, at_risk: FloatArray, counts: int) -> FloatArray:
    """Return (K, 2 * counts) the change of log S at each time with the events, and the other ends, of each count."""
    size, alive = len(events), at_risk - events
    shared = np.cumsum(events / (at_risk * alive))
    of_left = shared[np.minimum.outer(np.arange(size), np.arange(counts))] if size else np.zeros((0, counts))
    of_events = of_left.copy()
    of_events[:, :size] -= np.tril(np.ones((size, size))) / alive
    return np.hstack([of_events, of_left])


class NoisyDescribe(Noisy):
    """Description of declared columns by group, with noise in each sum.

    Parameters
    ----------
    schema
        Declared columns and target of the table.
    by : str, default=""
        Column of categories by which records are grouped; its missing values are left out.
    columns : list of str, default=[]
        Columns that are described; all but `by` unless given. Each costs a share of epsilon.
    bins : int, default=20
        Cells of the histogram of a number.
    level : float, default=0.95
        Of the intervals of means.
    """

    name = "dp-describe"

    def __init__(
        self,
        schema: TableSchema,
        *,
        by: str = "",
        columns: Sequence[str] = (),
        bins: Annotated[int, Field(ge=1, le=1000)] = 20,
        level: Annotated[float, Field(gt=0, lt=1)] = 0.95,
    ) -> None:
        super().__init__(schema)
        self.by, self.level = self.declared.check("by", by, of="words") if by else "", level
        self.groups = self.declared.words[by] if by else (ALL,)
        chosen = columns or [name for name in self.declared.names if name != by]
        self._columns = Columns(schema, bins, [self.declared.check("columns", name) for name in chosen])

    def length(self, round_number: int) -> int:
        """Return the number of sums: those of all columns, for each group."""
        return len(self.groups) * self._columns.length

    def unit(self, round_number: int) -> int:
        """Return the most that a record adds to the sums, in the L1 norm: it lies in one group."""
        return self._columns.most

    def most_of_one(self, round_number: int) -> int:
        """Return the most that a record adds to a single sum."""
        return UNIT

    def asked(self, state: State, examples: Examples) -> IntArray:
        """Return (length,) the sums of these records."""
        group = self.declared.raw(self.by, examples) if self.by else np.zeros(len(examples))
        parts = [examples.at(np.flatnonzero(group == place)) for place in range(len(self.groups))]
        return np.concatenate([self._columns.sums(part.inputs, part.targets) for part in parts])

    def answer(self, state: State) -> Answer:
        """Return means with intervals, deviations, quartiles and counts."""
        released = self.released(state)[0]
        parts = np.split(released.sums, len(self.groups))
        found = [self._columns.read(part, released.variance) for part in parts]
        columns = [(name, group, each) for group, each in zip(self.groups, found, strict=True) for name in each.columns]
        noise, ends = float(np.sqrt(released.variance)) / UNIT, interval_titles(self.level)
        words = self.declared.words
        numbers: list[tuple[Cell, ...]] = [
            (name, group, *self._number(name, each.columns[name], each.count, noise))
            for name, group, each in columns if name not in words
        ]  # fmt: skip
        counts: list[tuple[Cell, ...]] = [
            (name, group, label, float(count))
            for name, group, each in columns if name in words
            for label, count in zip(each.columns[name].labels, each.columns[name].counts, strict=True)
        ]  # fmt: skip
        titles = ("column", "group", "n", "missing", "mean", "std err", *ends, "SD", "Q1", "median", "Q3")
        return Answer(
            title="Description of all records" + (f" by {self.by}" if self.by else ""),
            facts={"records": round(sum(each.count for each in found)), "sites": int(state["reports"][0])},
            tables=(
                AnswerTable("numbers", titles, tuple(numbers)),
                AnswerTable("categories", ("column", "group", "category", "n"), tuple(counts)),
            ),
            notes=(NOISY.format(noise),),
        )

    def _number(self, name: str, column: Histogram, count: float, noise: float) -> tuple[Cell, ...]:
        """Return n, missing, mean, its error and interval, deviation and quartiles."""
        (low, high), known = self.declared.bounds(name), max(count - column.counts[-1], 1.0)
        place, spread = (column.mean - low) / (high - low), column.std / (high - low)
        spread = spread if np.isfinite(spread) else 0.5  # the largest that values from 0 to 1 can have
        error = (high - low) * np.sqrt((spread**2 + noise**2 * (1 + 2 * place**2) / known) / known)
        reach = float(ndtri((1 + self.level) / 2) * error)
        cells, widths = np.maximum(column.counts[:-1], 0), np.diff(self._columns.edges[name]) / (high - low)
        quartiles = [low + (high - low) * quantile(cells, share, widths) for share in QUARTILES]
        ends = (column.mean - reach, column.mean + reach)
        return (round(known), round(column.counts[-1]), column.mean, float(error), *ends, column.std, *quartiles)
