"""A private linear regression of ours beside AdaSSP, the best published one, on a table that neither was tuned on.

    FEDLEARN_DATA=... python -m experiments.statistics.published

California Housing with the bounds that fedlearn declares, counts by their logarithms, one trusted curator, add or
remove one row. `dp-glm` is pure epsilon-DP; AdaSSP (Wang 2018, arXiv:1803.02596, algorithm 2) gets delta 1e-6 beside
the same epsilon. Both see the same scaled columns with an intercept. What is compared is the root mean square error on
the test rows: 1 is that of a constant, the mean of the test rows. *Ended*: of the seeds, those in which `dp-glm` ends
with the line that there is too much noise; AdaSSP always answers, by a ridge that draws all coefficients to zero.
"""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

import numpy as np
import pandas as pd

from fedlearn.config import config_from
from fedlearn.data import Dataset, from_frame, load_dataset
from fedlearn.models import load_model
from fedlearn.statistics.design import FloatArray, IntArray
from fedlearn.statistics.private_glm import NoisyGLM

DELTA, FAILS = 1e-6, 0.05
EPSILONS = (0.1, 0.3, 1.0, 4.0)
PRICE = (14_999.0, 500_001.0)
COLUMNS: tuple[list[str], ...] = (
    ["median_income", "housing_median_age"],
    ["median_income", "housing_median_age", "latitude", "longitude"],
    [],
)
"""The columns of each regression; empty: all eight."""


def adassp(x: FloatArray, y: FloatArray, epsilon: float, largest: float, rng: np.random.Generator) -> FloatArray:
    """Return (columns,) the coefficients of AdaSSP, for rows of norm at most `largest` and outcomes in [-1, 1]."""
    columns, part, log = x.shape[1], epsilon / 3, math.log(6 / DELTA)
    gram, scale = x.T @ x, largest**2 * math.sqrt(log) / part
    least = np.linalg.eigvalsh(gram)[0] + scale * rng.normal() - largest**2 * log / part
    ridge = max(0.0, math.sqrt(columns * log * math.log(2 * columns**2 / FAILS)) * largest**2 / part - max(least, 0.0))
    noise = np.triu(rng.normal(0, scale, (columns, columns)))
    noisy = gram + noise + np.triu(noise, 1).T
    right = x.T @ y + rng.normal(0, largest * math.sqrt(log) / part, columns)
    return np.linalg.solve(noisy + ridge * np.eye(columns), right)


def ours(model: NoisyGLM, sums: IntArray, epsilon: float, rng: np.random.Generator) -> FloatArray | None:
    """Return (columns,) the coefficients of dp-glm, of scaled columns and outcomes; None where noise ends the fit."""
    noise = rng.geometric(-math.expm1(-epsilon / model.unit(1)), (2, model.length(1)))
    state = {"sums": sums + noise[0] - noise[1], "reports": np.ones(1, np.int64)}
    if model.finished(state).is_failure:
        return None
    found = model.answer(state).table("coefficients")["coef"].to_numpy(float, copy=True)
    low, high = PRICE
    found[0] -= (low + high) / 2
    return np.asarray(np.linalg.solve(model.design.in_own_units(), found / ((high - low) / 2)))


def houses() -> Dataset:
    """Return California Housing with the logarithms of what is counted."""
    data = load_dataset("california", "")
    schema = data.schema
    assert schema is not None
    rows = np.concatenate([data.train.inputs, data.test.inputs])
    frame = pd.DataFrame(rows, columns=list(schema.features))
    bounds: dict[str, tuple[float, float]] = {}
    for name, (low, high, *log) in schema.bounds.items():
        frame[name] = np.log(np.clip(frame[name], low, high)) if log else frame[name]
        bounds[name] = (math.log(low), math.log(high)) if log else (low, high)
    frame["price"] = np.concatenate([data.train.targets, data.test.targets])
    return from_frame(frame, target="price", target_bounds=PRICE, bounds=bounds, test_share=0.2)


def compare(seeds: int) -> None:
    """Print the table."""
    data = houses()
    print("| columns | without noise | epsilon | `dp-glm`, delta 0 | ended | AdaSSP, delta 1e-6 |")
    print("|---|---|---|---|---|---|")
    for columns in COLUMNS:
        options = json.dumps({"family": "normal"} | ({"columns": columns} if columns else {}))
        model: Any = load_model("dp-glm", data.spec, options)
        (y, x, _), (truth, seen, _) = model._values(data.train), model._values(data.test)
        largest = math.sqrt(x.shape[1])

        def error(coefficients: FloatArray, seen: FloatArray = seen, truth: FloatArray = truth) -> float:
            return float(np.sqrt(np.mean((np.clip(seen @ coefficients, -1, 1) - truth) ** 2)) / np.std(truth))

        exact = error(np.linalg.lstsq(x, y)[0])
        for epsilon in EPSILONS:
            config = config_from({"privacy.epsilon": epsilon, "clients": 1, "rounds.total": 1, "rounds.cohort": 0})
            planned, rng = model.planned(config), np.random.default_rng(1)
            sums = planned.asked(planned.initial_state(seed=1), data.train)
            one = [ours(planned, sums, epsilon, rng) for _ in range(seeds)]
            other = [error(adassp(x, y, epsilon, largest, rng)) for _ in range(seeds)]
            fits = [error(each) for each in one if each is not None]
            mine, theirs = (f"{np.median(v):.3f} ({min(v):.3f}, {max(v):.3f})" if v else "" for v in (fits, other))
            print(f"| {x.shape[1] - 1} | {exact:.3f} | {epsilon:g} | {mine} | {seeds - len(fits)} | {theirs} |")


def main() -> None:
    """Compare on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    compare(parser.parse_args().seeds)


if __name__ == "__main__":
    main()
