"""Error of regression trees whose categories are split in the order of their codes, or of their noisy mean targets.

    FEDLEARN_DATA=... python -m experiments.private_trees.category_order [--seeds 5] [--rows inner|test]

Adult's age and hours per week are predicted from all other columns, of which seven have three or more categories.
``inner``: fitted on four fifths of the training rows of `all_columns`, judged on the last fifth; the share of epsilon
for the orders was chosen by these (`fedlearn.private_trees.numbers.ordering`). ``test``: fitted on all training rows of
`all_columns`, judged on its test rows. Mean absolute error in years and hours. Noise is seeded: the runs measure, and
give no privacy.
"""

from __future__ import annotations

import argparse
import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.private_trees.all_columns import Data, adult
from experiments.private_trees.classifier_rule import INNER
from fedlearn.private_trees import DPBoostingRegressor, DPRegressionForest, DPRegressionTree
from fedlearn.report.tables import Table

TARGETS = {"age": 0, "hours": 12}  # columns
EPSILONS = (0.1, 0.5, 1.0, 4.0)
TREES: dict[str, Any] = {"DPRegressionTree": DPRegressionTree, "DPRegressionForest": DPRegressionForest}
Rows = tuple[NDArray[np.float64], NDArray[np.float64]]


def rows_of(data: Data, which: str) -> Rows:
    """Return the rows to fit on and those to judge by, (rows, columns)."""
    if which == "test":
        return data.X, data.test_X
    order = np.random.default_rng(INNER).permutation(len(data.X))
    return data.X[order[len(order) // 5 :]], data.X[order[: len(order) // 5]]


def error(kind: Any, data: Data, rows: Rows, target: int, **given: Any) -> float:
    """Return the mean absolute error of one fit, in the target's unit."""
    others = np.flatnonzero(np.arange(len(data.sizes)) != target)
    declared = {
        "bounds": list(zip(data.low[others].tolist(), data.high[others].tolist(), strict=True)),
        "categories": [int(size) for size in data.sizes[others]],
        "target_bounds": (float(data.low[target]), float(data.high[target])),
    }
    fitted, judged = rows
    model = kind(**declared, **given).fit(fitted[:, others], fitted[:, target])
    return float(np.abs(model.predict(judged[:, others]) - judged[:, target]).mean())


def main() -> None:
    """Fit all and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("FEDLEARN_DATA", "."), help="of adult.parquet")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", choices=("inner", "test"), default="test")
    options = parser.parse_args()
    data = adult(Path(options.data_dir))
    rows = rows_of(data, options.rows)

    def mean(kind: Any, target: int, epsilon: float, **given: Any) -> str:
        seeded = [{"epsilon": epsilon, "noise": "seeded", "random_state": seed} for seed in range(options.seeds)]
        found = [error(kind, data, rows, target, **given, **each) for each in seeded]
        return f"{np.mean(found):.2f} ({np.std(found):.2f})"

    lines = []
    for (name, target), epsilon in product(TARGETS.items(), EPSILONS):
        orders = [
            mean(kind, target, epsilon, category_order=order)
            for kind, order in product(TREES.values(), ("declared", "target"))
        ]
        lines.append([name, f"{epsilon:g}", *orders, mean(DPBoostingRegressor, target, epsilon)])
    heads = [f"{kind}, {order}" for kind, order in product(TREES, ("declared", "target"))]
    title = f"Mean absolute error (standard deviation over seeds), {options.rows} rows"
    Table.of_texts("category_order", title, ["target", "epsilon", *heads, "DPBoostingRegressor"], lines, words=1).show()


if __name__ == "__main__":
    main()
