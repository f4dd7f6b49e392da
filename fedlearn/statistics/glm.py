"""Generalized linear models of all records, by Newton's method on sums: normal, binomial (logit) and Poisson.

Maximize l(b) = sum_i w_i l_i(b) - (lambda / 2) sum_j b_j^2, where l_i is a record's log-likelihood
(`fedlearn.statistics.families`), w_i its weight (how often it counts), and the intercept is not penalized. A round sums
l, its gradient g and the information I at public coefficients; b goes to b + I^-1 g (`newton`). The covariance of the
estimates is I^-1, times the residual variance RSS / (n - q) of normal outcomes, and (I + P)^-1 I (I + P)^-1 under a
penalty P.

*Clustered by site*: V = I^-1 (sum_s g_s g_s') I^-1 G / (G - 1) * (n - 1) / (n - q), where each of the G nodes adds the
product of its own gradient (Cameron and Miller 2015, "A practitioner's guide to cluster-robust inference", eq. 11).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fedlearn.core.errors import SettingError
from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples, TableSchema
from fedlearn.runs.analysis_answers import Answer, Cell
from fedlearn.statistics.analysis import Analysis, blocks, power_of_two, products, symmetric, whole
from fedlearn.statistics.coefficients import against_null, coefficient_table
from fedlearn.statistics.design import Counted, Design, FloatArray, IntArray
from fedlearn.statistics.families import FAMILIES, Null
from fedlearn.statistics.newton import Climb, Evaluated
from fedlearn.statistics.newton_rounds import Regression
from fedlearn.statistics.small_cells import LEAST

PENALIZED = "coefficients are drawn to zero by a penalty: their standard errors say nothing of that"
BEFORE = 3  # sums before the gradient: weights, weights times outcomes, value


class LinearModel(Analysis):
    """A generalized linear model: what it is with noise and without.

    Parameters
    ----------
    schema
        Declared columns and target of the table.
    family : {"normal", "logit", "poisson"}, default="logit"
        Distribution of the outcome, with its canonical link.
    outcome : str, default=""
        Column of the outcome; the target unless given. For ``"logit"``: two classes, of which the second is the event,
        or a number with bounds 0 and 1.
    columns : list of str, default=[]
        Columns of the regression; all features that have no other part unless given.
    reference : dict, default={}
        Column of categories -> the category with which the others are compared; the first that is declared.
    offset, weights : str, default=""
        Column that is added to the linear predictor; column that says how often a record counts.
    l2 : float, default=0.0
        Penalty lambda, on coefficients in the columns' own units.
    level : float, default=0.95
        Of the intervals.
    clustered : bool, default=False
        Whether standard errors take records of one site as dependent.
    least_count : int, default=5
        Least number of records, and of records of a category, of which coefficients are shown.
    """

    def __init__(
        self,
        schema: TableSchema,
        *,
        family: Literal["normal", "logit", "poisson"] = "logit",
        outcome: str = "",
        columns: Sequence[str] = (),
        reference: Mapping[str, str] | None = None,
        offset: str = "",
        weights: str = "",
        l2: Annotated[float, Field(ge=0)] = 0.0,
        level: Annotated[float, Field(gt=0, lt=1)] = 0.95,
        clustered: bool = False,
        least_count: Annotated[int, Field(ge=1)] = LEAST,
    ) -> None:
        super().__init__(schema)
        self.family, self.level, self.clustered, self.least_count = FAMILIES[family], level, clustered, least_count
        declared = self.declared
        self.outcome = declared.check("outcome", outcome or schema.learned[0])
        self.offset, self.weights = (
            declared.check(role, name, of="numbers") if name else ""
            for role, name in (("offset", offset), ("weights", weights))
        )
        taken = [name for name in (self.outcome, offset, weights) if name]
        chosen = columns or [name for name in schema.features if name not in taken]
        self.design = Design(declared, chosen, reference or {}, intercept=True)
        self.counted = Counted(declared, [*taken, *self.design.columns], self.design.references)
        self._check_outcome(family)
        self._center, self._half = self._outcome_scale(is_normal=family == "normal")
        self._products = self.design.size * (self.design.size + 1) // 2
        self._units = self.design.in_own_units()
        self._penalty = l2 * np.diag(self._units) ** 2
        self._penalty[0] = 0.0

    def _check_outcome(self, family: str) -> None:
        (low, high), is_words = self.declared.bounds(self.outcome), self.outcome in self.declared.words
        fits = {"logit": (low, high) == (0, 1), "poisson": low >= 0 and not is_words, "normal": not is_words}
        wants = {"logit": "two classes, or bounds 0 and 1", "poisson": "bounds from 0 on", "normal": "bounds"}
        if not fits[family]:
            why = f"family {family!r} takes an outcome with {wants[family]}"
            raise SettingError("model.options.outcome", self.outcome, why)

    def _outcome_scale(self, *, is_normal: bool) -> tuple[float, float]:
        """Return center and half width by which outcomes are scaled: normal ones lie from -1 to 1."""
        low, high = self.declared.bounds(self.outcome)
        return ((low + high) / 2, (high - low) / 2) if is_normal else (0.0, 1.0)

    def _values(self, rows: Examples) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return (rows,) scaled outcomes, (rows, size) the design matrix and (rows,) offsets."""
        y = (self.declared.values(self.outcome, rows) - self._center) / self._half
        offset = self.declared.values(self.offset, rows) / self._half if self.offset else np.zeros(len(rows))
        return y, self.design.matrix(rows), offset

    def _largest(self) -> tuple[float, float]:
        """Return the most that a scaled outcome and an offset can be, in size."""
        y = (np.abs(self.declared.bounds(self.outcome)).max() - self._center) / self._half
        return float(y), float(np.abs(self.declared.bounds(self.offset)).max() / self._half) if self.offset else 0.0

    def _in_own_units(self, at: FloatArray, covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return coefficients and their covariance matrix in the columns' own units."""
        estimates = self._half * (self._units @ at)
        estimates[0] += self._center
        return estimates, self._half**2 * self._units @ covariance @ self._units.T


class GLM(LinearModel, Regression):
    """A generalized linear model of all records, of exact sums."""

    name = "glm"

    def length(self, round_number: int) -> int:
        """Return the number of sums: counts of records, value, gradient and information, products of sites."""
        return self.counted.length + BEFORE + self.design.size + self._products * (1 + self.clustered)

    def asked(self, state: State, examples: Examples) -> IntArray:
        """Return (length,) what these records add at the coefficients of the next round."""
        at = self._climb(state).at
        _, scales, of_sites = self._split(self._scales(at))
        rows, counts = self.counted.taken(examples)
        sums = np.zeros(len(scales), np.int64)
        for block in blocks(len(rows)):
            sums += whole(self._terms(rows.at(block), at), scales, self.cap).sum(axis=0)
        if not self.clustered:
            return np.concatenate([counts * self.cap, sums])
        gradient = (sums / self.cap * scales)[BEFORE : BEFORE + self.design.size]
        return np.concatenate([counts * self.cap, sums, whole(products(gradient[None, :]), of_sites, self.cap)[0]])

    def answer(self, state: State) -> Answer:
        """Return coefficients, standard errors and tests."""
        climb, rounds, rows = self._climb(state), self.rounds(state), self._rows(state)
        assert climb.best is not None
        null, sites = self._null(rounds[0]), int(state["reports"][0])
        covariance = self._covariance(climb.best, rounds[-1], null.weight, sites)
        estimates, covariance = self._in_own_units(climb.at, covariance)
        return Answer(
            title=f"{self.family.title} of {self.outcome}",
            facts={
                "records": rows.used,
                "sites": sites,
                **({"sum of weights": null.weight} if self.weights else {}),
                **self._likelihood(climb.best, null),
                "rounds": len(rounds),
                "standard errors": "clustered by site" if self.clustered else "model-based",
            },
            tables=(coefficient_table(self.design.names, estimates, covariance, self.family.ratio, self.level),),
            forest=self.family.ratio or "coef",
            notes=(*self._notes(rows, sites), *([PENALIZED] if self._penalty.any() else [])),
        )

    def _split(self, array: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the parts of an array of all sums: of counts, of records, of products of sites."""
        first, last = self.counted.length, len(array) - self._products * self.clustered
        return array[:first], array[first:last], array[last:]

    def _terms(self, rows: Examples, at: FloatArray) -> FloatArray:
        """Return (rows, sums) what each complete record adds: weight, w y, value, gradient, information."""
        y, x, offset = self._values(rows)
        weight = self.declared.values(self.weights, rows) if self.weights else np.ones(len(rows))
        value, residual, curvature = (weight * each for each in self.family.terms(y, x @ at + offset))
        return np.column_stack([weight, weight * y, value, x * residual[:, None], products(x) * curvature[:, None]])

    def _scales(self, at: FloatArray) -> FloatArray:
        """Return (length,) what one record adds at most to each sum, at some coefficients."""
        y, offset = self._largest()
        heaviest = self.declared.bounds(self.weights)[1] if self.weights else 1.0
        with np.errstate(over="ignore"):
            value, residual, curvature = np.array(self.family.largest(y, self.design.largest(at) + offset))
            of_site = [self.largest_node * (heaviest * residual) ** 2] * (self._products * self.clustered)
        of_record = [1.0, y, value, *[residual] * self.design.size, *[curvature] * self._products]
        return power_of_two(np.array([1.0] * self.counted.length + [heaviest * each for each in of_record] + of_site))

    def _after_round(self, climb: Climb, sums: IntArray) -> Climb:
        """Return where Newton's method stands after a round."""
        scales, size, at = self._scales(climb.at), self.design.size, climb.at
        (_, records, *_), values, _ = self._split(sums / self.cap * scales)
        errors = np.sqrt(max(records, 1.0) / 12) * self._split(scales)[1] / self.cap
        found = Evaluated(
            at=at,
            value=float(values[BEFORE - 1] - self._penalty @ at**2 / 2),
            gradient=values[BEFORE : BEFORE + size] - self._penalty * at,
            information=symmetric(values[BEFORE + size :], size) + np.diag(self._penalty),
            error=errors[BEFORE : BEFORE + size],
            value_error=float(errors[BEFORE - 1]),
        )
        alone = None if climb.rounds else self.family.start(self._null(sums))
        start = None if alone is None else alone * np.eye(size)[0]
        return climb.taken(found, lambda at: float(self._split(self._scales(at))[1][BEFORE]), start=start)

    def _null(self, sums: IntArray) -> Null:
        """Return what the sums of round 1 tell of the model without columns."""
        _, values, _ = self._split(sums / self.cap * self._scales(np.zeros(self.design.size)))
        weight, outcome, value, gradient, *_ = values.tolist()
        return Null(weight, outcome, value, gradient, float(values[BEFORE + self.design.size]), bool(self.offset))

    def _covariance(self, best: Evaluated, sums: IntArray, weight: float, sites: int) -> FloatArray:
        """Return (size, size) the covariance of the coefficients of the scaled columns."""
        penalty, free = np.diag(self._penalty), weight - self.design.size
        bread = np.linalg.inv(best.information)
        if self.clustered:
            _, _, of_sites = self._split(sums / self.cap * self._scales(best.at))
            meat = symmetric(of_sites, self.design.size) * sites / (sites - 1) * (weight - 1) / free
        else:
            meat = (best.information - penalty) * (1.0 if self.family.ratio else self._squares(best) / free)
        return np.asarray(bread @ meat @ bread)

    def _squares(self, best: Evaluated) -> float:
        """Return the sum of squared residuals of scaled normal outcomes."""
        return float(-2 * best.value - self._penalty @ best.at**2)

    def _likelihood(self, best: Evaluated, null: Null) -> dict[str, Cell]:
        """Return log-likelihood, AIC = 2 q - 2 l, and the test against the model without columns."""
        size = self.design.size
        if self.family.ratio:
            value = best.value + float(self._penalty @ best.at**2) / 2
            without, more = self.family.null_value(null), {}
        else:
            squares, start = self._squares(best), self.family.null_value(null)
            assert start is not None
            value, without = (self._profile(each, null.weight) for each in (squares, -2 * start))
            more = {"residual std": self._half * float(np.sqrt(squares / (null.weight - size)))}
            more |= {} if self.offset or not start else {"R squared": 1 + squares / (2 * start)}
        tests = {} if self._penalty.any() else against_null(value, without, size - 1)
        return {"log-likelihood": value, "AIC": 2 * size - 2 * value, **tests, **more}

    def _profile(self, squares: float, weight: float) -> float:
        """Return the log-likelihood of normal outcomes at their own variance: -n / 2 (log (2 pi RSS / n) + 1)."""
        return float(-weight / 2 * (np.log(2 * np.pi * squares * self._half**2 / weight) + 1))
