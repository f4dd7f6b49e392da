"""Private classification on all columns of Adult, and on a data set not used for tuning, beside other libraries.

    FEDLEARN_DATA=... python -m experiments.private_trees.all_columns
    FEDLEARN_DATA=... python -m experiments.private_trees.all_columns --diffprivlib-python PYTHON --ebm-python PYTHON

*Adult*: the fourteen columns, incomplete rows included. A fifth of the rows, drawn by ``HELD_OUT``, was never used for
any choice, and is the test set. *Fair*: the survey of 6,366 women of Fair 1978 as statsmodels ships it (it is read
through the interpreter of ``--ebm-python``), target: any affair; a fifth is held out likewise. It was chosen before any
estimator was fitted on it, and no default was changed afterwards. Bounds and categories are declared from the meaning
of the columns.

Every fit has noise of its own, and the library's defaults. Our noise is seeded: the runs measure, and give no privacy.
Finished fits are in ``--out``; a second call does the missing ones.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyarrow import parquet
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from experiments.private_trees.stored_rows import StoredRows
from fedlearn.private_trees import DPBoostingClassifier, DPNaiveBayes, PermuteAndFlipForest
from fedlearn.report.tables import Table

HELD_OUT = 20240613  # seed of the test rows
EPSILONS = (0.1, 1.0, 4.0)
SEEDS = 5
ADULT_BOUNDS = {
    "age": (15.0, 100.0),
    "fnlwgt": (0.0, 1_500_000.0),
    "education_num": (1.0, 16.0),
    "capital_gain": (0.0, 100_000.0),
    "capital_loss": (0.0, 5_000.0),
    "hours_per_week": (0.0, 100.0),
}
FAIR_BOUNDS = {
    "rate_marriage": (1.0, 5.0),
    "age": (16.0, 50.0),
    "yrs_married": (0.0, 30.0),
    "children": (0.0, 8.0),
    "religious": (1.0, 4.0),
    "educ": (8.0, 20.0),
}
FAIR_CODES = ("occupation", "occupation_husb")  # 1 .. 6
COLUMNS = ("data", "method", "epsilon", "seed", "accuracy", "auc", "seconds")
Result = tuple[float, float, float]  # accuracy, AUC, seconds of the fit


@dataclass(frozen=True)
class Data:
    """Numbers, codes of categories, NaN where a value is missing; targets 0 and 1."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    test_X: NDArray[np.float64]
    test_y: NDArray[np.int64]
    sizes: NDArray[np.int64]  # (columns,) number of categories, 0 = numeric
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @property
    def declared(self) -> dict[str, Any]:
        """Declared parameters of our estimators."""
        pairs = list(zip(self.low.tolist(), self.high.tolist(), strict=True))
        return {"bounds": pairs, "categories": [int(size) or None for size in self.sizes], "classes": [0, 1]}


def adult(folder: Path) -> Data:
    """Return all columns of Adult; the categories are the published ones of the file."""
    table = parquet.read_table(folder / "adult.parquet").to_pydict()
    y = np.array([">" in income for income in table.pop("income")], np.int64)
    columns, sizes, low, high = [], [], [], []
    for name, values in table.items():
        known = [] if name in ADULT_BOUNDS else sorted({value for value in values if value is not None})
        code = {value: float(position) for position, value in enumerate(known)}
        columns.append([code.get(value, math.nan) if known else float(value) for value in values])
        bound = ADULT_BOUNDS.get(name, (0.0, float(max(len(known) - 1, 1))))
        sizes.append(len(known))
        low.append(bound[0])
        high.append(bound[1])
    return _divided(np.array(columns).T, y, np.array(sizes), np.array(low), np.array(high))


def fair(names: list[str], values: NDArray[np.float64]) -> Data:
    """Return the survey of Fair 1978; occupations are codes."""
    column = {name: values[:, position] for position, name in enumerate(names)}
    X = np.column_stack([*(column[name] for name in FAIR_BOUNDS), *(column[name] - 1 for name in FAIR_CODES)])
    sizes = np.array([0] * len(FAIR_BOUNDS) + [6] * len(FAIR_CODES))
    bounds = np.array([*FAIR_BOUNDS.values(), *[(0.0, 5.0)] * len(FAIR_CODES)])
    return _divided(X, (column["affairs"] > 0).astype(np.int64), sizes, bounds[:, 0], bounds[:, 1])


def _divided(X: Any, y: Any, sizes: Any, low: Any, high: Any) -> Data:
    order = np.random.default_rng(HELD_OUT).permutation(len(y))
    test, train = order[: len(y) // 5], order[len(y) // 5 :]
    return Data(X[train], y[train], X[test], y[test], sizes, low, high)


def made(method: str, data: Data, epsilon: float, seed: int) -> Any:
    """Return our estimator of that name, or scikit-learn's, which is not private."""
    seeded: dict[str, Any] = {"noise": "seeded", "random_state": seed}
    if method == "DPBoostingClassifier":
        return DPBoostingClassifier(epsilon=epsilon, **data.declared, **seeded)
    if method == "DPNaiveBayes":
        return DPNaiveBayes(epsilon=epsilon, **data.declared, **seeded)
    if method == "PermuteAndFlipForest":
        return PermuteAndFlipForest(epsilon=epsilon, **data.declared, **seeded)
    return HistGradientBoostingClassifier(categorical_features=data.sizes > 0, random_state=seed)


OURS = ("DPBoostingClassifier", "DPNaiveBayes", "PermuteAndFlipForest", "not private: HistGradientBoosting")
DIFFPRIVLIB = (
    "diffprivlib forest",
    "diffprivlib GaussianNB",
    "diffprivlib logistic regression",
    "the same, on indicators",
)
EBM = ("DP-EBM, delta 1e-6", "DP-EBM, delta 1e-6, rate 0.1")


def fit_ours(method: str, data: Data, epsilon: float, seed: int) -> Result:
    """Return the result of an estimator of this process."""
    model = made(method, data, epsilon, seed)
    began = time.perf_counter()
    model.fit(data.X, data.y)
    seconds = time.perf_counter() - began
    share = model.predict_proba(data.test_X)[:, 1]
    right = float((model.predict(data.test_X) == data.test_y).mean())
    return right, float(roc_auc_score(data.test_y, share)), seconds


class Rival:
    """Methods of other libraries, in a process of their own (see ``rivals``)."""

    def __init__(self, python: str) -> None:
        script = Path(__file__).with_name("rivals.py")
        self._process = subprocess.Popen(
            [python, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one request."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the other process ended; how to install: {Path(__file__).with_name('rivals.py')}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def fit(self, method: str, data: Data, epsilon: float, seed: int) -> Result:
        """Return the result of a method of the other process."""
        with tempfile.NamedTemporaryFile(suffix=".npz") as file:
            np.savez(file, **vars(data))
            file.flush()
            got = self.ask({"method": method, "data": file.name, "epsilon": epsilon, "seed": seed})
        return got["accuracy"], got["auc"], got["seconds"]

    def fair(self) -> Data:
        """Return the survey that the other interpreter's statsmodels ships."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "fair.npz"
            self.ask({"dump": str(file)})
            stored = np.load(file)
            return fair(stored["names"].tolist(), stored["values"])


def measure(options: argparse.Namespace, stored: StoredRows) -> None:
    """Do the fits that are not stored yet, one line each, methods one after another so that timings are interleaved."""
    rivals = {
        methods: Rival(python)
        for methods, python in ((DIFFPRIVLIB, options.diffprivlib_python), (EBM, options.ebm_python))
        if python
    }
    data = {"Adult": adult(options.data_dir)}
    if EBM in rivals:
        data["Fair"] = rivals[EBM].fair()
    fits: dict[str, Callable[..., Result]] = dict.fromkeys(OURS, fit_ours)
    fits |= {method: rival.fit for methods, rival in rivals.items() for method in methods}
    done = {(r["data"], r["method"], float(r["epsilon"]), int(r["seed"])) for r in stored.rows}
    for name, each in data.items():
        for epsilon in EPSILONS:
            for seed in range(SEEDS):
                for method, fit in fits.items():
                    if (name, method, epsilon, seed) not in done:
                        values = (name, method, epsilon, seed, *fit(method, each, epsilon, seed))
                        stored.add(dict(zip(COLUMNS, values, strict=True)))


def table_of(rows: list[dict[str, str]], name: str) -> Table:
    """Return accuracy in % and AUC of each method, mean and standard deviation over the seeds, and median seconds."""
    found: dict[tuple[str, float], list[Result]] = defaultdict(list)
    for row in rows:
        if row["data"] == name:
            result = (100 * float(row["accuracy"]), float(row["auc"]), float(row["seconds"]))
            found[row["method"], float(row["epsilon"])].append(result)
    lines = []
    for method in dict.fromkeys(method for method, _ in found):
        cells = []
        for epsilon in EPSILONS:
            accuracy, auc, _ = np.array(found[method, epsilon]).T
            cells.append(f"{accuracy.mean():.1f} ({accuracy.std():.1f}), {auc.mean():.3f}")
        seconds = np.median([result[2] for epsilon in EPSILONS for result in found[method, epsilon]])
        lines.append([method, *cells, f"{seconds:.2f}"])
    heads = ["", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS), "seconds"]
    return Table.of_texts(f"all_columns_{name.lower()}", f"{name}: accuracy in %, AUC", heads, lines, words=1)


def main() -> None:
    """Measure, then print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("runs/dp_all_columns.csv"))
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("FEDLEARN_DATA"), help="holds adult.parquet")
    parser.add_argument("--diffprivlib-python", help="interpreter of an environment that has diffprivlib")
    parser.add_argument("--ebm-python", help="interpreter of an environment that has interpret-core and statsmodels")
    options = parser.parse_args()
    if options.data_dir is None:
        sys.exit("--data-dir: say where adult.parquet is, or set FEDLEARN_DATA")
    stored = StoredRows(options.out, COLUMNS)
    measure(options, stored)
    for name in dict.fromkeys(row["data"] for row in stored.rows):
        table_of(stored.rows, name).show()


if __name__ == "__main__":
    main()
