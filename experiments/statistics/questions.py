"""Twenty-five questions from the guides of statsmodels, lifelines and tableone, asked of five sites and of all rows.

    pip install 'fedlearn[pooled]'
    python -m experiments.statistics.questions            # prints the table; its data come with these libraries

Each question has the call here, its result, and the result of the library on all rows in one table. Equal means: no
number differs by more than 1e-6 of its size.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fedlearn.core.errors import FedlearnError
from fedlearn.data import from_frame
from fedlearn.runs.analysis_answers import Answer
from fedlearn.statistics import fit

SHARES = (0.4, 0.25, 0.2, 0.1, 0.05)  # of the rows, by site
EQUAL = 1e-6


@dataclass(frozen=True, slots=True)
class Question:
    """A question: where it is asked, the call here, both results, and why they are not equal, if they are not."""

    guide: str
    asked: str
    call: str
    found: Sequence[Any]  # numbers
    pooled: Sequence[Any]
    why: str = ""

    @property
    def difference(self) -> float:
        """Largest difference of two numbers, by their size."""
        if not len(self.found):
            return float("nan")
        mine, theirs = np.array(self.found, float), np.array(self.pooled, float)
        return float(np.max(np.abs(mine - theirs) / np.maximum(np.abs(theirs), 1e-12)))

    @property
    def is_equal(self) -> bool:
        """Whether both results are equal."""
        return bool(self.difference <= EQUAL)

    def row(self, number: int) -> str:
        """Return the row of the table."""
        first = f"{self.found[0]:.6g}" if len(self.found) else ""
        other = f"{self.pooled[0]:.6g}" if len(self.pooled) else ""
        said = f"yes, {self.difference:.0e}" if self.is_equal else f"no: {self.why}"
        return f"| {number} | {self.guide} | {self.asked} | {self.call} | {first} | {other} | {said} |"


def sites(frame: pd.DataFrame, target: str, words: Mapping[str, Sequence[str]] | None = None) -> list[Any]:
    """Return the tables of five uneven sites, with bounds that are those of all rows."""
    words = dict(words or {})
    ends = (np.cumsum(SHARES) * len(frame)).round().astype(int)
    order = np.random.default_rng(1).permutation(len(frame))
    numbers = [name for name in frame.columns if name not in words and name != target]
    bounds = {name: (float(frame[name].min()), float(frame[name].max())) for name in numbers}
    of_target = (
        {"classes": words.pop(target)}
        if target in words
        else {"target_bounds": (min(0.0, float(frame[target].min())), float(frame[target].max()))}
    )
    return [
        from_frame(
            frame.iloc[np.sort(rows)], target=target, bounds=bounds, categories=words, test_share=0.0, **of_target
        )
        for rows in np.split(order, ends[:-1])
    ]


def estimates(answer: Answer, names: Sequence[str] = ("coef", "std err")) -> list[float]:
    """Return columns of the table of coefficients, one behind the other."""
    table = answer.table("coefficients")
    return [float(value) for name in names for value in table[name]]


def of_result(result: Any) -> list[float]:
    """Return coefficients and standard errors of a result of statsmodels."""
    return [*map(float, result.params), *map(float, result.bse)]


def regressions() -> list[Question]:
    """Return the questions of the guides of statsmodels."""
    import statsmodels.api as sm

    engel = sm.datasets.engel.load_pandas().data
    ols = sm.OLS(engel.foodexp, sm.add_constant(engel[["income"]])).fit()
    line = fit("glm", sites(engel, "foodexp"), family="normal")
    spector = sm.datasets.spector.load_pandas().data
    grade = sm.Logit(spector.GRADE, sm.add_constant(spector[["GPA", "TUCE", "PSI"]])).fit(disp=0, tol=1e-14)
    graded = fit("glm", sites(spector, "GRADE"), family="logit")
    fair = sm.datasets.fair.load_pandas().data
    fair = fair.assign(affair=(fair.affairs > 0).astype(float)).drop(columns="affairs")
    columns = [name for name in fair.columns if name != "affair"]
    affair = sm.Logit(fair.affair, sm.add_constant(fair[columns])).fit(disp=0, tol=1e-14)
    hie = sm.datasets.randhie.load_pandas().data
    visits = sm.Poisson(hie.mdvis, sm.add_constant(hie.drop(columns="mdvis"))).fit(disp=0, tol=1e-14, maxiter=100)
    visited = fit("glm", sites(hie, "mdvis"), family="poisson")
    star = sm.datasets.star98.load_pandas()
    share = sm.GLM(star.endog, sm.add_constant(star.exog[["LOWINC", "PERASIAN"]]), family=sm.families.Binomial())
    long = pd.concat(
        star.exog[["LOWINC", "PERASIAN"]].assign(
            above=float(place == 0), pupils=star.endog.iloc[:, place].astype(float)
        )
        for place in (0, 1)
    )
    rows = long[long.pupils > 0].reset_index(drop=True)
    by_site = [from_one(spector.iloc[place::5], "GRADE", spector) for place in range(5)]
    groups = np.arange(len(spector)) % 5
    design = sm.add_constant(spector[["GPA", "TUCE", "PSI"]])
    clustered = sm.GLM(spector.GRADE, design, family=sm.families.Binomial())
    clustered = clustered.fit(tol=1e-14, cov_type="cluster", cov_kwds={"groups": groups})
    return [
        Question("statsmodels", "OLS of food on income (engel)", '`fit("glm", family="normal")`',
                 estimates(line)[:2], list(map(float, ols.params))),
        Question("statsmodels", "its log-likelihood", "`.facts`", [line.facts["log-likelihood"]], [ols.llf]),
        Question("statsmodels", "logit of grades (spector)", '`fit("glm")`', estimates(graded), of_result(grade)),
        Question("statsmodels", "is it better than no columns?", "`.facts`",
                 [graded.facts["LR chi2"], graded.facts["LR p"]], [grade.llr, grade.llr_pvalue]),
        Question("statsmodels", "logit of affairs (fair)", '`fit("glm")`',
                 estimates(fit("glm", sites(fair, "affair"), family="logit")), of_result(affair)),
        Question("statsmodels", "Poisson of visits (randhie)", '`fit("glm", family="poisson")`',
                 estimates(visited), of_result(visits)),
        Question("statsmodels", "binomial of two counts (star98)", '`fit("glm", weights="pupils")`',
                 estimates(fit("glm", sites(rows, "above"), family="logit", weights="pupils")),
                 of_result(share.fit(tol=1e-14))),
        Question("statsmodels", "errors clustered by site (spector)", '`fit("glm", clustered=True)`',
                 estimates(fit("glm", by_site, family="logit", clustered=True)), of_result(clustered)),
        Question("statsmodels", "Gamma regression (scotland)", "", [], [], "families are normal, logit, Poisson"),
    ]  # fmt: skip


def from_one(part: pd.DataFrame, target: str, whole: pd.DataFrame) -> Any:
    """Return the table of one site, with the bounds of all rows."""
    bounds = {name: (float(whole[name].min()), float(whole[name].max())) for name in whole if name != target}
    ends = (float(whole[target].min()), float(whole[target].max()))
    return from_frame(part, target=target, target_bounds=ends, bounds=bounds, test_share=0.0)


def survival() -> list[Question]:
    """Return the questions of the guides of lifelines, and of statsmodels on durations."""
    import lifelines
    import statsmodels.api as sm
    from lifelines import datasets
    from lifelines.utils import restricted_mean_survival_time

    waltons = datasets.load_waltons()
    waltons = waltons.assign(E=waltons.E.map({0: "no", 1: "yes"}))
    words = {"E": ["no", "yes"], "group": ["control", "miR-137"]}
    curves = fit("kaplan-meier", sites(waltons, "T", words), event="E", by="group", restricted=50, least_count=1)
    both = fit("kaplan-meier", sites(waltons, "T", words), event="E", least_count=1)
    kmf = {
        name: lifelines.KaplanMeierFitter().fit(rows["T"], rows.E == "yes") for name, rows in waltons.groupby("group")
    }
    whole = lifelines.KaplanMeierFitter().fit(waltons["T"], waltons.E == "yes")
    life = both.table("life").set_index("T")
    band = whole.confidence_interval_.loc[life.index]
    nelson = lifelines.NelsonAalenFitter(nelson_aalen_smoothing=False).fit(waltons["T"], waltons.E == "yes")
    logrank = lifelines.statistics.multivariate_logrank_test(waltons["T"], waltons.group, waltons.E == "yes")
    row = curves.table("log_rank").loc["log-rank test"]
    table = curves.table("survival")
    rossi = datasets.load_rossi()
    rossi = rossi.assign(arrest=rossi.arrest.map({0: "no", 1: "yes"}), wexp=rossi.wexp.map({0: "no", 1: "yes"}))
    of_rossi = {"arrest": ["no", "yes"], "wexp": ["no", "yes"]}
    plain = rossi.assign(arrest=rossi.arrest == "yes", wexp=(rossi.wexp == "yes").astype(float))
    options = {"precision": 1e-12}
    theirs = lifelines.CoxPHFitter().fit(plain, "week", "arrest", fit_options=options)
    strata = lifelines.CoxPHFitter().fit(plain, "week", "arrest", strata=["wexp"], fit_options=options)
    cox = fit("cox", sites(rossi, "week", of_rossi), event="arrest", score_cells=400)
    columns = cox.table("coefficients").index.str.replace(": yes", "").tolist()
    stratified = fit("cox", sites(rossi, "week", of_rossi), event="arrest", strata="wexp")
    tested = lifelines.statistics.proportional_hazard_test(theirs, plain, time_transform="km")
    breslow = sm.PHReg(plain.week, plain[columns], status=plain.arrest, ties="breslow").fit(disp=0)
    return [
        Question("lifelines", "median of all (waltons)", '`fit("kaplan-meier")`',
                 [both.table("survival").loc["all", "median"]], [whole.median_survival_time_]),
        Question("lifelines", "the curve", '`.table("life")`', list(life.survival),
                 list(whole.survival_function_at_times(life.index))),
        Question("lifelines", "its band", '`.table("life")`', list(life[["2.5%", "97.5%"]].to_numpy()[:-1].ravel()),
                 list(band.to_numpy()[:-1].ravel())),
        Question("lifelines", "restricted mean by group", '`fit("kaplan-meier", by="group", restricted=50)`',
                 list(table["mean to 50"]), [restricted_mean_survival_time(kmf[name], t=50) for name in table.index]),
        Question("lifelines", "log-rank test", '`.table("log_rank")`', [row["chi2"], row["p"]],
                 [logrank.test_statistic, logrank.p_value]),
        Question("lifelines", "cumulative hazard (Nelson-Aalen)", '`(life["events"] / life["at risk"]).cumsum()`',
                 list((life["events"] / life["at risk"]).cumsum()),
                 list(nelson.cumulative_hazard_.loc[life.index].iloc[:, 0])),
        Question("lifelines", "Cox model (rossi)", '`fit("cox")`', estimates(cox),
                 [*theirs.params_[columns], *theirs.standard_errors_[columns]]),
        Question("lifelines", "its log-likelihood ratio test", "`.facts`", [cox.facts["LR chi2"]],
                 [theirs.log_likelihood_ratio_test().test_statistic]),
        Question("lifelines", "strata", '`fit("cox", strata="wexp")`', estimates(stratified),
                 [*strata.params_, *strata.standard_errors_]),
        Question("statsmodels", "PHReg with Breslow's ties (rossi)", '`fit("cox", ties="breslow")`',
                 estimates(fit("cox", sites(rossi, "week", of_rossi), event="arrest", ties="breslow")),
                 [*breslow.params, *breslow.bse]),
        Question("lifelines", "C index", '`fit("cox", score_cells=400)`', [cox.facts["C index"]],
                 [theirs.concordance_index_], f"off by at most {cox.facts['C index off by']:.2g}, as it says"),
        Question("lifelines", "are hazards proportional?", '`.table("proportional_hazards")`',
                 list(cox.table("proportional_hazards")["chi2"])[:-1],
                 list(tested.summary.test_statistic[columns]),
                 "the score test of R's `cox.zph`; lifelines approximates it"),
    ]  # fmt: skip


def tables() -> list[Question]:
    """Return the questions of the guide of tableone, which computes by pandas and SciPy, on the data of lifelines."""
    from lifelines import datasets
    from scipy import stats

    frame = datasets.load_gbsg2()[["horTh", "age", "tsize", "menostat"]]
    frame = frame.assign(age=frame.age.astype(float), tsize=frame.tsize.astype(float))
    words = {"horTh": ["no", "yes"], "menostat": ["Pre", "Post"]}
    found = fit("describe", sites(frame, "tsize", words), by="horTh")
    numbers = found.table("numbers").set_index("group", append=True)
    shares = found.table("table1")
    groups = [frame[frame.horTh == word] for word in ("no", "yes")]
    t = [stats.ttest_ind(*(each[name] for each in groups), equal_var=False).pvalue for name in ("age", "tsize")]
    mine = [
        int(str(shares.loc[f"menostat: {word}, n (%)", group]).split(" ")[0])
        for word in ("Pre", "Post") for group in ("no", "yes")
    ]  # fmt: skip
    return [
        Question("tableone", "means by group (gbsg2)", '`fit("describe", by="horTh")`',
                 [numbers.loc[(name, group), "mean"] for name in ("age", "tsize") for group in ("no", "yes")],
                 [each[name].mean() for name in ("age", "tsize") for each in groups]),
        Question("tableone", "counts by group", '`.table("table1")`', mine,
                 [(each.menostat == word).sum() for word in ("Pre", "Post") for each in groups]),
        Question("tableone", "p of two means (Welch)", '`.table("tests")`',
                 list(found.table("tests").loc[["age", "tsize"], "p"]), t),
        Question("tableone", "the same without one site", "", [], [],
                 "refused on a network, as both answers tell what the site has added"),
    ]  # fmt: skip


def main() -> None:
    """Print the table of all questions, and how many are equal."""
    warnings.simplefilter("ignore")
    asked: list[Question] = []
    parts: list[Callable[[], list[Question]]] = [regressions, survival, tables]
    for part in parts:
        try:
            asked += part()
        except FedlearnError as error:
            raise SystemExit(f"{part.__name__}: {error}") from None
    print("| | guide of | question | call | result | all rows | equal |\n|---|---|---|---|---|---|---|")
    print("\n".join(each.row(number) for number, each in enumerate(asked, start=1)))
    print(f"\n{sum(each.is_equal for each in asked)} of {len(asked)} are equal")


if __name__ == "__main__":
    main()
