"""The proportional hazards model of Cox with noise, of at most `MOST_TERMS` columns and `MOST_TIMES` times of the grid.

*Round 1* counts the events and the other ends at each time, and sums the columns x. From these follow the mean columns
m, hazards h, and how long records are followed: as long as enough are at risk, and the sum of h is at most `LONGEST`.

*Each further round* takes a step of Newton's method at public coefficients b. For a record of time T let d be 1 with
the event, else 0, and r = exp((x - m)'b); its weight w depends on its columns alone. H is the sum of h up to T, of
which the last counts half with the event. The record adds w d, w r and w r (x - m) to the cells of its time,
w (d - H r) (x - m) to the score u, and w d (x - m) (x - m)' to the information I. Sums over cells from a time on are
those at risk: S0, S1. A record with the event counts half at its own time, which is Efron's rule for ties with each
f = 1/2 (`fedlearn.statistics.cox`). With the events D of a time and e = S1 / S0, score and information of the
likelihood are

    U = u - sum over times of e (D - h S0)          J = I - sum over times of D e e'

U does not depend on h: what h S0 e adds to it is in u. So x enters by sums of all records, with the noise of one
number, and not by as many cells as there are times. J is the sum of squares over events, whose mean is the
information.

*What a record adds.* Let s be the sum of the sizes of x - m, L the largest H, R the largest r but at most `HEAVIEST`,
and c `REACH` times the number of columns, at least 1. The weight keeps w r at most R, w r s at most R c, w s and
w s L r at most c and c L R, whichever is larger, and w s (s + 1) / 2 at most c (c + 1) / 2. So each of the five is
bounded in the L1 norm, and gets its share of one `UNIT` (`SHARES`); in round 1 counts and columns do (`FIRST`). Parts
are rounded towards zero: those of a record come to at most one `UNIT`, whatever coefficients, hazards and means are.
Weights that depend on columns alone leave the solution where it is if the model is right (Binder 1992,
doi:10.1093/biomet/79.1.139).

*Standard errors.* To first order b + J^-1 U is off by J^-1 times the error of sampling, whose variance is at most J,
and the noise in U less that in J times the last step t. Let v_c and G_c be the sums over times up to c of e (1 - 2
e't) D / S0 and of (h - D / S0 + D / S0 e't) 1 + D / S0 e t'. The noise of D, S0, S1, u and I, of variance s_D^2 and so
on in one number, has

    s_D^2 sum of (1 - e't)^2 e e' + s_0^2 sum of v_c v_c' + s_1^2 sum of G_c G_c' + s_u^2 1
    + s_I^2 (|t|^2 1 + t t' - diag t^2)

With noisy e, D and S0 the first three sums contain the products of the noise of S1 with that of D and S0 twice: once is
taken off (`Seen._twice`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
from pydantic import Field

from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError
from fedlearn.core.metric import EPSILON
from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples, TableSchema
from fedlearn.models.model import Finished
from fedlearn.runs.analysis_answers import Answer
from fedlearn.statistics.analysis import products, symmetric
from fedlearn.statistics.coefficients import coefficient_table
from fedlearn.statistics.column_histograms import UNIT
from fedlearn.statistics.design import Counted, Design, FloatArray, IntArray
from fedlearn.statistics.grid import TimeGrid
from fedlearn.statistics.noisy_analyses import SURE, Noisy
from fedlearn.statistics.private_glm import BELOW, FARTHEST, TOO_NOISY, WEIGHTED
from fedlearn.statistics.private_glm import SURE as SURE_INFORMATION

MOST_TERMS, MOST_TIMES, LEAST_ROUNDS = 5, 50, 2
REACH = 0.4  # mean size of columns up to which a record counts in full
HEAVIEST = 1.5  # r up to which a record counts in full
LONGEST = 1.5  # H up to which records are followed
FIRST = (0.6, 0.4)  # in round 1, of counts and columns
SHARES = (0.1, 0.1, 0.2, 0.35, 0.25)  # of events, r, r x, score and information
NOISY = "standard errors and intervals contain the noise; records are followed up to {:g}"


class NoisyCox(Noisy):
    """Cox's proportional hazards model of all records, with noise in each sum.

    Parameters
    ----------
    schema
        Declared columns and target of the table.
    event : str
        Column that says whether the event happened: two categories, the second is the event, or bounds 0 and 1.
    duration : str, default=""
        Column of times; the target unless given.
    columns : list of str, default=[]
        Columns of the regression, at most 5 with their categories; all features that have no other part unless given.
    reference : dict, default={}
        Column of categories -> the category with which the others are compared; the first that is declared.
    step : float, default=1.0
        Distance of two times of the grid, of at most 50, which begins at the lower bound of `duration`.
    level : float, default=0.95
        Of the intervals.
    """

    name = "dp-cox"
    first_share = 0.2  # round 1 finds where the others begin

    def __init__(
        self,
        schema: TableSchema,
        *,
        event: str = "",
        duration: str = "",
        columns: Sequence[str] = (),
        reference: Mapping[str, str] | None = None,
        step: Annotated[float, Field(gt=0)] = 1.0,
        level: Annotated[float, Field(gt=0, lt=1)] = 0.95,
    ) -> None:
        super().__init__(schema)
        self.grid = TimeGrid(
            self.declared, duration=duration or schema.learned[0], event=event, step=step, most=MOST_TIMES
        )
        taken = (self.grid.duration, self.grid.event)
        chosen = columns or [name for name in schema.features if name not in taken]
        self.design = Design(self.declared, chosen, reference or {}, intercept=False)
        if self.design.size > MOST_TERMS:
            why = f"they make {self.design.size} terms, and with noise {MOST_TERMS} are allowed: name fewer"
            raise SettingError("model.options.columns", list(chosen), why)
        self.counted, self.level = Counted(self.declared, [*taken, *self.design.columns]), level
        self._reach = max(REACH * self.design.size, 1.0)

    def planned(self, config: RunConfig) -> Self:
        """Return the model of a run with these settings."""
        if config.rounds.total < LEAST_ROUNDS:
            raise SettingError("rounds.total", config.rounds.total, "the first round only finds where to begin: take 3")
        return super().planned(config)

    def length(self, round_number: int) -> int:
        """Return the number of sums: counts by time and columns, or what a step needs."""
        times, size = self.grid.size, self.design.size
        return 2 * times + size if round_number == 1 else times * (2 + size) + size + size * (size + 1) // 2

    def unit(self, round_number: int) -> int:
        """Return the most that a record adds to the sums, in the L1 norm."""
        return UNIT

    def asked(self, state: State, examples: Examples) -> IntArray:
        """Return (length,) what these records add in the next round."""
        rows = self.counted.taken(examples)[0]
        path, x = self._path(state), self.design.matrix(rows)
        cell, event = self.grid.cells(rows), self.grid.events(rows)
        units = self._units(path.baseline, path.at)
        if path.baseline is None:
            weight = np.minimum(1.0, self._reach / np.maximum(np.abs(x).sum(axis=1), 1e-300))
            counts = self._by_time(cell, np.column_stack([event, ~event]), units[0])
            return np.concatenate([counts, _whole(weight[:, None] * x, units[1]).sum(axis=0)])
        base = path.baseline
        event, cell, x = event & (cell < base.known), np.minimum(cell, base.known - 1), x - base.mean
        r = np.exp(np.minimum(x @ path.at, FARTHEST))
        past = np.cumsum(base.hazard)[cell] - event * base.hazard[cell] / 2
        weight = self._weights(np.abs(x).sum(axis=1), r, path)
        risk, half = np.column_stack([r, r[:, None] * x]) * weight[:, None], event[:, None] / 2
        by_time = self._by_time(cell, np.column_stack([weight * event, risk * (1 - half)]), units[0])
        later = cell > 0
        by_time += self._by_time(cell[later] - 1, np.column_stack([0 * r, risk * half])[later], units[0])
        of_all = [x * (weight * (event - past * r))[:, None], products(x) * (weight * event)[:, None]]
        return np.concatenate([by_time, _whole(np.hstack(of_all), units[1]).sum(axis=0)])

    def _by_time(self, cell: IntArray, parts: FloatArray, units: FloatArray) -> IntArray:
        """Return (width * times,) the parts of records, in whole numbers, summed by the cells of their times."""
        sums = np.zeros((parts.shape[1], self.grid.size), np.int64)
        for total, each in zip(sums, _whole(parts, units).T, strict=True):
            np.add.at(total, cell, each)
        return sums.ravel()

    def _bounds(self, base: Baseline, at: FloatArray) -> tuple[float, float, float, float]:
        """Return the most that a record adds to r, r x, score and information, in the L1 norm."""
        largest = min(
            HEAVIEST, math.exp(min(2 * self.design.largest(at), 1.0))
        )  # of r: x - m reaches twice as far as x
        reach, past = self._reach, float(base.hazard.sum())
        return largest, largest * reach, reach * max(1.0, past * largest), reach * (reach + 1) / 2

    def _weights(self, size: FloatArray, r: FloatArray, path: Path) -> FloatArray:
        """Return (rows,) the weights of records, whose columns have some sizes."""
        assert path.baseline is not None
        of_risk, of_columns, of_score, of_information = self._bounds(path.baseline, path.at)
        past = float(path.baseline.hazard.sum())
        parts = [(of_risk, r), (of_columns, r * size), (of_score, size * np.maximum(1.0, past * r))]
        parts += [(of_information, size * (size + 1) / 2)]
        return np.asarray(np.min([np.ones_like(r), *(most / np.maximum(each, 1e-300) for most, each in parts)], axis=0))

    def _units(self, base: Baseline | None, at: FloatArray) -> list[FloatArray]:
        """Return what one whole number stands for: of each sum by time, and of each sum over all records."""
        size = self.design.size
        if base is None:
            counts, columns = 1 / FIRST[0], self._reach / FIRST[1]
            return [np.repeat(counts, 2) / UNIT, np.repeat(columns, size) / UNIT]
        bounds = np.array([1.0, *self._bounds(base, at)]) / np.array(SHARES) / UNIT
        by_time = np.repeat(bounds[:3], [1, 1, size])
        return [by_time, np.repeat(bounds[3:], [size, size * (size + 1) // 2])]

    def progress(self, state: State) -> Finished:
        """Return whether all rounds are there, or that there is too much noise."""
        if why := self._path(state).why:
            return Finished(why, is_failure=True)
        return Finished("all rounds are there") if len(state["reports"]) >= self.plan.rounds else Finished()

    def answer(self, state: State) -> Answer:
        """Return coefficients, standard errors and tests."""
        path = self._path(state)
        assert path.last is not None and path.baseline is not None
        units, base = self.design.in_own_units(), path.baseline
        return Answer(
            title=f"Cox regression of {self.grid.duration} (proportional hazards), with noise",
            facts={
                "records": round(base.records),
                "events": round(base.events),
                "sites": int(state["reports"][-1]),
                "ties": "efron, by the mean of f",
                "grid": f"{self.grid.size:,} times, {self.grid.step:g} apart",
                EPSILON.name: self.plan.epsilon,
                "rounds": len(state["reports"]),
                "standard errors": "model-based, with those of the noise",
            },
            tables=(
                coefficient_table(
                    self.design.names, units @ path.at, units @ path.last.covariance() @ units.T, "hazard ratio",
                    self.level,
                ),
            ),
            forest="hazard ratio",
            notes=(*self.design.compared(), NOISY.format(self.grid.times[base.known - 1]), WEIGHTED),
        )  # fmt: skip

    def _path(self, state: State) -> Path:
        """Return where the rounds so far have led."""
        path = Path(np.zeros(self.design.size))
        for number, released in enumerate(self.released(state), start=1):
            deviation = math.sqrt(released.variance)
            if path.baseline is None:
                baseline, is_sure = self._begun(released.sums, deviation)
                path = Path(path.at, baseline)
            else:
                seen = self._seen(released.sums, deviation, path)
                if is_sure := seen.is_sure():
                    at = np.clip(path.at + seen.step, -FARTHEST, FARTHEST)
                    path = Path(at, path.baseline.after(seen), seen)
            if not is_sure:
                return Path(path.at, path.baseline, why=TOO_NOISY.format(number))
        return path

    def _begun(self, sums: IntArray, deviation: float) -> tuple[Baseline, bool]:
        """Return means, hazards and how long records are followed, by the sums of round 1; whether they are sure."""
        by_time, of_all = self._units(None, np.zeros(self.design.size))
        counts, columns = np.split(sums, [2 * self.grid.size])
        events, left = counts.reshape(2, -1) * by_time[0]
        at_risk, records = np.cumsum((events + left)[::-1])[::-1], max(float((events + left).sum()), 1.0)
        later = self.plan.share(1) / self.plan.share(2) * deviation / SHARES[1] / UNIT  # of r, where none is above 1
        first, places = deviation * by_time[0], np.arange(1, self.grid.size + 1)
        is_sure = at_risk >= SURE * first * np.sqrt(places[::-1])
        # Where k times are known, the records that outlive them lie in the last: the noise of k - t numbers at time t.
        sure = [(is_sure & (at_risk >= SURE * later * np.sqrt(np.maximum(k + 1 - places, 0))))[:k] for k in places]
        known = max((len(each) for each in sure if each.all()), default=0)
        hazard = np.maximum(events, 0) / np.maximum(at_risk - events / 2, 1)
        followed = int(np.searchsorted(np.cumsum(hazard[:known]), LONGEST, side="right"))
        hazard = hazard[: max(followed, 1)]
        return Baseline(np.clip(columns * of_all / records, -1, 1), hazard, records, float(events.sum())), bool(
            known and hazard.any()
        )

    def _seen(self, sums: IntArray, deviation: float, path: Path) -> Seen:
        """Return what the sums of a further round tell at its coefficients."""
        assert path.baseline is not None
        size, known = self.design.size, path.baseline.known
        by_time, of_all = self._units(path.baseline, path.at)
        of_times, others = np.split(sums, [(2 + size) * self.grid.size])
        cells = (of_times.reshape(2 + size, -1) * by_time[:, None])[:, :known]
        at_risk, *columns = np.cumsum(cells[1:, ::-1], axis=1)[:, ::-1]
        means = np.array(columns) / np.where(at_risk > 0, at_risk, 1)
        score, information = np.split(others * of_all, [size])
        units = np.array([by_time[0], by_time[1], by_time[2], of_all[0], of_all[-1]])
        return Seen(
            path.baseline.hazard, cells[0], at_risk, means, score, symmetric(information, size), deviation * units
        )


def _whole(parts: FloatArray, units: FloatArray) -> IntArray:
    """Return parts in whole numbers, rounded towards zero."""
    return np.asarray(np.trunc(parts / (units / BELOW)).astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Baseline:
    """What round 1 has found, and the hazards of the last round.

    Parameters
    ----------
    mean
        (q,) mean columns.
    hazard
        (known,) hazards h of a record with the mean columns.
    records, events
        Numbers of round 1, with noise.
    """

    mean: FloatArray
    hazard: FloatArray
    records: float
    events: float

    @property
    def known(self) -> int:
        """Number of times for which records are followed."""
        return len(self.hazard)

    def after(self, seen: Seen) -> Baseline:
        """Return the hazards at the coefficients after a step: D / S0, where S0 has grown by e^(e't)."""
        hazard = np.maximum(seen.events, 0) / (seen.at_risk * np.exp(seen.step @ seen.means))
        return Baseline(self.mean, hazard, self.records, self.events)


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What the sums of a further round tell.

    Parameters
    ----------
    hazard, events, at_risk
        (known,) h, D and S0.
    means
        (q, known) e = S1 / S0.
    of_records, products
        (q,) u; (q, q) I.
    deviations
        (5,) standard deviations of the noise in one number of D, r, r x, u and I.
    """

    hazard: FloatArray
    events: FloatArray
    at_risk: FloatArray
    means: FloatArray
    of_records: FloatArray
    products: FloatArray
    deviations: FloatArray

    @property
    def score(self) -> FloatArray:
        """(q,) U."""
        return np.asarray(self.of_records - self.means @ (self.events - self.hazard * self.at_risk))

    @property
    def information(self) -> FloatArray:
        """(q, q) J."""
        return np.asarray(self.products - (self.means * self.events) @ self.means.T)

    @property
    def step(self) -> FloatArray:
        """(q,) J^-1 U."""
        return np.asarray(np.linalg.solve(self.information, self.score), np.float64)

    def is_sure(self) -> bool:
        """Return whether S0 is known at each time, and the noise in the information is small beside it."""
        least = self.deviations[4] * math.sqrt(len(self.of_records)) / SURE_INFORMATION
        return bool((self.at_risk > 0).all() and np.linalg.eigvalsh(self.information)[0] >= least)

    def covariance(self) -> FloatArray:
        """Return (q, q) the covariance of b + J^-1 U."""
        step, e, identity = self.step, self.means, np.eye(len(self.of_records))
        along = step @ e
        rate = self.events / self.at_risk
        v = np.cumsum(e * rate * (1 - 2 * along), axis=1)
        of_one = np.cumsum(self.hazard - rate + rate * along)
        of_columns = of_one[:, None, None] * identity + np.cumsum(rate * e, axis=1).T[:, :, None] * step
        variances, of_events = self.deviations**2, e * (1 - along)
        meat = self.information + variances[3] * identity
        meat += variances[0] * of_events @ of_events.T + variances[1] * v @ v.T
        meat += variances[2] * np.einsum("cij,ckj->ik", of_columns, of_columns)
        meat -= variances[2] * self._twice() * identity
        meat += variances[4] * (float(step @ step) * identity + np.outer(step, step) - np.diag(step**2))
        bread = np.linalg.inv(self.information)
        return np.asarray(bread @ meat @ bread)

    def _twice(self) -> float:
        """Return what the noise of S1 is multiplied with in the noise of D and S0, which v_c and G_c both contain."""
        left = np.arange(len(self.events), 0, -1)  # cells of a sum from each time on
        of_events = (left / self.at_risk**2).sum()
        of_risk = (np.cumsum(self.events / self.at_risk**2) ** 2 * (2 * left - 1)).sum()
        return float(self.deviations[0] ** 2 * of_events + self.deviations[1] ** 2 * of_risk)


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """Where the rounds so far have led.

    Parameters
    ----------
    at
        (q,) the coefficients of the next round.
    baseline
        What the next round begins from; None before round 1.
    last
        What the last round has told, if it took a step.
    why
        Why there is no further round; empty where there may be one.
    """

    at: FloatArray
    baseline: Baseline | None = None
    last: Seen | None = None
    why: str = ""
