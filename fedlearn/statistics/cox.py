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

*Clustered by site*: V = I^-1 (sum over nodes of U U') I^-1 with the sum U of a node's score residuals (Lin and Wei
1989, doi:10.1080/01621459.1989.10478874; with Efron's ties as Therneau and Grambsch 2000, section 7.2). They need the
sums at risk of all nodes: one more round follows, at the coefficients of the last one. The hazards that all records
face sum up to the events, so that no entry of U is larger than four times their number.

*C index* (Harrell et al. 1982): of the pairs of records of which one has the event while the other is at risk, the
share in which the first has the higher x'b. x'b is counted on a grid of `score_cells`; a pair in one cell counts half,
so that the index is off by at most half the share of such pairs.

*Proportional hazards* (Grambsch and Therneau 1994, doi:10.1093/biomet/81.3.515; as a score test, like R's `cox.zph`):
let a coefficient be b + c g(t), with g(t_j) the share of all records that has had the event before, by Kaplan and
Meier. For c = 0, with the gradient u_j and information V_j of a time, and sums over j:

    score     U = sum of g_j u_j - M I^-1 (sum of u_j),     M = sum of g_j V_j
    variance  W = sum of g_j^2 V_j - M I^-1 M

A coefficient's U^2 / W is chi-square distributed, with one degree of freedom; for all of them it is U' W^-1 U. The sums
of x over D_j are E1 of round 1, in which r is 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import chdtrc

from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples, TableSchema
from fedlearn.models.model import Finished
from fedlearn.runs.analysis_answers import Answer, AnswerTable, Cell
from fedlearn.statistics.analysis import BLOCK, blocks, power_of_two, products, symmetric, whole
from fedlearn.statistics.coefficients import against_null, coefficient_table
from fedlearn.statistics.design import Counted, Design, FloatArray, IntArray
from fedlearn.statistics.grid import TimeGrid
from fedlearn.statistics.newton import Climb, Evaluated
from fedlearn.statistics.newton_rounds import Regression
from fedlearn.statistics.small_cells import LEAST

EXACT = 2**53  # whole numbers up to here are exact as float64
PARTS = 16  # blocks of which the design matrix is made at once
FLAT = 1e-9  # share of W in its first term, below which it is the error of rounding: no test
MISSING = "the test of proportional hazards needs ties = 'efron'"


class Cox(Regression):
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
    clustered : bool, default=False
        Whether standard errors take records of one site as dependent.
    score_cells : int, default=0
        Cells of the grid of x'b from which the C index is counted, such as 100; with 0 there is no C index.
    least_count : int, default=5
        Least number of records, and of records of a category, of which coefficients are shown.
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
        clustered: bool = False,
        score_cells: Annotated[int, Field(ge=0, le=1000)] = 0,
        least_count: Annotated[int, Field(ge=1)] = LEAST,
    ) -> None:
        super().__init__(schema)
        self.grid = TimeGrid(self.declared, duration=duration or schema.learned[0], event=event, step=step)
        self.strata = self.declared.check("strata", strata, of="words") if strata else ""
        taken = [name for name in (self.grid.duration, self.grid.event, strata) if name]
        chosen = columns or [name for name in schema.features if name not in taken]
        self.design = Design(self.declared, chosen, reference or {}, intercept=False)
        self.counted = Counted(self.declared, [*taken, *self.design.columns], self.design.references)
        self.ties, self.level, self.least_count = ties, level, least_count
        self.clustered, self.score_cells = clustered, score_cells
        self.cells = self.grid.size * (len(self.declared.words[strata]) if strata else 1)
        self._products = self.design.size * (self.design.size + 1) // 2
        self.width = 1 + self.design.size + self._products  # r, r x, r x x'
        self.kinds = 2 if ties == "efron" else 1  # of sums by cell: of all records, of those with the event

    def length(self, round_number: int) -> int:
        """Return the number of sums: counts; columns of events; events, r, r x, r x x' by cell; what else is asked."""
        of_cells = self.cells * (1 + self.kinds * self.width + 2 * self.score_cells)
        return self.counted.length + self.design.size + of_cells + self.clustered * self._products

    def asked(self, state: State, examples: Examples) -> IntArray:
        """Return (length,) what these records add at the coefficients of the next round."""
        climb = self._climb(state)
        best = climb.best if climb.ended.why else None
        coefficients = climb.at if best is None else best.at
        rows, counts = self.counted.taken(examples)
        cell = 2 * self._cells(rows) + self.grid.events(rows)  # odd: with the event
        order = np.argsort(cell, kind="stable")
        cell = cell[order]
        both, of_events, scores = self._summed(rows, order, cell, coefficients)
        sums = [both[:, :, 0] + both[:, :, 1], both[:, :, 1]][: self.kinds]
        events = np.bincount(cell[cell % 2 == 1] // 2, minlength=self.cells)
        more = [self._scored(scores, cell, coefficients)] if self.score_cells else []
        if self.clustered:
            last = None if best is None else self.rounds(state)[-1]
            more += [self._of_site(coefficients, last, of_events, events, both)]
        of_cells = [events * self.cap, *(each.ravel() for each in sums), *more]
        return np.concatenate([counts * self.cap, of_events, *of_cells])

    def _summed(
        self, rows: Examples, order: IntArray, cell: IntArray, at: FloatArray
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Return (width, cells, 2) sums without and with the event, (size,) those of events, and each record's x'b."""
        by_cell = np.zeros((self.width, 2 * self.cells), np.int64)
        of_events, scores = np.zeros(self.design.size, np.int64), np.zeros(len(order))
        factor = self.cap / self._heaviest(at)  # a power of two: it changes no digit
        for part in blocks(len(order), PARTS * BLOCK):
            columns = np.array(self.design.scaled(rows.at(order[part])))
            scores[part] = at @ columns
            of_events += whole(columns[:, cell[part] % 2 == 1], np.ones(1), self.cap).sum(axis=1)
            for block in blocks(columns.shape[1]):
                here = slice(part.start + block.start, part.start + block.stop)
                parts = self._weighted(columns[:, block], np.exp(scores[here]) * factor)
                _add(by_cell, cell[here], np.rint(parts, out=parts), is_small=self.cap * BLOCK <= EXACT)
        return by_cell.reshape(self.width, self.cells, 2), of_events, scores

    def _weighted(self, x: FloatArray, r: FloatArray) -> FloatArray:
        """Return (width, rows) what each record adds: r, r x and r x x', of (size, rows) columns."""
        parts = np.empty((self.width, len(r)))
        parts[0], end = r, 1 + len(x)
        np.multiply(r, x, out=parts[1:end])
        for place in range(len(x)):
            begin, end = end, end + len(x) - place
            np.multiply(parts[1 + place], x[place:], out=parts[begin:end])
        return parts

    def _scored(self, scores: FloatArray, cell: IntArray, at: FloatArray) -> IntArray:
        """Return (score_cells * cells * 2,) the counts of records by x'b, time and event."""
        place = (scores / max(self.design.largest(at), 1e-300) + 1) / 2 * self.score_cells
        place = np.clip(place, 0, self.score_cells - 1).astype(np.int64)
        return np.bincount(place * 2 * self.cells + cell, minlength=self.score_cells * 2 * self.cells) * self.cap

    def _of_site(
        self, at: FloatArray, last: IntArray | None, of_events: IntArray, events: IntArray, both: IntArray
    ) -> IntArray:
        """Return the products of the sums U of some records' score residuals; zeros before sums at risk are known."""
        if last is None:
            return np.zeros(self._products, np.int64)
        risk, size, unit = self._at_risk(at, last), self.design.size, self._heaviest(at) / self.cap
        alive, dead = np.zeros((2, 1 + size, *self._events(last).shape))
        alive[:, risk.stratum, risk.time], dead[:, risk.stratum, risk.time] = risk.hazards()
        until = np.cumsum(alive, axis=2)
        faced = np.stack([until, until - alive + dead], axis=3)  # (1 + size, strata, times, 2), the last with the event
        r = both[: 1 + size].reshape(faced.shape) * unit
        lost = (r[1:] * faced[0]).sum(axis=(1, 2, 3)) - (r[0] * faced[1:]).sum(axis=(1, 2, 3))
        own = events.reshape(alive.shape[1:])[risk.stratum, risk.time]
        most = 4 * self._events(last).sum()
        residuals = np.clip(of_events / self.cap - risk.means() @ own - lost, -most, most)
        return np.asarray(whole(products(residuals[None, :]), self._scale_of_sites(last), self.cap)[0])

    def _scale_of_sites(self, last: IntArray) -> FloatArray:
        """Return the scale of products of sites, at the sums of the last round."""
        return power_of_two((4 * self._events(last).sum()) ** 2 / self.largest_node)

    def progress(self, state: State) -> Finished:
        """Return whether Newton's method has come to its end, and errors by site have got their round."""
        ended, rounds = super().progress(state), len(state["reports"])
        waits = self.clustered and not ended.is_failure and rounds == self._climb(state).rounds
        return Finished() if waits else ended

    def answer(self, state: State) -> Answer:
        """Return coefficients, standard errors and tests."""
        climb, rounds = self._climb(state), self.rounds(state)
        assert climb.best is not None
        units = self.design.in_own_units()
        covariance = units @ self._covariance(climb.best, rounds) @ units.T
        rows = self._rows(state)
        size, value, sites = self.design.size, climb.best.value, int(state["reports"][0])
        null = self._evaluated(np.zeros(size), rounds[0]).value
        return Answer(
            title=f"Cox regression of {self.grid.duration} (proportional hazards)",
            facts={
                "records": rows.used,
                "events": int(self._events(rounds[0]).sum()),
                "sites": sites,
                "ties": self.ties,
                **({"strata": self.strata} if self.strata else {}),
                "grid": f"{self.grid.size:,} times, {self.grid.step:g} apart",
                "log-likelihood": value,
                "AIC": 2 * size - 2 * value,
                **against_null(value, null, size),
                **self._concordance(rounds[-1]),
                "rounds": len(rounds),
                "standard errors": "clustered by site" if self.clustered else "model-based",
            },
            tables=(
                coefficient_table(self.design.names, units @ climb.at, covariance, "hazard ratio", self.level),
                *self._proportional(climb.best, rounds[0], rounds[climb.rounds - 1]),
            ),
            forest="hazard ratio",
            notes=(*self._notes(rows, sites), *([MISSING] if self.kinds == 1 else [])),
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

    def _by_cell(self, sums: IntArray) -> IntArray:
        """Return (kinds, width, strata, times) the sums of all records, and of those with the event."""
        first = self.counted.length + self.design.size + self.cells
        of_cells = sums[first : first + self.kinds * self.width * self.cells]
        return of_cells.reshape(self.kinds, self.width, -1, self.grid.size)

    def _covariance(self, best: Evaluated, rounds: Sequence[IntArray]) -> FloatArray:
        """Return (size, size) the covariance of the coefficients of the scaled columns."""
        bread = np.asarray(np.linalg.inv(best.information), np.float64)
        if not self.clustered:
            return bread
        of_sites = rounds[-1][-self._products :] / self.cap * self._scale_of_sites(rounds[-2])
        covariance: FloatArray = bread @ symmetric(of_sites, self.design.size) @ bread
        return covariance

    def _proportional(self, best: Evaluated, first: IntArray, last: IntArray) -> list[AnswerTable]:
        """Return the tests that hazards are proportional, by the sums of round 1 and those at the coefficients."""
        if self.kinds == 1:
            return []
        risk, begun = self._at_risk(best.at, last), self._at_risk(np.zeros(self.design.size), first)
        records = self._by_cell(first)[0, 0].sum(axis=0) / self.cap
        at_risk = np.maximum(np.cumsum(records[::-1])[::-1], 1)
        survival = np.cumprod(1 - self._events(first).sum(axis=0) / at_risk)
        g = 1 - np.append(1.0, survival)[risk.time]  # before the time
        mixed, square = risk.information(g), risk.information(g**2)
        projected = np.linalg.solve(best.information, mixed)
        score = risk.gradient(begun.of_dead[1 : 1 + self.design.size] @ g, g) - best.gradient @ projected
        variance = square - mixed @ projected
        own = np.diag(variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(own > FLAT * np.diag(square), score**2 / own, np.nan)
        together = float(score @ np.linalg.pinv(variance, rcond=FLAT, hermitian=True) @ score)
        degrees = [1] * len(own) + [int(np.linalg.matrix_rank(variance, rtol=FLAT, hermitian=True))]
        tests = zip([*self.design.names, "all"], [*each.tolist(), together], degrees, strict=True)
        rows = tuple((name, chi2, df, float(chdtrc(df, chi2))) for name, chi2, df in tests)
        return [AnswerTable("proportional_hazards", ("proportional hazards", "chi2", "df", "p"), rows)]

    def _concordance(self, sums: IntArray) -> dict[str, Cell]:
        """Return the C index, and by how much it may be off; nothing where no grid of scores is asked for."""
        if not self.score_cells:
            return {}
        first = self.counted.length + self.design.size + self.cells * (1 + self.kinds * self.width)
        counts = sums[first : first + self.score_cells * 2 * self.cells] / self.cap
        left, events = np.moveaxis(counts.reshape(self.score_cells, -1, self.grid.size, 2), 3, 0)
        after = np.cumsum((left + events)[..., ::-1], axis=2)[..., ::-1] - events  # at risk when one has the event
        ties = float((events * after).sum())
        lower = float((events * (np.cumsum(after, axis=0) - after)).sum())
        pairs = float((events.sum(axis=0) * after.sum(axis=0)).sum())
        return {"C index": (lower + ties / 2) / pairs, "C index off by": ties / 2 / pairs} if pairs else {}

    def _after_round(self, climb: Climb, sums: IntArray) -> Climb:
        if climb.ended.why:
            return climb
        return climb.taken(self._evaluated(climb.at, sums), lambda at: float(self._heaviest(at)))

    def _at_risk(self, at: FloatArray, sums: IntArray) -> AtRisk:
        """Return the sums at risk, and those of the events, at each time with an event."""
        unit, by_cell, events = self._heaviest(at) / self.cap, self._by_cell(sums), self._events(sums)
        stratum, time = np.nonzero(events)
        at_risk = np.cumsum(by_cell[0, :, :, ::-1], axis=2)[:, :, ::-1][:, stratum, time] * unit  # (width, times)
        of_dead = by_cell[1][:, stratum, time] * unit if self.kinds == 2 else np.zeros_like(at_risk)
        ties = Ties(events[stratum, time], at_risk[0], of_dead[0])
        return AtRisk(stratum, time, at_risk, of_dead, ties, float(by_cell[0, 0].sum() * unit))

    def _evaluated(self, at: FloatArray, sums: IntArray) -> Evaluated:
        """Return the log-likelihood at some coefficients, by the sums of a round there."""
        size, risk = self.design.size, self._at_risk(at, sums)
        of_events = sums[self.counted.length : self.counted.length + size] / self.cap
        typical = risk.total / max(sums[1] / self.cap, 1.0)  # r of a record
        unit = self._heaviest(at) / self.cap
        blur = float(unit * risk.ties.events @ np.sqrt(1 / (12 * risk.at_risk[0] * typical)))
        return Evaluated(
            at=at,
            value=float(of_events @ at - risk.ties.logs),
            value_error=blur,
            gradient=risk.gradient(of_events),
            information=risk.information(),
            error=np.full(size, blur),
        )


@dataclass(frozen=True, slots=True, eq=False)
class AtRisk:
    """Sums at the times with an event.

    Parameters
    ----------
    stratum, time
        (times,) where they are on the grid.
    at_risk, of_dead
        (width, times) r, r x and r x x' of the records at risk; of those with the event.
    ties
        Sums over the events of each time.
    total
        r of all records.
    """

    stratum: IntArray
    time: IntArray
    at_risk: FloatArray
    of_dead: FloatArray
    ties: Ties
    total: float

    def gradient(self, of_events: FloatArray, weight: FloatArray | float = 1.0) -> FloatArray:
        """Return (size,) the gradient, in which each time has a weight; `of_events` are the sums of x that have it."""
        s, e = self._first()
        return np.asarray(of_events - s @ (weight * self.ties.first) + e @ (weight * self.ties.shared))

    def information(self, weight: FloatArray | float = 1.0) -> FloatArray:
        """Return (size, size) the information, in which each time has a weight."""
        (s, e), (a, b, c), ties = self._first(), (weight * each for each in self.ties.squared), self.ties
        s2, e2 = self.at_risk[1 + len(s) :], self.of_dead[1 + len(s) :]
        cross = s @ (b * e).T
        second = symmetric(s2 @ (weight * ties.first) - e2 @ (weight * ties.shared), len(s))
        return np.asarray(second - s @ (a * s).T + cross + cross.T - e @ (c * e).T)

    def means(self) -> FloatArray:
        """Return (size, times) the mean columns of those at risk, over the events of a time."""
        s, e = self._first()
        return np.asarray((s * self.ties.first - e * self.ties.shared) / self.ties.events)

    def hazards(self) -> tuple[FloatArray, FloatArray]:
        """Return (1 + size, times) arrays for records that outlive a time, and for those with the event at it.

        Row 0 has hazards, the others hazards times mean columns.
        """
        (s, e), (a, b, c), ties = self._first(), self.ties.squared, self.ties
        alive = np.vstack([ties.first, s * a - e * b])
        return alive, np.vstack([ties.first - ties.shared, s * (a - b) - e * (b - c)])

    def _first(self) -> tuple[FloatArray, FloatArray]:
        size = int(np.sqrt(2 * len(self.at_risk))) - 1  # of 1 + size + size (size + 1) / 2
        return self.at_risk[1 : 1 + size], self.of_dead[1 : 1 + size]


class Ties:
    """Sums over the events of each time: of 1 / s, f / s, and of 1, f and f^2 over s^2, with s = S - f E.

    Parameters
    ----------
    events, at_risk, of_dead
        (times,) numbers d of events; S and E. With E of zero f is zero: that is Breslow's rule.
    """

    def __init__(self, events: FloatArray, at_risk: FloatArray, of_dead: FloatArray) -> None:
        self.events = events
        counts = np.rint(events).astype(np.int64)
        place = np.repeat(np.arange(len(counts)), counts)
        order = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
        f = np.where(of_dead[place] > 0, order / counts[place], 0.0)
        s = at_risk[place] - f * of_dead[place]

        def total(each: FloatArray) -> FloatArray:
            return np.bincount(place, weights=each, minlength=len(counts)).astype(np.float64)

        self.logs = float(np.log(s).sum())
        self.first, self.shared = total(1 / s), total(f / s)
        self.squared = total(1 / s**2), total(f / s**2), total(f**2 / s**2)


def _add(total: IntArray, cells: IntArray, sums: FloatArray, *, is_small: bool) -> None:
    """Add (width, rows) whole numbers, whose cells never fall, also from call to call, to (width, cells) totals.

    Parameters
    ----------
    is_small
        Whether the numbers of a block add up exactly as they are; else they are added as integers.
    """
    if len(cells):
        starts = np.flatnonzero(np.diff(cells, prepend=-1))
        begun = total[:, cells[0]].copy()  # only the first cell can have rows of the call before
        total[:, cells[starts]] = np.add.reduceat(sums if is_small else sums.astype(np.int64), starts, axis=1)
        total[:, cells[0]] += begun
