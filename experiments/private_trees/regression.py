"""The rigorous regressors, with the library's defaults, on the folds and epsilons of Table 3: one CSV line per cell.

    python -m experiments.private_trees.regression --data-dir DATA --out dp_regression.csv [--models forest relay]

A cell is (model, epsilon, repeat, fold); cells that the file already has are not run again. Folds are the regression
paper's: ten, contiguous, in file order. The error is the mean absolute error on the target scaled to [0, 1]. Bounds are
declared in this file, from the meaning of the columns; the target's bounds scale the error.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet

from experiments.private_trees.stored_rows import StoredRows
from fedlearn.core.seeding import seed_for
from fedlearn.private_trees import (
    DPBoostingRegressor,
    DPRegressionForest,
    DPRegressionTree,
    DPRelayForest,
)
from fedlearn.private_trees.numbers.voted import DPVotedForest

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
TARGET = "median_house_value"
TARGET_BOUNDS = (14_999.0, 500_001.0)  # US dollars; the census capped values at both ends
BOUNDS: dict[str, tuple[float, float] | tuple[float, float, str]] = {
    "longitude": (-124.6, -114.0),  # California, degrees
    "latitude": (32.4, 42.1),
    "housing_median_age": (0.0, 52.0),  # years; capped by the census
    "total_rooms": (10.0, 40_000.0, "log"),  # of a block group: 600 to 3,000 people, rarely many more
    "total_bedrooms": (2.0, 8_000.0, "log"),
    "population": (3.0, 40_000.0, "log"),
    "households": (2.0, 8_000.0, "log"),
    "median_income": (0.5, 15.5, "log"),  # 10,000 US dollars; capped by the census
}
PRINTED_FOREST = dict(  # DPMean_Forest, table 3
    zip(EPSILONS, (0.2244, 0.2169, 0.2073, 0.1764, 0.1615, 0.1402, 0.1343, 0.1284, 0.1226), strict=True)
)
MODELS: dict[str, Callable[..., Any]] = {
    "boosting": DPBoostingRegressor,
    "tree": DPRegressionTree,
    "forest": DPRegressionForest,
    "forest-mean": lambda **options: DPRegressionForest(leaf="mean", **options),
    "forest-random": lambda **options: DPRegressionForest(criterion="random", **options),
    "forest-100": lambda **options: DPRegressionForest(n_trees=100, **options),
    "relay": DPRelayForest,
    "relay-100": lambda **options: DPRelayForest(n_nodes=100, **options),
    "voted": DPVotedForest,
}
COLUMNS = ("model", "epsilon", "repeat", "fold", "mae", "spent", "seconds")


def main() -> None:
    """Run the cells that are missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("FEDLEARN_DATA", ".")))
    parser.add_argument("--out", type=Path, default=Path("dp_regression.csv"))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["tree", "forest", "relay"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--repeats", type=int, default=3, help="runs with seeds of their own")
    options = parser.parse_args()
    frame = parquet.read_table(options.data_dir / "california_housing.parquet").to_pandas()
    X, y = frame[list(BOUNDS)], frame[TARGET].to_numpy(np.float64)
    stored = StoredRows(options.out, COLUMNS)
    done = cells_of(stored)
    wanted = [
        (model, epsilon, repeat, fold)
        for model in options.models
        for epsilon in options.epsilons
        for repeat in range(options.repeats)
        for fold in range(10)
    ]
    for cell in wanted:
        if cell not in done:
            stored.add(dict(zip(COLUMNS, (*cell, *run(X, y, *cell)), strict=True)))
    done = cells_of(stored)
    print(text_of({cell: done[cell] for cell in wanted}))


def run(X: Any, y: np.ndarray[Any, Any], model: str, epsilon: float, repeat: int, fold: int) -> tuple[float, ...]:
    """Return (scaled error, epsilon spent, seconds of the fit) of one cell."""
    test = np.array_split(np.arange(len(y)), 10)[fold]
    train = np.setdiff1d(np.arange(len(y)), test)
    seed = seed_for(repeat, purpose=f"dp_regression/{model}/{epsilon}", node=fold)
    estimator = MODELS[model](
        epsilon=epsilon, bounds=BOUNDS, target_bounds=TARGET_BOUNDS, noise="seeded", random_state=seed
    )
    start = time.perf_counter()
    estimator.fit(X.iloc[train], y[train])
    seconds = time.perf_counter() - start
    error = np.abs(estimator.predict(X.iloc[test]) - y[test]).mean() / (TARGET_BOUNDS[1] - TARGET_BOUNDS[0])
    return float(error), float(estimator.privacy_spent_.epsilon), seconds


def cells_of(stored: StoredRows) -> dict[tuple[str, float, int, int], float]:
    """Return the scaled errors that are stored, by (model, epsilon, repeat, fold)."""
    rows = stored.rows
    return {(r["model"], float(r["epsilon"]), int(r["repeat"]), int(r["fold"])): float(r["mae"]) for r in rows}


def text_of(cells: dict[tuple[str, float, int, int], float]) -> str:
    """Return the table: mean over folds and repeats, in brackets the standard deviation of the repeats' means."""
    runs: dict[tuple[str, float], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (model, epsilon, repeat, _), mae in cells.items():
        runs[model, epsilon][repeat].append(mae)
    models = list(dict.fromkeys(model for model, _ in runs))
    lines = ["epsilon   printed  " + "  ".join(f"{model:>14}" for model in models)]
    for epsilon in dict.fromkeys(epsilon for _, epsilon in runs):
        means = [[np.mean(errors) for errors in runs[model, epsilon].values()] for model in models]
        texts = [f"{np.mean(mean):.4f} ({np.std(mean):.4f})" for mean in means]
        lines.append(
            f"{epsilon:7g}   {PRINTED_FOREST.get(epsilon, np.nan):7.4f}  " + "  ".join(f"{t:>14}" for t in texts)
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
