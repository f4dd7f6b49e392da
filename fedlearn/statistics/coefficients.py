"""The table of coefficients: estimates, standard errors, tests and intervals, as statsmodels and R print it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import chdtrc, ndtr, ndtri

from fedlearn.runs.analysis_answers import AnswerTable, Cell
from fedlearn.statistics.design import FloatArray

ROW = "term"


def coefficient_table(
    names: Sequence[str], estimates: FloatArray, covariance: FloatArray, ratio: str, level: float
) -> AnswerTable:
    """Return the table of coefficients: estimate b, standard error s, z = b / s, p = 2 P(Z > |z|), b -+ q s.

    Parameters
    ----------
    covariance
        (q, q) covariance matrix of the estimates.
    ratio
        Name of exp(b), with its interval; empty where it means nothing.
    level
        Of the intervals, such as 0.95.
    """
    errors = np.sqrt(np.diag(covariance))
    z = estimates / errors
    reach = ndtri((1 + level) / 2) * errors
    columns = [estimates, errors, z, 2 * ndtr(-np.abs(z)), estimates - reach, estimates + reach]
    titles = [ROW, "coef", "std err", "z", "p", *interval_titles(level)]
    if ratio:
        columns += [np.exp(each) for each in (estimates, estimates - reach, estimates + reach)]
        titles += [ratio, *(f"{ratio} {each}" for each in interval_titles(level))]
    rows = zip(names, *(column.tolist() for column in columns), strict=True)
    return AnswerTable("coefficients", tuple(titles), tuple(rows))


def interval_titles(level: float) -> tuple[str, str]:
    """Return the titles of the ends of an interval.

    >>> interval_titles(0.95)
    ('2.5%', '97.5%')
    """
    return f"{50 * (1 - level):g}%", f"{50 * (1 + level):g}%"


def against_null(value: float, null: float | None, degrees: int) -> dict[str, Cell]:
    """Return the likelihood-ratio test against the model without columns: 2 (l - l0) is chi-square distributed."""
    if null is None:
        return {}
    ratio = 2 * (value - null)
    return {"log-likelihood (null)": null, "LR chi2": ratio, "LR df": degrees, "LR p": float(chdtrc(degrees, ratio))}
