"""Small studies with published answers, and made ones, as declared tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fedlearn.data import from_frame
from fedlearn.data.dataset import Dataset

TREATED = "6 6 6 6+ 7 9+ 10 10+ 11+ 13 16 17+ 19+ 20+ 22 23 25+ 32+ 32+ 34+ 35+"
PLACEBO = "1 1 2 2 3 4 4 5 5 8 8 8 8 11 11 12 12 15 17 22 23"


def leukemia() -> pd.DataFrame:
    """Return weeks of remission of 42 patients (Freireich et al. 1963, in Cox 1972, table 1); + are censored."""
    rows = [(arm, weeks) for arm, text in (("6-MP", TREATED), ("placebo", PLACEBO)) for weeks in text.split()]
    return pd.DataFrame(
        {
            "arm": [arm for arm, _ in rows],
            "weeks": [float(weeks.rstrip("+")) for _, weeks in rows],
            "relapse": ["no" if weeks.endswith("+") else "yes" for _, weeks in rows],
        }
    )


def leukemia_table(rows: pd.DataFrame | None = None) -> Dataset:
    """Return these patients, or some of them, as a table that is declared for survival."""
    categories = {"arm": ["6-MP", "placebo"], "relapse": ["no", "yes"]}
    frame = leukemia() if rows is None else rows
    return from_frame(frame, target="weeks", target_bounds=(0, 40), categories=categories)


def ovarian_table() -> Dataset:
    """Return days and deaths of 26 women by age and performance (Edmunson et al. 1979; in R's help of `cox.zph`)."""
    text = """
        59+1+72.3315+1 115+1+74.4932+1 156+1+66.4658+2 421+0+53.3644+1 431+1+50.3397+1 448+0+56.4301+2 464+1+56.9370+2
        475+1+59.8548+2 477+0+64.1753+1 563+1+55.1781+2 638+1+56.7562+2 744+0+50.1096+1 769+0+59.6301+2 770+0+57.0521+1
        803+0+39.2712+1 855+0+43.1233+2 1040+0+38.8932+2 1106+0+44.6000+1 1129+0+53.9068+1 1206+0+44.2055+1
        1227+0+59.5890+2 268+1+74.5041+2 329+1+43.1370+1 353+1+63.2192+2 365+1+64.4247+1 377+0+58.3096+1
    """
    rows = [[float(each) for each in line.split("+")] for line in text.split()]
    frame = pd.DataFrame(rows, columns=["days", "died", "age", "performance"])
    bounds = {"died": (0, 1), "age": (30, 80), "performance": (1, 2)}
    return from_frame(frame, target="days", target_bounds=(0, 1300), bounds=bounds, test_share=0.0)


def counts_table() -> Dataset:
    """Return the randomized trial of Dobson 1990, page 93, as in the help of R's `glm`."""
    counts = [18, 17, 15, 20, 10, 20, 25, 13, 12]
    frame = pd.DataFrame(
        {"outcome": list("123") * 3, "treatment": [k for k in "123" for _ in range(3)], "n": map(float, counts)}
    )
    levels = ["1", "2", "3"]
    return from_frame(frame, target="n", target_bounds=(0, 50), categories={"outcome": levels, "treatment": levels})


def patients(rows: int = 400, *, seed: int = 0, missing: float = 0.0) -> pd.DataFrame:
    """Return made patients: age, dose, sex, ward, sick, visits, years, score, weeks, died."""
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(20, 90, rows), rng.uniform(0, 5, rows)
    sex, ward = rng.choice(["f", "m"], rows), rng.choice(["a", "b", "c"], rows, p=[0.5, 0.3, 0.2])
    risk = 0.03 * (age - 55) - 0.4 * (dose - 2.5) + 0.5 * (sex == "m") + 0.3 * (ward == "c")
    years = rng.uniform(0.5, 4, rows)
    weeks = np.ceil(rng.exponential(20 * np.exp(-risk)))
    ends = np.ceil(rng.uniform(5, 60, rows))
    frame = pd.DataFrame(
        {
            "age": age, "dose": dose, "sex": sex, "ward": ward,
            "sick": np.where(rng.random(rows) < 1 / (1 + np.exp(-risk)), "yes", "no"),
            "visits": rng.poisson(years * np.exp(0.5 * risk)).astype(float), "years": np.log(years),
            "score": 10 + 2 * risk + rng.normal(0, 1.5, rows),
            "weeks": np.minimum(weeks, ends), "died": np.where(weeks <= ends, "yes", "no"),
        }
    )  # fmt: skip
    holes = rng.random((rows, 4)) < missing
    for place, name in enumerate(("age", "dose", "sex", "ward")):
        frame.loc[holes[:, place], name] = None
    return frame


BOUNDS = {
    "age": (20, 90), "dose": (0, 5), "years": (-1, 2), "visits": (0, 60), "score": (-10, 30), "weeks": (0, 60),
}  # fmt: skip
WORDS = {"sex": ["f", "m"], "ward": ["a", "b", "c"], "sick": ["no", "yes"], "died": ["no", "yes"]}


def table(frame: pd.DataFrame, target: str, columns: Sequence[str]) -> Dataset:
    """Return some columns of patients as a declared table; all rows are for training."""
    words = {name: WORDS[name] for name in columns if name in WORDS}
    bounds = {name: BOUNDS[name] for name in columns if name in BOUNDS}
    of_target = {"classes": WORDS[target]} if target in WORDS else {"target_bounds": BOUNDS[target]}
    return from_frame(frame, target=target, bounds=bounds, categories=words, test_share=0.0, **of_target)
