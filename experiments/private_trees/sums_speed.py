"""Seconds to fit a million rows: private boosting, seeded and secure, beside scikit-learn's HistGradientBoosting.

    OMP_NUM_THREADS=1 python -m experiments.private_trees.sums_speed --rows 1000000 --rounds 100 --repeats 3

Rows are made: ten even columns, a target that depends on three of them. Fits in turn, medians; the variable
keeps scikit-learn to one thread, as ours is.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from fedlearn.trees import DPBoostingClassifier

COLUMNS = 10


def main() -> None:
    """Fit all in turn and print medians and ranges."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (options.rows, COLUMNS))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(0, 0.3, options.rows) > 0.8).astype(np.int64)
    declared: dict[str, Any] = {"bounds": (0, 1), "classes": [0, 1], "n_rounds": options.rounds}
    made: dict[str, Callable[[], Any]] = {
        "boosting, seeded": lambda: DPBoostingClassifier(1.0, **declared, noise="seeded", random_state=0),
        "boosting, secure": lambda: DPBoostingClassifier(1.0, **declared),
        "HistGradientBoosting": lambda: HistGradientBoostingClassifier(
            max_iter=options.rounds, early_stopping=False, random_state=0
        ),
    }
    seconds: dict[str, list[float]] = {name: [] for name in made}
    made["boosting, secure"]().fit(X[:1000], y[:1000])  # compiles, and loads the secure sampler
    for _ in range(options.repeats):
        for name, make in made.items():
            began = time.perf_counter()
            make().fit(X, y)
            seconds[name].append(time.perf_counter() - began)
    for name, times in seconds.items():
        print(f"{name:22} {median(times):7.2f} s ({min(times):.2f} to {max(times):.2f})")


if __name__ == "__main__":
    main()
