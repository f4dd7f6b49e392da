"""Seconds and peak memory of one fit on a table with mostly missing values.

    python -m experiments.private_trees.missing_speed [--rows 100000] [--missing 0.7] [--epsilon 8] [--columns 8]
        [--repeats 3]

Fits are interleaved; printed are medians and ranges, and the median processor time. Each estimator is fitted in a
process of its own, after a fit on a small table, which makes numba compile or read its cache. Peak memory is that of
the whole process, imports included. Rows are made: uniform numbers, and a target that follows the first two.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import product
from statistics import median
from typing import Any

import numpy as np

from fedlearn.private_trees import DPRegressionForest, DPRegressionTree, DPRelayForest

BOUNDS = {"bounds": (0.0, 1.0), "target_bounds": (0.0, 1.0)}
FITS: dict[str, Callable[..., Any]] = {
    "tree": DPRegressionTree,
    "forest, 25 trees": DPRegressionForest,
    "relay, 25 nodes": DPRelayForest,
}


def main() -> None:
    """Fit and print a line for each estimator and source of noise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--missing", type=float, default=0.7)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    spawned = multiprocessing.get_context("spawn")
    fits = list(product(FITS, ("seeded", "secure")))
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    busy: dict[tuple[str, str], list[float]] = defaultdict(list)
    last: dict[tuple[str, str], tuple[float, int, float]] = {}
    for _ in range(options.repeats):
        for fit in fits:
            with spawned.Pool(1) as pool:
                arguments = (*fit, options.rows, options.missing, options.epsilon, options.columns)
                took, worked, memory, depth, error = pool.apply(measured, arguments)
            seconds[fit].append(took)
            busy[fit].append(worked)
            last[fit] = memory, depth, error
    for fit in fits:
        times, (memory, depth, error) = seconds[fit], last[fit]
        size = f"{median(times):6.2f} s ({min(times):.2f} to {max(times):.2f}), processor {median(busy[fit]):.2f} s"
        print(f"{fit[0]:16s} {fit[1]}: {size}, {memory:5.2f} GB, depth {depth}, mean absolute error {error:.4f}")


def measured(
    name: str, noise: str, rows: int, missing: float, epsilon: float, columns: int
) -> tuple[float, float, float, int, float]:
    """Return wall and processor seconds of a fit, peak memory in GB, depth, and the error on complete rows."""
    declared = {**BOUNDS, "epsilon": epsilon, "noise": noise, "random_state": 0}
    FITS[name](**declared).fit(*made(2000, missing, columns, seed=1))
    X, y = made(rows, missing, columns, seed=2)
    start, worked = time.perf_counter(), time.process_time()
    fitted = FITS[name](**declared).fit(X, y)
    seconds, worked = time.perf_counter() - start, time.process_time() - worked
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    whole, target = made(5000, 0.0, columns, seed=3)
    return seconds, worked, memory, fitted.table_.depth, float(np.abs(fitted.predict(whole) - target).mean())


def made(rows: int, missing: float, columns: int, *, seed: int) -> tuple[Any, Any]:
    """Return X with a share of its values missing, and y."""
    rng = np.random.default_rng(seed)
    X = rng.random((rows, columns))
    y = np.clip(0.5 * X[:, 0] + 0.3 * (X[:, 1] > 0.6) + 0.1 * rng.standard_normal(rows), 0, 1)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


if __name__ == "__main__":
    main()
