"""Time the fit of a forest beside scikit-learn's RandomForestRegressor: 25 trees each, same depth, one thread.

    python -m experiments.private_trees.regression_speed --data-dir DATA [--rows 20640 1000000] [--repeats 5]

The fits take turns; the table has medians and ranges. Rows beyond California Housing's are drawn from it with
replacement and jittered. Epsilon is 1; seeded and secure noise have a column each.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
from sklearn.ensemble import RandomForestRegressor

from experiments.private_trees.regression import BOUNDS, TARGET, TARGET_BOUNDS
from fedlearn.private_trees import DPRegressionForest, DPRelayForest


def main() -> None:
    """Time the fits and print a line for each number of rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("FEDLEARN_DATA", ".")))
    parser.add_argument("--rows", nargs="+", type=int, default=[20_640])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    frame = parquet.read_table(options.data_dir / "california_housing.parquet").to_pandas()
    for rows in options.rows:
        X, y = made(frame[list(BOUNDS)].to_numpy(np.float64), frame[TARGET].to_numpy(np.float64), rows)
        declared: dict[str, Any] = {"bounds": list(BOUNDS.values()), "target_bounds": TARGET_BOUNDS, "random_state": 0}
        warm = DPRegressionForest(noise="seeded", **declared).fit(X, y)  # compiles, and gives the depth
        fits = {
            "forest, seeded": DPRegressionForest(noise="seeded", **declared),
            "forest, secure": DPRegressionForest(**declared),
            "relay, seeded": DPRelayForest(noise="seeded", **declared),
            "scikit-learn": RandomForestRegressor(25, max_depth=warm.table_.depth, n_jobs=1),
        }
        seconds: dict[str, list[float]] = {name: [] for name in fits}
        for _ in range(options.repeats):
            for name, estimator in fits.items():
                start = time.perf_counter()
                estimator.fit(X, y)
                seconds[name].append(time.perf_counter() - start)
        for name, times in seconds.items():
            print(
                f"{rows:8d} rows, depth {warm.table_.depth:2d}, {name:15s}: {np.median(times):8.3f} s "
                f"({min(times):.3f} to {max(times):.3f})",
                flush=True,
            )


def made(X: np.ndarray[Any, Any], y: np.ndarray[Any, Any], rows: int) -> tuple[Any, Any]:
    """Return a number of rows: the data's own, or drawn from these with replacement and jittered by 1 %."""
    if rows == len(y):
        return X, y
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(y), size=rows)
    return X[drawn] * (1 + 0.01 * rng.normal(size=(rows, X.shape[1]))), y[drawn]


if __name__ == "__main__":
    warnings.simplefilter("ignore", FutureWarning)
    main()
