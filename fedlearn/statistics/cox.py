"""The proportional hazards model of Cox of all records, by Newton's method on sums over a declared grid of times.

A record with columns x and coefficients b has the weight r = exp(x'b). At time t_j, in a stratum, let D_j be the d_j
records with the event and R_j those at risk. With S_j = sum of r over R_j and E_j = sum of r over D_j, the
log-likelihood (Cox 1972; ties by Breslow 1974, and by Efron 1977) is

    sum over j of  sum over D_j of x'b - sum for l = 0 .. d_j - 1 of log (S_j - f_l E_j)

with f_l = l / d_j by Efron and 0 by Breslow. Let S1, S2 and E1, E2 be the sums of r x and r x x', and s = S - f E. Then

    gradient     sum of x over D_j - sum over l of s1 / s
    information  sum over l of s2 / s - s1 s1' / s^2

**No node needs to know who is at risk.** A record adds r, r x and r x x' to the cell of its own time alone; the sums of
all cells from a time on are those at risk. So a record lies in one cell, and the sums of R_j cost nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedlearn.core.state import State
from fedlearn.data.data_spec import DataSpec, Examples, TableSchema
from fedlearn.models.model import Finished
from fedlearn.runs.answers import Answer
from fedlearn.statistics.analysis import Analysis, blocks, built, power_of_two, symmetric, whole
from fedlearn.statistics.coefficients import against_null, coefficient_table
from fedlearn.statistics.design import Counted, Design, FloatArray, IntArray
from fedlearn.statistics.grid import TimeGrid
from fedlearn.statistics.newton import Climb, Evaluated
from fedlearn.statistics.remembered import Remembered

MISSING = "no test of proportional hazards, no C index and no errors clustered by site are computed"


class Cox(Analysis):
    """Cox's proportional hazards model of all records.

    Parameters
    ----------
    schema
        Declared columns and target of the table.
    event : str
        Column that says whether the event happened: two categories, the second is the event, or bounds 0 and 1.
    duration : str, default=""
        Column of times; the target unless given.
    columns : list of str, default=[]
        Columns of the regression; all features that have no other part unless given.
    reference : dict, default={}
        Column of categories -> the category with which the others are compared; the first that is declared.
    strata : str, default=""
        Column of categories: each has a baseline hazard of its own.
    ties : {"efron", "breslow"}, default="efron"
        How events at one time are taken.
    step : float, default=1.0
        Distance of two times of the grid, which begins at the lower bound of `duration`.
    level : float, default=0.95
        Of the intervals.
    """

    name = "cox"

    def __init__(
        self,
        schema: TableSchema,
        *,
        event: str = "",
        duration: str = "",
        columns: Sequence[str] = (),
        reference: Mapping[str, str] | None = None,
        strata: str = "",
        ties: Literal["efron", "breslow"] = "efron",
        step: Annotated[float, Field(gt=0)] = 1.0,
        level: Annotated[float, Field(gt=0, lt=1)] = 0.95,
    ) -> None:
        super().__init__(schema)
        self.grid = TimeGrid(self.declared, duration=duration or schema.learned[0], event=event, step=step)
        self.strata = self.declared.check("strata", strata, of="words") if strata else ""
        taken = [name for name in (self.grid.duration, self.grid.event, strata) if name]
        chosen = columns or [name for name in schema.features if name not in taken]
        self.design = Design(self.declared, chosen, reference or {}, intercept=False)
        self.counted = Counted(self.declared, [*taken, *self.design.columns])
        self.ties, self.level = ties, level
        self.cells = self.grid.size * (len(self.declared.words[strata]) if strata else 1)
        self.width = 1 + self.design.size + self.design.size * (self.design.size + 1) // 2  # r, r x, r x x'
        self.kinds = 2 if ties == "efron" else 1  # of sums by cell: of all records, of those with the event

    def _settle(self, nodes: int, largest_node: int) -> None:
        super()._settle(nodes, largest_node)
        self._climbs: Remembered[Climb] | None = None

    def length(self, round_number: int) -> int:
        """Return the number of sums: counts, columns of events, events by cell, and r, r x, r x x' by cell."""
        return self.counted.length + self.design.size + self.cells * (1 + self.kinds * self.width)

    def asked(self, state: State, examples: Examples) -> IntArray:
        """Return (length,) what these records add at the coefficients of the next round."""
        climb = self._climb(state)
        rows = examples.at(np.flatnonzero(self.counted.complete(examples)))
        cell = 2 * self._cells(rows) + self.grid.events(rows)  # odd: with the event
        order = np.argsort(cell, kind="stable")
        by_cell = np.zeros((self.width, 2 * self.cells), np.int64)
        of_events = np.zeros(self.design.size, np.int64)
        for block in blocks(len(rows)):
            at = order[block]
            x = np.ascontiguousarray(self.design.matrix(rows.at(at)).T)
            of_events += whole(x[:, cell[at] % 2 == 1], np.ones(1), self.cap).sum(axis=1)
            _add(by_cell, cell[at], whole(self._weighted(x, climb.at), self._heaviest(climb.at), self.cap))
        both = by_cell.reshape(self.width, self.cells, 2)
        sums = [both[:, :, 0] + both[:, :, 1], both[:, :, 1]][: self.kinds]
        events = np.bincount(cell[cell % 2 == 1] // 2, minlength=self.cells) * self.cap
        counts = self.counted.counts(examples) * self.cap
        return np.concatenate([counts, of_events, events, *(each.ravel() for each in sums)])

    def _weighted(self, x: FloatArray, at: FloatArray) -> FloatArray:
        """Return (width, rows) what each record adds: r, r x and r x x', of (size, rows) columns."""
        first, second = np.triu_indices(len(x))
        r = np.exp(at @ x)
        weighted = r * x
        return np.concatenate([r[None, :], weighted, weighted[first] * x[second]])

    def progress(self, state: State) -> Finished:
        """Return whether Newton's method has come to its end."""
        return self._climb(state).ended

    def answer(self, state: State) -> Answer:
        """Return coefficients, standard errors and tests."""
        climb, rounds = self._climb(state), self.rounds(state)
        assert climb.best is not None
        units = self.design.in_own_units()
        covariance = units @ np.linalg.inv(climb.best.information) @ units.T
        rows = self.counted.read(rounds[0][: self.counted.length] / self.cap)
        size, value = self.design.size, climb.best.value
        null = self._evaluated(np.zeros(size), rounds[0]).value
        compared = [f"{name} is compared with {word!r}" for name, word in self.design.references.items()]
        return Answer(
            title=f"Cox regression of {self.grid.duration} (proportional hazards)",
            facts={
                "records": rows.used,
                "events": int(self._events(rounds[0]).sum()),
                "sites": int(state["reports"][0]),
                "ties": self.ties,
                **({"strata": self.strata} if self.strata else {}),
                "grid": f"{self.grid.size:,} times, {self.grid.step:g} apart",
                "log-likelihood": value,
                "AIC": 2 * size - 2 * value,
                **against_null(value, null, size),
                "rounds": len(rounds),
            },
            tables=(coefficient_table(self.design.names, units @ climb.at, covariance, "hazard ratio", self.level),),
            forest="hazard ratio",
            notes=(*rows.lines(), *compared, MISSING),
        )

    def _cells(self, rows: Examples) -> NDArray[np.int64]:
        """Return (rows,) the cell of each record: that of its time, in its stratum."""
        cell = self.grid.cells(rows)
        if self.strata:
            cell = cell + self.grid.size * self.declared.values(self.strata, rows).astype(np.int64)
        return cell

    def _heaviest(self, at: FloatArray) -> FloatArray:
        """Return the most that r can be, for any record within the declared bounds."""
        with np.errstate(over="ignore"):
            return power_of_two(np.exp(self.design.largest(at)))

    def _events(self, sums: IntArray) -> FloatArray:
        first = self.counted.length + self.design.size
        return np.asarray(sums[first : first + self.cells] / self.cap).reshape(-1, self.grid.size)

    def _climb(self, state: State) -> Climb:
        if self._climbs is None:
            first = Climb(np.zeros(self.design.size), self.design.names)
            self._climbs = Remembered(first, self._after_round)
        return self._climbs.after(self.rounds(state))

    def _after_round(self, climb: Climb, sums: IntArray) -> Climb:
        return climb.taken(self._evaluated(climb.at, sums), lambda at: float(self._heaviest(at)))

    def _evaluated(self, at: FloatArray, sums: IntArray) -> Evaluated:
        """Return the log-likelihood at some coefficients, by the sums of a round there."""
        size, unit = self.design.size, self._heaviest(at) / self.cap
        of_events = sums[self.counted.length : self.counted.length + size] / self.cap
        by_cell = sums[self.counted.length + size + self.cells :].reshape(self.kinds, self.width, -1, self.grid.size)
        events = self._events(sums)
        stratum, time = np.nonzero(events)
        at_risk = np.cumsum(by_cell[0, :, :, ::-1], axis=2)[:, :, ::-1][:, stratum, time] * unit  # (width, times)
        of_dead = by_cell[1][:, stratum, time] * unit if self.kinds == 2 else np.zeros_like(at_risk)
        sums_of_ties = Ties(events[stratum, time], at_risk[0], of_dead[0])
        s1, e1 = at_risk[1 : 1 + size], of_dead[1 : 1 + size]
        s2, e2 = at_risk[1 + size :], of_dead[1 + size :]
        second = s2 @ sums_of_ties.first - e2 @ sums_of_ties.shared
        a, b, c = sums_of_ties.squared
        cross = s1 @ (b * e1).T
        information = symmetric(second, size) - s1 @ (a * s1).T + cross + cross.T - e1 @ (c * e1).T
        typical = by_cell[0, 0].sum() * unit / max(sums[1] / self.cap, 1.0)  # r of a record
        blur = unit * events[stratum, time] @ np.sqrt(1 / (12 * at_risk[0] * typical))
        return Evaluated(
            at=at,
            value=float(of_events @ at - sums_of_ties.logs),
            value_error=float(blur),
            gradient=of_events - s1 @ sums_of_ties.first + e1 @ sums_of_ties.shared,
            information=information,
            error=np.full(size, float(blur)),
        )


class Ties:
    """Sums over the events of each time: of 1 / s, f / s, and of 1, f and f^2 over s^2, with s = S - f E.

    Parameters
    ----------
    events, at_risk, of_dead
        (times,) numbers d of events; S and E. With E of zero, f makes no difference: that is Breslow's rule.
    """

    def __init__(self, events: FloatArray, at_risk: FloatArray, of_dead: FloatArray) -> None:
        counts = np.rint(events).astype(np.int64)
        place = np.repeat(np.arange(len(counts)), counts)
        order = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
        f = order / counts[place]
        s = at_risk[place] - f * of_dead[place]

        def total(each: FloatArray) -> FloatArray:
            return np.bincount(place, weights=each, minlength=len(counts)).astype(np.float64)

        self.logs = float(np.log(s).sum())
        self.first, self.shared = total(1 / s), total(f / s)
        self.squared = total(1 / s**2), total(f / s**2), total(f**2 / s**2)


def _add(total: IntArray, cells: NDArray[np.int64], sums: IntArray) -> None:
    """Add (width, rows) sums, whose cells do not fall, to the (width, cells) totals."""
    if len(cells):
        starts = np.flatnonzero(np.diff(cells, prepend=-1))
        total[:, cells[starts]] += np.add.reduceat(sums, starts, axis=1)


def cox(spec: DataSpec, options: Mapping[str, Any]) -> Cox:
    """Return the model ``cox`` for a table; raise `SettingError` for other data."""
    model: Cox = built(Cox, spec, options)
    return model
