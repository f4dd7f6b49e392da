"""Seconds to fit a million rows: private boosting and a private forest, seeded and secure, beside others.

    OMP_NUM_THREADS=1 python -m experiments.private_trees.sums_speed [--rows 1000000] [--rounds 100] [--repeats 3]
        [--ebm-python PYTHON]

The others are scikit-learn's HistGradientBoosting and, with ``--ebm-python`` (`rivals` has its installation), DP-EBM:
with as many rounds as ours, each of which goes through all columns, and with its default number. Rows are made: ten
uniform columns, and a target that depends on three of them; forests of 25 trees predict it as a number. Epsilon is 1.
Fits are interleaved; printed are medians and ranges. The variable limits scikit-learn to one thread, like ours.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from experiments.private_trees.all_columns import Rival
from fedlearn.private_trees import DPBoostingClassifier, DPRegressionForest

COLUMNS = 10
TREES = 25
FEW = 2000  # rows of the fits that are not timed
Fit = Callable[[], float]


def main() -> None:
    """Fit all, interleaved, and print medians and ranges."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ebm-python", help="interpreter of an environment that has interpret-core")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (options.rows, COLUMNS))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(0, 0.3, options.rows) > 0.8).astype(np.int64)
    with TemporaryDirectory() as folder:
        for fit in fits_of(X[:FEW], y[:FEW], options, Path(folder)).values():
            fit()  # compiles, and does the imports of a first fit
        fits = fits_of(X, y, options, Path(folder))
        seconds: dict[str, list[float]] = {name: [] for name in fits}
        for _ in range(options.repeats):
            for name, fit in fits.items():
                seconds[name].append(fit())
                print(f"{name}: {seconds[name][-1]:.2f} s", flush=True)
    print(f"median of {options.repeats}, {options.rows} rows of {COLUMNS} columns")
    for name, times in seconds.items():
        print(f"{name:27} {median(times):7.2f} s ({min(times):.2f} to {max(times):.2f})")


def fits_of(X: NDArray[np.float64], y: NDArray[np.int64], options: argparse.Namespace, folder: Path) -> dict[str, Fit]:
    """Return for each estimator a function that fits it once and returns the seconds."""
    seeded: dict[str, Any] = {"noise": "seeded", "random_state": 0}
    of_classes: dict[str, Any] = {"bounds": (0, 1), "classes": [0, 1], "n_rounds": options.rounds}
    of_numbers: dict[str, Any] = {"bounds": (0, 1), "target_bounds": (0, 1), "n_trees": TREES}
    makers: dict[str, Callable[[], Any]] = {
        "boosting, seeded": lambda: DPBoostingClassifier(epsilon=1.0, **of_classes, **seeded),
        "boosting, secure": lambda: DPBoostingClassifier(epsilon=1.0, **of_classes),
        "forest, seeded": lambda: DPRegressionForest(**of_numbers, **seeded),
        "forest, secure": lambda: DPRegressionForest(**of_numbers),
        "HistGradientBoosting": lambda: HistGradientBoostingClassifier(
            max_iter=options.rounds, early_stopping=False, random_state=0
        ),
    }
    fits = {name: timed(make, X, y) for name, make in makers.items()}
    if options.ebm_python:
        data = folder / f"{len(y)}.npz"
        even: dict[str, Any] = {
            "sizes": np.zeros(COLUMNS, np.int64),
            "low": np.zeros(COLUMNS),
            "high": np.ones(COLUMNS),
        }
        np.savez(data, X=X, y=y, test_X=X[:FEW], test_y=y[:FEW], **even)
        rival = Rival(options.ebm_python)
        fits[f"DP-EBM, {options.rounds} rounds"] = asked(rival, data, rounds=options.rounds)
        fits["DP-EBM, its own rounds"] = asked(rival, data)
    return fits


def timed(make: Callable[[], Any], X: NDArray[np.float64], y: NDArray[np.int64]) -> Fit:
    """Return a function that times one fit in this process."""

    def fit() -> float:
        model = make()
        began = time.perf_counter()
        model.fit(X, y)
        return time.perf_counter() - began

    return fit


def asked(rival: Rival, data: Path, **more: int) -> Fit:
    """Return a function that has one fit timed in the other process."""
    request = {"method": "DP-EBM, delta 1e-6", "data": str(data), "epsilon": 1.0, "seed": 0, **more}
    return lambda: float(rival.ask(request)["seconds"])


if __name__ == "__main__":
    main()
