"""Answers that textbooks print, of studies in one table and at several sites."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.statistics import fit
from tests.oracles.studies import counts_table, leukemia, leukemia_table, ovarian_table

BY_SITE = [leukemia_table(leukemia().iloc[place::3]) for place in range(3)]


@pytest.mark.parametrize("tables", [leukemia_table(), BY_SITE], ids=["one table", "three sites"])
@pytest.mark.parametrize(
    ("ties", "coefficient", "error"), [("breslow", 1.5092, 0.4096), ("efron", 1.5721, 0.4124)]
)  # Kalbfleisch and Prentice 2002; Therneau's `coxph`
def test_cox_on_the_remissions_of_leukemia(tables, ties, coefficient, error):
    row = fit("cox", tables, event="relapse", ties=ties).table("coefficients").loc["arm: placebo"]
    assert (row["coef"], row["std err"]) == pytest.approx((coefficient, error), abs=5e-5)
    assert row["hazard ratio"] == pytest.approx(np.exp(coefficient), rel=1e-4)


@pytest.mark.parametrize("tables", [leukemia_table(), BY_SITE], ids=["one table", "three sites"])
def test_kaplan_meier_and_log_rank_on_the_remissions_of_leukemia(tables):
    found = fit("kaplan-meier", tables, event="relapse", by="arm", least_count=1)
    treated, placebo = found.curves
    assert dict(zip(treated.times, np.round(treated.values, 4), strict=True)) == {
        0: 1, 6: 0.8571, 7: 0.8067, 10: 0.7529, 13: 0.6902, 16: 0.6275, 22: 0.5378, 23: 0.4482, 40: 0.4482,
    }  # fmt: skip
    errors = found.table("life").loc["6-MP", "std err"].round(4).tolist()
    assert errors == [0.0764, 0.0869, 0.0963, 0.1068, 0.1141, 0.1282, 0.1346]
    life = found.table("survival").loc["6-MP"]
    assert (life["records"], life["events"], life["median"]) == (21, 9, 23)
    assert found.table("survival").loc["placebo", "median"] == 8 and placebo.values[-1] == 0
    assert found.table("log_rank").loc["log-rank test", "chi2"] == pytest.approx(16.79, abs=5e-3)
    assert found.table("log_rank").loc["6-MP", "expected"] == pytest.approx(19.25, abs=5e-3)


def test_proportional_hazards_of_the_help_of_cox_zph_in_r():
    found = fit("cox", ovarian_table(), event="died").table("proportional_hazards")
    assert found["chi2"].tolist() == pytest.approx([0.698, 2.371, 3.633], abs=5e-4)
    assert found["p"].tolist() == pytest.approx([0.40, 0.12, 0.16], abs=5e-3) and found["df"].tolist() == [1, 1, 2]


def test_poisson_regression_of_the_help_of_glm_in_r():
    found = fit("glm", counts_table(), family="poisson", least_count=1)
    table = found.table("coefficients")
    assert table["coef"].tolist() == pytest.approx([3.0445, -0.4543, -0.2930, 0, 0], abs=5e-5)
    assert table["std err"].tolist() == pytest.approx([0.1709, 0.2022, 0.1927, 0.2, 0.2], abs=5e-5)
    assert found.facts["AIC"] == pytest.approx(56.76, abs=5e-3)
    assert table.index[1] == "outcome: 2" and "outcome is compared with '1'" in found.notes
