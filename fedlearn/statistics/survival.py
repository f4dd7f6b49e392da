"""Kaplan-Meier curves of all records, with the log-rank test, from two counts for each time and group: one round.

At time t_j let d_j records have the event, c_j leave without it, and n_j be at risk: all whose time is not before t_j.

* Survival: S(t) = prod over t_j <= t of (1 - d_j / n_j) (Kaplan and Meier 1958, doi:10.1080/01621459.1958.10501452).
* Its variance: S^2 V, V = sum of d_j / (n_j (n_j - d_j)) (Greenwood 1926). The band is that of log(-log S):
  S ^ exp(-+ q sqrt(V) / log S), inside 0 and 1.
* Median: the first time at which S <= 1 / 2; its interval: where the band crosses 1 / 2.
* Restricted mean up to tau: the area below S; variance sum of A_j^2 d_j / (n_j (n_j - d_j)) with the area A_j below S
  from t_j to tau (Klein and Moeschberger 2003, section 4.5).
* Log-rank: in group g, events expected d_j n_gj / n_j; covariance d_j (n_j - d_j) / (n_j - 1) times
  n_gj / n_j (1[g = h] - n_hj / n_j); chi-square with one degree less than groups (Mantel 1966).

Times with small counts are merged with later ones (`fedlearn.statistics.small_cells`): the answer is that of a coarser grid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import chdtrc, ndtri

from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples, TableSchema
from fedlearn.models.model import Finished
from fedlearn.runs.analysis_answers import Answer, AnswerTable, Cell, Curve
from fedlearn.statistics.analysis import Analysis, Exact
from fedlearn.statistics.coefficients import interval_titles
from fedlearn.statistics.design import Counted, FloatArray, IntArray
from fedlearn.statistics.grid import MOST_TIMES, TimeGrid
from fedlearn.statistics.small_cells import LEAST, blocks_of, in_blocks, is_small, nothing_to_show

HALF = 0.5 + 1e-12  # a survival of one half may be rounded up
MARKS = 6  # times at which numbers at risk are shown
MERGED = (
    "times are merged into {:,}, so that neither events nor other ends are fewer than {} at one, unless 0: "
    "medians may be late, and a restricted mean is too long by up to {:.3g}"
)
FEW = "groups with fewer than {} events, or other ends, are left out, of totals as well, unless they have none"


class Curves(Analysis):
    """Survival curves, by group: what they are with noise and without.

    Parameters
    ----------
    schema
        Declared columns and target of the table.
    event : str
        Column that says whether the event happened: two categories, the second is the event, or bounds 0 and 1.
    duration : str, default=""
        Column of times; the target unless given.
    by : str, default=""
        Column of categories: a curve for each, and the log-rank test.
    step : float, default=1.0
        Distance of two times of the grid, which begins at the lower bound of `duration`.
    restricted : float, default=0.0
        Time up to which the mean is taken; the last time of the grid if 0.
    level : float, default=0.95
        Of bands and intervals.
    least_count : int, default=5
        Least number of records in a cell that is shown; 1 shows all.
    """

    most_times = MOST_TIMES

    def __init__(
        self,
        schema: TableSchema,
        *,
        event: str = "",
        duration: str = "",
        by: str = "",
        step: Annotated[float, Field(gt=0)] = 1.0,
        restricted: Annotated[float, Field(ge=0)] = 0.0,
        level: Annotated[float, Field(gt=0, lt=1)] = 0.95,
        least_count: Annotated[int, Field(ge=1)] = LEAST,
    ) -> None:
        super().__init__(schema)
        of_times = duration or schema.learned[0]
        self.grid = TimeGrid(self.declared, duration=of_times, event=event, step=step, most=self.most_times)
        self.by = self.declared.check("by", by, of="words") if by else ""
        self.groups = self.declared.words[by] if by else ("",)
        self.counted = Counted(self.declared, [self.grid.duration, self.grid.event, *([by] if by else [])])
        self.level, self.restricted = level, restricted or float(self.grid.times[-1])
        self.least_count = least_count

    def cells(self, rows: Examples) -> IntArray:
        """Return (cells,) the counts of complete records: other ends, then events, by group and time."""
        group = self.declared.values(self.by, rows).astype(np.int64) if self.by else np.zeros(len(rows), np.int64)
        cell = (self.grid.events(rows) * len(self.groups) + group) * self.grid.size + self.grid.cells(rows)
        return np.bincount(cell, minlength=2 * len(self.groups) * self.grid.size)

    def shown(
        self, state: State, lives: Mapping[str, LifeTable], more: Sequence[AnswerTable], notes: Sequence[str]
    ) -> Answer:
        """Return the answer with the life table of each group."""
        return Answer(
            title=f"Kaplan-Meier curves of {self.grid.duration}" + (f" by {self.by}" if self.by else ""),
            facts={
                "records": round(sum(life.at_risk[0] for life in lives.values())),
                "events": round(sum(life.events.sum() for life in lives.values())),
                "sites": int(state["reports"][0]),
                "grid": f"{self.grid.size:,} times, {self.grid.step:g} apart",
            },
            tables=(self._survival(lives), self._at_risk(lives), self._life(lives), *more),
            curves=tuple(life.curve(name) for name, life in lives.items()),
            notes=tuple(notes),
        )

    def _survival(self, lives: Mapping[str, LifeTable]) -> AnswerTable:
        ends = interval_titles(self.level)
        titles = ["group", "records", "events", "median", *(f"median {end}" for end in ends)]
        until = self.restricted
        titles += [f"mean to {until:g}", "std err"]
        rows: list[tuple[Cell, ...]] = [
            (name or "all", round(life.at_risk[0]), round(life.events.sum()), *life.medians(), *life.mean(until))
            for name, life in lives.items()
        ]
        return AnswerTable("survival", tuple(titles), tuple(rows))

    def _at_risk(self, lives: Mapping[str, LifeTable]) -> AnswerTable:
        """Return the records at risk at a few times."""
        times = max((life.times for life in lives.values()), key=len)
        marks = np.linspace(0, len(times) - 1, MARKS if len(times) else 0)
        places = np.unique(marks.round().astype(int))
        titles = ("at risk", *(f"{time:g}" for time in times[places]))
        rows: list[tuple[Cell, ...]] = [
            (name or "all", *(round(n) for n in life.at_risk[places])) for name, life in lives.items()
        ]
        return AnswerTable("at_risk", titles, tuple(rows))

    def _life(self, lives: Mapping[str, LifeTable]) -> AnswerTable:
        """Return the life table: what is known at each time with an event."""
        ends = interval_titles(self.level)
        rows: list[tuple[Cell, ...]] = [(name or "all", *row) for name, life in lives.items() for row in life.rows()]
        titles = ("group", self.grid.duration, "at risk", "events", "survival", "std err", *ends)
        return AnswerTable("life", titles, tuple(rows))


class KaplanMeier(Curves, Exact):
    """Kaplan-Meier curves of exact counts."""

    name = "kaplan-meier"

    def length(self, round_number: int) -> int:
        """Return the number of counts: of records, and of events and of other ends for each group and time."""
        return self.counted.length + 2 * len(self.groups) * self.grid.size

    def asked(self, state: State, examples: Examples) -> IntArray:
        """Return (length,) the counts of these records."""
        rows, counts = self.counted.taken(examples)
        return np.concatenate([counts, self.cells(rows)]) * self.cap

    def progress(self, state: State) -> Finished:
        """Return that all counts are there, or that none may be shown."""
        _, counts = self._counts(state)
        return super().progress(state) if self._is_shown(counts).any() else nothing_to_show(self.least_count)

    def answer(self, state: State) -> Answer:
        """Return curves, medians, restricted means, numbers at risk and the log-rank test, of merged times."""
        rows, counts = self._counts(state)
        is_shown = self._is_shown(counts)
        names = [name for name, shown in zip(self.groups, is_shown, strict=True) if shown]
        block = blocks_of(counts[:, is_shown].reshape(-1, self.grid.size), self.least_count)
        left, events = in_blocks(counts[:, is_shown], block)
        times = self.grid.times[np.searchsorted(block, np.arange(block[-1] + 1), side="right") - 1]
        at_risk = np.cumsum((events + left)[:, ::-1], axis=1)[:, ::-1]
        lives = [LifeTable(times, *each, self.level) for each in zip(events, at_risk, strict=True)]
        test = [log_rank(names, events, left)] if self.by and events.any() else []
        notes = self.counted.read(rows).lines(self.least_count)
        if len(times) < self.grid.size:
            blur = max(life.blur_of_mean(self.grid.step) for life in lives)
            notes.append(MERGED.format(len(times), self.least_count, blur))
        notes += [] if is_shown.all() else [FEW.format(self.least_count)]
        return self.shown(state, dict(zip(names, lives, strict=True)), test, notes)

    def _counts(self, state: State) -> tuple[FloatArray, FloatArray]:
        """Return the counts of records, and (2, groups, times) those of other ends and events."""
        counts = self.rounds(state)[0] / self.cap
        rows, cells = counts[: self.counted.length], counts[self.counted.length :]
        return rows, cells.reshape(2, len(self.groups), self.grid.size)

    def _is_shown(self, counts: FloatArray) -> NDArray[np.bool_]:
        """Return (groups,) whether neither events nor other ends of a group are few."""
        return np.asarray(~is_small(counts.sum(axis=2), self.least_count).any(axis=0))


class LifeTable:
    """The survival of one group, and what follows from it.

    Parameters
    ----------
    times, events, at_risk
        Times; records with the event, and records at risk, at each. With noise, `times` and `events` may end earlier.
    level
        Of bands and intervals.
    blur
        Variance of log S at each time by the noise in the counts; 0 without noise.
    """

    def __init__(
        self, times: FloatArray, events: FloatArray, at_risk: FloatArray, level: float, blur: FloatArray | float = 0.0
    ) -> None:
        self.times, self.events, self.at_risk, n = times, events, at_risk, at_risk[: len(times)]
        with np.errstate(all="ignore"):
            self._increments = np.where(events != 0, events / (n * (n - events)), 0.0)
            self.survival = np.cumprod(1 - np.where(n > 0, events / n, 0.0))
            self.variance = np.maximum(np.cumsum(self._increments), 0) + blur  # V: that of log S
            reach = ndtri((1 + level) / 2) * np.sqrt(self.variance)
            if np.any(blur):  # log(-log S) may not exist
                ends = self.survival * np.exp(-reach), self.survival * np.exp(reach)
            else:
                ends = tuple(self.survival ** np.exp(side * reach / np.log(self.survival)) for side in (-1, 1))
        self.survival, self.lower, self.upper = (np.clip(each, 0, 1) for each in (self.survival, *ends))
        flat = ((self.survival == 1) | (self.survival == 0)) & (not np.any(blur))  # where log(-log S) is not finite
        self.lower[flat] = self.upper[flat] = self.survival[flat]

    @property
    def error(self) -> FloatArray:
        """(K,) Greenwood's standard error of the survival."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(self.survival > 0, self.survival * np.sqrt(self.variance), 0.0))

    def rows(self) -> list[tuple[Cell, ...]]:
        """Return time, records at risk, events, survival, its standard error and band, at each time with an event."""
        columns = (self.at_risk[: len(self.times)], self.events, self.survival, self.error, self.lower, self.upper)
        return [
            (float(self.times[at]), round(n), round(d), *map(float, others))
            for at in np.flatnonzero(self.events)
            for n, d, *others in ([column[at] for column in columns],)
        ]

    def medians(self) -> tuple[Cell, Cell, Cell]:
        """Return the median, and its interval; None where half of the records outlive the grid."""
        found = [np.flatnonzero(each <= HALF) for each in (self.survival, self.lower, self.upper)]
        median, low, high = (float(self.times[each[0]]) if each.size else None for each in found)
        return median, low, high

    def mean(self, until: float) -> tuple[Cell, Cell]:
        """Return the restricted mean up to a time, and its standard error; None beyond the end of the curve."""
        if not len(self.times) or until > self.times[-1]:
            return None, None
        at = np.concatenate([[min(0.0, self.times[0])], self.times])
        width = np.diff(np.append(np.minimum(at, until), until))  # from each time to the next, and to the end
        areas = width * np.concatenate([[1.0], self.survival])
        below = np.cumsum(areas[::-1])[::-1][1:]  # from t_j on
        known = (self.events > 0) & (below > 0)
        return float(areas.sum()), float(np.sqrt(below[known] ** 2 @ self._increments[known]))

    def blur_of_mean(self, step: float) -> float:
        """Return by how much a restricted mean is longer than on a grid of some step, at most."""
        return float(-np.diff(self.survival) @ np.maximum(np.diff(self.times) - step, 0.0))

    def curve(self, name: str) -> Curve:
        """Return the curve with its band, at the times at which it falls, and at its ends."""
        shown = self.events > 0
        shown[:1] = shown[-1:] = True
        columns = (self.times, self.survival, self.lower, self.upper)
        return Curve(name, *(tuple(each[shown].tolist()) for each in columns))


def log_rank(groups: Sequence[str], events: FloatArray, left: FloatArray) -> AnswerTable:
    """Return observed and expected events of each group, and the test that all have one hazard.

    Parameters
    ----------
    events, left
        (groups, K) records with the event, and without it, by time.
    """
    at_risk = np.cumsum((events + left)[:, ::-1], axis=1)[:, ::-1]
    d, n = events.sum(axis=0), at_risk.sum(axis=0)
    used = (d > 0) & (n > 1)
    share = at_risk[:, n > 0] / n[n > 0]
    expected = share @ d[n > 0]
    p, weight = at_risk[:, used] / n[used], d[used] * (n - d)[used] / (n - 1)[used]
    covariance = np.diag(p @ weight) - (p * weight) @ p.T
    present = [place for place, total in enumerate(at_risk[:, 0]) if total > 0][:-1]
    difference = (events.sum(axis=1) - expected)[present]
    inverse = np.linalg.pinv(covariance[np.ix_(present, present)])
    chi2 = float(difference @ inverse @ difference)
    chance = float(chdtrc(len(present), chi2)) if present else None
    rows: list[tuple[Cell, ...]] = [
        (name, int(observed), float(expects), None, None, None)
        for name, observed, expects in zip(groups, events.sum(axis=1), expected, strict=True)
    ]
    rows.append(("log-rank test", int(d.sum()), float(expected.sum()), chi2, len(present), chance))
    return AnswerTable("log_rank", ("group", "events", "expected", "chi2", "df", "p"), tuple(rows))
