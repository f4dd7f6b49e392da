"""Compares answers of uneven nodes with the answers of other libraries for all rows in one table."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression, Ridge

from fedlearn.core.errors import RunFailed
from fedlearn.statistics import fit
from tests.oracles.studies import BOUNDS, leukemia, leukemia_table, patients, table

COLUMNS = ["age", "dose", "sex", "ward"]
FRAME = patients(700, seed=4)
EXACT = {"rel": 1e-8}


def at_sites(frame, target, columns, count):
    """Return tables of uneven sites: one is empty, one has one class or no event, the others differ in size."""
    alike = frame.sick == "no" if target != "weeks" else frame.died == "no"
    few = frame.index[alike][:20]
    cuts = np.sort(np.random.default_rng(count).integers(0, len(frame) - 20, count - 3))
    parts = np.split(frame.drop(few).to_numpy(dtype=object), cuts)
    frames = [pd.DataFrame(part, columns=frame.columns).infer_objects() for part in parts]
    return [table(each, target, columns) for each in (frame.loc[few], frame.iloc[:0], *frames)]


def matrix(frame, columns=COLUMNS):
    """Return the columns as numbers, with the first category of each as reference."""
    dummies = pd.get_dummies(frame[columns], drop_first=True, dtype=float)
    return dummies.rename(columns=lambda name: name.replace("_", ": "))


@pytest.mark.parametrize("count", [3, 8, pytest.param(40, marks=pytest.mark.long)])
def test_glm_of_uneven_sites_is_that_of_statsmodels(count):
    sm = pytest.importorskip("statsmodels.api")
    x = sm.add_constant(matrix(FRAME))
    families = {
        "logit": (FRAME.sick == "yes", "sick", sm.families.Binomial()),
        "poisson": (FRAME.visits, "visits", sm.families.Poisson()),
        "normal": (FRAME.score, "score", sm.families.Gaussian()),
    }
    for family, (y, target, theirs) in families.items():
        offset = {"offset": FRAME.years} if family == "poisson" else {}
        expected = sm.GLM(y.astype(float), x, family=theirs, **offset).fit(tol=1e-14)
        more = ["years"] if offset else []
        found = fit(
            "glm", at_sites(FRAME, target, [*COLUMNS, *more], count), family=family, **dict.fromkeys(offset, "years")
        )
        coefficients = found.table("coefficients")
        assert coefficients.index.tolist()[1:] == x.columns.tolist()[1:]
        for name, values in (("coef", expected.params), ("std err", expected.bse), ("p", expected.pvalues)):
            assert coefficients[name].tolist() == pytest.approx(values.tolist(), rel=1e-7 if name == "p" else 1e-8)
        assert coefficients[["2.5%", "97.5%"]].to_numpy() == pytest.approx(expected.conf_int().to_numpy(), **EXACT)
        own = sm.OLS(y, x).fit() if family == "normal" else expected
        assert found.facts["log-likelihood"] == pytest.approx(own.llf, **EXACT)
        assert found.facts["AIC"] == pytest.approx(own.aic, **EXACT)
        if family == "normal":
            assert found.facts["R squared"] == pytest.approx(own.rsquared, **EXACT)
        if not offset and family != "normal":
            assert found.facts["log-likelihood (null)"] == pytest.approx(expected.llnull, **EXACT)


def test_errors_that_are_clustered_by_site_are_those_of_statsmodels():
    sm = pytest.importorskip("statsmodels.api")
    site = np.arange(len(FRAME)) % 7
    tables = [table(FRAME[site == place], "sick", COLUMNS) for place in range(7)]
    found = fit("glm", tables, clustered=True).table("coefficients")
    model = sm.GLM((FRAME.sick == "yes").astype(float), sm.add_constant(matrix(FRAME)), family=sm.families.Binomial())
    expected = model.fit(tol=1e-14, cov_type="cluster", cov_kwds={"groups": site})
    assert found["std err"].tolist() == pytest.approx(expected.bse.tolist(), rel=1e-7)


def test_few_sites_are_said_to_make_clustered_errors_too_small():
    notes = {
        count: fit("glm", [table(FRAME[at::count], "sick", ["age"]) for at in range(count)], clustered=True).notes
        for count in (5, 40)
    }
    assert "too small with few sites, and here are 5" in notes[5][-1] and notes[40] == notes[5][:-1]


def test_a_weight_is_how_often_a_record_counts():
    sm = pytest.importorskip("statsmodels.api")
    frame = FRAME.assign(visits=1.0 + np.arange(len(FRAME)) % 3)
    found = fit("glm", table(frame, "sick", [*COLUMNS, "visits"]), weights="visits")
    again = fit("glm", table(frame.loc[frame.index.repeat(frame.visits.astype(int))], "sick", COLUMNS))
    model = sm.GLM(
        (frame.sick == "yes") * 1.0,
        sm.add_constant(matrix(frame)),
        freq_weights=frame.visits,
        family=sm.families.Binomial(),
    )
    for expected in (again.table("coefficients")["coef"], model.fit(tol=1e-14).params):
        assert found.table("coefficients")["coef"].tolist() == pytest.approx(expected.tolist(), **EXACT)


def test_a_penalty_is_that_of_scikit_learn():
    y, x = FRAME.sick == "yes", matrix(FRAME)
    found = fit("glm", table(FRAME, "sick", COLUMNS), l2=2.0).table("coefficients")["coef"]
    expected = LogisticRegression(C=0.5, tol=1e-12, max_iter=10_000, solver="newton-cholesky").fit(x, y)
    assert found.tolist() == pytest.approx([*expected.intercept_, *expected.coef_[0]], rel=1e-6)
    found = fit("glm", table(FRAME, "score", COLUMNS), family="normal", l2=3.0).table("coefficients")["coef"]
    expected = Ridge(alpha=3.0).fit(x, FRAME.score)
    assert found.tolist() == pytest.approx([expected.intercept_, *expected.coef_], **EXACT)


@pytest.mark.parametrize("count", [3, 8, pytest.param(40, marks=pytest.mark.long)])
@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_cox_of_uneven_sites_is_that_of_statsmodels(count, ties):
    sm = pytest.importorskip("statsmodels.api")
    found = fit("cox", at_sites(FRAME, "weeks", [*COLUMNS, "died"], count), event="died", ties=ties)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = sm.PHReg(FRAME.weeks, matrix(FRAME), status=FRAME.died == "yes", ties=ties).fit(disp=0)
    coefficients = found.table("coefficients")
    assert coefficients["coef"].tolist() == pytest.approx(expected.params.tolist(), **EXACT)
    assert coefficients["std err"].tolist() == pytest.approx(expected.bse.tolist(), **EXACT)
    assert found.facts["log-likelihood"] == pytest.approx(expected.llf, **EXACT)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_cox_clustered_by_site_has_the_errors_of_score_residuals(ties):
    """Breslow's beside statsmodels; Efron's beside residuals that are added up record by record."""
    site, columns = np.arange(len(FRAME)) % 9, ["age", "dose", "sex"]
    tables = [table(FRAME[site == place], "weeks", [*columns, "died"]) for place in range(9)]
    found = fit("cox", tables, event="died", ties=ties, clustered=True).table("coefficients")
    x, b = matrix(FRAME, columns).to_numpy(), found["coef"].to_numpy()
    data = (x, FRAME.weeks.to_numpy(), (FRAME.died == "yes").to_numpy())
    parts = residuals(*data, b, is_efron=ties == "efron")
    of_sites = np.array([parts[site == place].sum(axis=0) for place in range(9)])
    plain = fit("cox", tables, event="died", ties=ties).table("coefficients")
    assert found["coef"].tolist() == plain["coef"].tolist()
    bread = numeric_information(*data, b, is_efron=ties == "efron")
    expected = np.linalg.inv(bread) @ of_sites.T @ of_sites @ np.linalg.inv(bread)
    assert found["std err"].tolist() == pytest.approx(np.sqrt(np.diag(expected)).tolist(), rel=1e-6)
    if ties == "breslow":
        sm = pytest.importorskip("statsmodels.api")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = sm.PHReg(FRAME.weeks, matrix(FRAME, columns), status=FRAME.died == "yes", ties=ties)
            theirs = model.fit(disp=0, groups=site)
        assert found["std err"].tolist() == pytest.approx(theirs.bse.tolist(), rel=1e-6)


def residuals(x, times, events, b, *, is_efron):
    """Return (rows, columns) score residuals, event by event (Therneau and Grambsch 2000, section 7.2)."""
    r, parts = np.exp(x @ b), np.zeros_like(x)
    for time in np.unique(times[events]):
        at_risk, dead = times >= time, (times == time) & events
        for place in range(dead.sum()):
            share = place / dead.sum() if is_efron else 0.0
            weight = r * at_risk - share * r * dead
            mean = weight @ x / weight.sum()
            parts[dead] += (x[dead] - mean) / dead.sum()
            parts -= (weight / weight.sum())[:, None] * (x - mean)
    return parts


def numeric_information(x, times, events, b, *, is_efron):
    """Return minus the derivative of the sum of score residuals."""
    steps = 1e-6 * np.eye(len(b))
    sums = [
        (residuals(x, times, events, b + h, is_efron=is_efron) - residuals(x, times, events, b - h, is_efron=is_efron))
        .sum(axis=0) / 2e-6
        for h in steps
    ]  # fmt: skip
    return -np.array(sums)


@pytest.mark.parametrize("strata", ["", "ward"])
def test_the_test_of_proportional_hazards_is_the_score_test_of_coefficients_that_change_in_time(strata):
    columns = ["age", "dose", "sex"]
    tables = at_sites(FRAME, "weeks", [*columns, "ward", "died"], 8)
    found = fit("cox", tables, event="died", columns=columns, strata=strata)
    x, b = matrix(FRAME, columns).to_numpy(), found.table("coefficients")["coef"].to_numpy()
    times, events = FRAME.weeks.to_numpy(), (FRAME.died == "yes").to_numpy()
    place = FRAME.ward.to_numpy() if strata else np.zeros(len(FRAME))
    kaplan_meier, before = 1.0, {}
    for time in np.unique(times):
        before[time] = 1 - kaplan_meier
        kaplan_meier *= 1 - ((times == time) & events).sum() / (times >= time).sum()
    score, information = np.zeros(6), np.zeros((6, 6))
    for stratum in np.unique(place):
        for time in np.unique(times[events & (place == stratum)]):
            at_risk = (times >= time) & (place == stratum)
            dead = at_risk & (times == time) & events
            more = np.hstack([x, x * before[time]])
            score += more[dead].sum(axis=0)
            for share in np.arange(dead.sum()) / dead.sum():
                weight = np.exp(x @ b) * (at_risk - share * dead)
                mean = weight @ more / weight.sum()
                score -= mean
                information += (more * weight[:, None]).T @ more / weight.sum() - np.outer(mean, mean)
    assert np.abs(score[:3] / np.sqrt(np.diag(information)[:3])).max() < 1e-6
    expected = []
    for own in ([3], [4], [5], [3, 4, 5]):
        asked = [0, 1, 2, *own]
        expected.append(score[asked] @ np.linalg.solve(information[np.ix_(asked, asked)], score[asked]))
    tests = found.table("proportional_hazards")
    assert tests["chi2"].tolist() == pytest.approx(expected, rel=1e-6)
    assert tests["p"].tolist() == pytest.approx(stats.chi2.sf(expected, [1, 1, 1, 3]).tolist(), rel=1e-6)


def test_hazards_that_cross_are_not_proportional():
    rng = np.random.default_rng(3)
    frame = patients(900, seed=5)
    weeks = np.where(frame.sex == "m", 18 + rng.normal(0, 3, 900), rng.exponential(18, 900))
    frame = frame.assign(weeks=np.ceil(np.clip(weeks, 1, 60)), died="yes")
    tests = fit("cox", table(frame, "weeks", ["age", "sex", "died"]), event="died").table("proportional_hazards")
    assert tests.loc["sex: m", "p"] < 1e-6 < 0.01 < tests.loc["age", "p"]
    breslow = fit("cox", table(frame, "weeks", ["age", "sex", "died"]), event="died", ties="breslow")
    assert [each.name for each in breslow.tables] == ["coefficients"] and "ties = 'efron'" in breslow.notes[-1]


def test_the_c_index_is_that_of_all_pairs_within_the_error_that_is_said():
    found = fit("cox", at_sites(FRAME, "weeks", [*COLUMNS, "died"], 8), event="died", score_cells=300)
    scores = matrix(FRAME).to_numpy() @ found.table("coefficients")["coef"].to_numpy()
    times, events = FRAME.weeks.to_numpy(), (FRAME.died == "yes").to_numpy()
    later = (times[:, None] < times) | ((times[:, None] == times) & ~events)
    pairs = later & events[:, None]
    expected = (scores[:, None] > scores)[pairs].mean()
    assert abs(found.facts["C index"] - expected) <= found.facts["C index off by"] < 0.02
    fine = fit("cox", at_sites(FRAME, "weeks", [*COLUMNS, "died"], 3), event="died", score_cells=1000)
    assert abs(fine.facts["C index"] - expected) < 1e-3


def test_errors_by_site_need_several_sites():
    for model, target, options in (("cox", "weeks", {"event": "died"}), ("glm", "sick", {})):
        with pytest.raises(RunFailed, match="need several sites"):
            fit(model, table(FRAME, target, ["age", *options.values()]), clustered=True, **options)


def test_cox_with_strata_is_that_of_lifelines():
    lifelines = pytest.importorskip("lifelines")
    found = fit("cox", at_sites(FRAME, "weeks", [*COLUMNS, "died"], 8), event="died", strata="ward")
    columns = ["age", "dose", "sex"]
    frame = matrix(FRAME, columns).assign(weeks=FRAME.weeks, died=FRAME.died == "yes", ward=FRAME.ward)
    fitter = lifelines.CoxPHFitter().fit(frame, "weeks", "died", strata=["ward"], fit_options={"precision": 1e-12})
    coefficients = found.table("coefficients")
    assert coefficients["coef"].tolist() == pytest.approx(fitter.params_.tolist(), rel=1e-6)
    assert coefficients["std err"].tolist() == pytest.approx(fitter.standard_errors_.tolist(), rel=1e-6)
    assert found.facts["log-likelihood"] == pytest.approx(fitter.log_likelihood_, **EXACT)


@pytest.mark.parametrize("count", [3, 8, pytest.param(40, marks=pytest.mark.long)])
def test_curves_of_uneven_sites_are_those_of_lifelines(count):
    lifelines = pytest.importorskip("lifelines")
    tables = at_sites(FRAME, "weeks", [*COLUMNS, "died"], count)
    found = fit("kaplan-meier", tables, event="died", by="ward", restricted=30, least_count=1)
    life, survival = found.table("life"), found.table("survival")
    for curve in found.curves:
        frame = FRAME[FRAME.ward == curve.name]
        fitter = lifelines.KaplanMeierFitter().fit(frame.weeks, frame.died == "yes")
        own = life.loc[curve.name].set_index("weeks")
        expected = fitter.survival_function_at_times(own.index)
        assert own["survival"].tolist() == pytest.approx(expected.tolist(), **EXACT)
        band = fitter.confidence_interval_.loc[own.index].to_numpy()
        assert own[["2.5%", "97.5%"]].to_numpy()[:-1] == pytest.approx(band[:-1], **EXACT)
        assert own["at risk"].tolist() == fitter.event_table.loc[own.index, "at_risk"].tolist()
        half = fitter.survival_function_["KM_estimate"] <= 0.5 + 1e-9  # it rounds, and may pass over a half
        assert survival.loc[curve.name, "median"] == half.idxmax()
        mean = lifelines.utils.restricted_mean_survival_time(fitter, t=30)
        assert survival.loc[curve.name, "mean to 30"] == pytest.approx(mean, **EXACT)
    expected = lifelines.statistics.multivariate_logrank_test(FRAME.weeks, FRAME.ward, FRAME.died == "yes")
    row = found.table("log_rank").loc["log-rank test"]
    assert (row["chi2"], row["p"]) == pytest.approx((expected.test_statistic, expected.p_value), rel=1e-7)


def test_times_between_points_of_the_grid_are_rounded_up():
    frame = leukemia()
    later = frame.assign(weeks=np.ceil(frame.weeks / 4) * 4)
    for model in ("cox", "kaplan-meier"):
        merged = fit(model, leukemia_table(frame), event="relapse", step=4.0, least_count=1)
        expected = fit(model, leukemia_table(later), event="relapse", step=4.0, least_count=1)
        assert merged.tables[0].rows == expected.tables[0].rows


def test_a_description_is_that_of_pandas_and_scipy():
    frame = patients(500, seed=3, missing=0.06)
    frame["age"] = frame.age.clip(*BOUNDS["age"])
    columns = [*COLUMNS, "sick"]
    tables = [table(part, "score", columns) for part in (frame[:77], frame[77:80], frame[80:])]
    found = fit("describe", tables, by="sick", bins=1000, least_count=1)
    numbers = found.table("numbers")
    for name in ("age", "dose", "score"):
        for label in ("all", "no", "yes"):
            values = frame[name] if label == "all" else frame[name][frame.sick == label]
            own = numbers.loc[name].set_index("group").loc[label]
            assert (own["n"], own["missing"]) == (values.count(), values.isna().sum())
            assert (own["mean"], own["SD"]) == pytest.approx((values.mean(), values.std()), **EXACT)
            low, high = BOUNDS[name]
            assert own[["Q1", "median", "Q3"]].tolist() == pytest.approx(
                np.quantile(values.dropna(), [0.25, 0.5, 0.75], method="inverted_cdf").tolist(),
                abs=(high - low) / 1000,
            )
    tests = found.table("tests")
    for name in ("age", "dose", "score"):
        groups = [frame[name][frame.sick == label].dropna() for label in ("no", "yes")]
        t = stats.ttest_ind(*groups, equal_var=False)
        assert tests.loc[name, ["statistic", "df", "p"]].tolist() == pytest.approx([*t[:1], t.df, t.pvalue], rel=1e-7)
    chi2 = stats.chi2_contingency(pd.crosstab(frame.sick, frame.ward), correction=False)
    assert tests.loc["ward", ["statistic", "df", "p"]].tolist() == pytest.approx([*chi2[:1], chi2[2], chi2[1]], **EXACT)
    matrix = found.table("correlation").to_numpy(float)
    assert matrix == pytest.approx(frame[["age", "dose", "score"]].dropna().corr().to_numpy(), **EXACT)
    by_ward = fit("describe", tables, by="ward").table("tests").loc["score"]
    f = stats.f_oneway(*(frame.score[frame.ward == word] for word in "abc"))
    assert by_ward[["statistic", "p"]].tolist() == pytest.approx([*f], rel=1e-7)
