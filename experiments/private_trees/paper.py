"""Data, seven methods and printed numbers of the DP regression paper, for its table 3 and figure 2.

Source: Vu, Nguyen 2020, HCMUE Journal of Science 17(12), 2251-2261. California Housing, 20,640 rows in file order,
10-fold cross-validation without shuffling, mean absolute error of the target scaled to [0, 1].

**Nothing here is private.** As in the paper all columns are scaled by the data's own minimum and maximum, the noise is
seeded, and the printed algorithm does not keep its epsilon (experiments/private_trees/as_printed/true_loss.py).
"""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold
from sklearn.tree import DecisionTreeRegressor

from experiments.private_trees.as_printed.growing import (
    CHOICE_RATE,
    Leaf,
    PrintedSettings,
    Reading,
    disjoint_parts,
    grow_printed_forest,
)
from fedlearn.core.seeding import rng_for
from fedlearn.privacy.noise import seeded_noise
from fedlearn.private_trees.domain import Domain
from fedlearn.private_trees.predicting import predict

Floats = NDArray[np.float64]

NOT_PRIVATE = (
    "NOT PRIVATE: the data are scaled by their own minimum and maximum, as the paper did; the noise is seeded; "
    "and the printed algorithm does not keep its epsilon."
)
FOLDS = 10
TREES, DEPTH_OF_FOREST, DEPTH_OF_TREE = 25, 5, 15
DATA_FILE = "california_housing.parquet"
SKLEARN_COLUMNS = ("Python_Tree", "Python_Forest")
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)

# Column -> (mean absolute error, its standard deviation over folds) in the order of EPSILONS. The paper gives DPMean's
# deviation in its first row only.
PRINTED: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "Python_Tree": (
        (0.1378, 0.1361, 0.1342, 0.136, 0.1329, 0.1327, 0.1358, 0.1317, 0.1343),
        (0.031, 0.0273, 0.0265, 0.0275, 0.0252, 0.0264, 0.031, 0.0246, 0.0262),
    ),
    "DPMean": ((0.1915, *[0.1916] * 8), (0.0309,) * 9),
    "Python_Forest": (
        (0.1185, 0.1185, 0.1202, 0.1185, 0.1191, 0.1192, 0.1185, 0.1178, 0.1178),
        (0.0188, 0.0188, 0.0185, 0.0183, 0.0178, 0.0189, 0.0195, 0.0192, 0.0188),
    ),
    "DPMean_Tree": (
        (0.497, 0.4708, 0.4485, 0.4222, 0.365, 0.3022, 0.2249, 0.1652, 0.1437),
        (0.0525, 0.0537, 0.0341, 0.0193, 0.0285, 0.0233, 0.0191, 0.0118, 0.0225),
    ),
    "DPMean_Forest": (
        (0.2244, 0.2169, 0.2073, 0.1764, 0.1615, 0.1402, 0.1343, 0.1284, 0.1226),
        (0.0465, 0.0364, 0.0384, 0.0229, 0.0292, 0.0223, 0.025, 0.0233, 0.0218),
    ),
    "DPMedian_Tree": (
        (0.3097, 0.3275, 0.322, 0.3179, 0.314, 0.2993, 0.2866, 0.2422, 0.1701),
        (0.0426, 0.0405, 0.0329, 0.0228, 0.0306, 0.0184, 0.0213, 0.0242, 0.0205),
    ),
    "DPMedian_Forest": (
        (0.2186, 0.2219, 0.2177, 0.215, 0.2075, 0.1858, 0.1492, 0.1219, 0.1151),
        (0.0423, 0.0369, 0.0235, 0.0308, 0.0288, 0.0286, 0.0299, 0.0348, 0.031),
    ),
}
COLUMNS = tuple(PRINTED)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cross-validation of one method."""

    column: str
    epsilon: float  # infinite for scikit-learn's columns, which have no epsilon
    repeat: int  # from 1
    trees: int = TREES  # of a forest
    reading: str = "fitted"  # of the DP trees
    rate: float = CHOICE_RATE  # choice_rate of the fitted reading; 0 for the others


@dataclass(frozen=True, slots=True)
class Score:
    """Mean absolute error over folds and repeats."""

    mae: float
    over_folds: float  # standard deviation over the folds, mean over repeats
    over_repeats: float  # standard deviation of a repeat's mean; 0 if there is one repeat

    @classmethod
    def of(cls, errors: list[list[float]]) -> Score:
        """Return the score of some repeats, each a list of the folds' errors."""
        means = [fmean(folds) for folds in errors]
        return cls(fmean(means), fmean(pstdev(folds) for folds in errors), pstdev(means))


def load_california(folder: str | None) -> tuple[Floats, Floats]:
    """Return (X (20640, 8), y (20640,)) scaled to [0, 1] by the data's own minimum and maximum: not private.

    Parameters
    ----------
    folder
        Holds ``california_housing.parquet``; None: FEDLEARN_DATA, else scikit-learn's download.
    """
    place = Path(folder or os.environ.get("FEDLEARN_DATA", ".")) / DATA_FILE
    table = _from_parquet(place) if place.exists() else _from_sklearn()
    low, high = table.min(axis=0), table.max(axis=0)
    scaled = (table - low) / (high - low)
    return np.ascontiguousarray(scaled[:, :-1]), np.ascontiguousarray(scaled[:, -1])


def _from_parquet(path: Path) -> Floats:
    from pyarrow import parquet

    table = parquet.read_table(path)
    return np.column_stack([table[name].to_numpy() for name in table.column_names]).astype(np.float64)


def _from_sklearn() -> Floats:
    """Return scikit-learn's copy with its ratios turned back into the totals that the paper used."""
    from sklearn.datasets import fetch_california_housing

    X, y = fetch_california_housing(return_X_y=True)
    income, age, rooms, bedrooms, population, occupancy, latitude, longitude = X.T
    households = population / occupancy
    totals = [rooms * households, bedrooms * households, population, households]
    return np.column_stack([longitude, latitude, age, *totals, income, y])


def cross_validate(cell: Cell, X: Floats, y: Floats, *, seed: int) -> list[float]:
    """Return the mean absolute error of each fold; the same cell and seed give the same numbers."""
    errors = []
    for fold, (train, test) in enumerate(KFold(FOLDS).split(X)):
        purpose = f"{cell.column}/{cell.epsilon:g}/{cell.trees}/{cell.reading}/{cell.rate:g}"
        rng = rng_for(seed, purpose=purpose, round_number=cell.repeat, node=fold)
        errors.append(float(np.abs(_predictions(cell, X[train], y[train], X[test], rng) - y[test]).mean()))
    return errors


def _predictions(cell: Cell, X: Floats, y: Floats, X_test: Floats, rng: np.random.Generator) -> Floats:
    if cell.column in SKLEARN_COLUMNS:
        return _sklearn_predictions(cell, X, y, X_test, rng)
    if cell.column == "DPMean":
        return np.full(len(X_test), y.mean() + rng.laplace(scale=1 / (len(y) * cell.epsilon)))
    leaf: Leaf = "mean" if cell.column.startswith("DPMean") else "median"
    reading: Reading = "fitted" if cell.reading == "fitted" else "literal"
    is_forest = cell.column.endswith("Forest")
    trees, depth = (cell.trees, DEPTH_OF_FOREST) if is_forest else (1, DEPTH_OF_TREE)
    settings = PrintedSettings(
        epsilon=cell.epsilon, depth=depth, leaf=leaf, reading=reading, choice_rate=cell.rate or CHOICE_RATE
    )
    table = grow_printed_forest(
        X,
        y,
        parts=disjoint_parts(len(y), trees, rng),
        trees=trees,
        domain=Domain.declare(num_features=X.shape[1], bounds=(0, 1)),
        settings=settings,
        noise=seeded_noise(rng),
    )
    return predict(table, X_test)[:, 0]


def _sklearn_predictions(cell: Cell, X: Floats, y: Floats, X_test: Floats, rng: np.random.Generator) -> Floats:
    """Return the mean of scikit-learn's trees on disjoint parts; one tree has all rows and depth 15.

    The printed Python_Forest is not a random forest: 25 bagged trees give 0.126 at depth 5 and 0.105 without limit.
    Partitioned as in algorithm 2 they give the printed 0.119.
    """
    is_tree = cell.column == "Python_Tree"
    trees, depth = (1, DEPTH_OF_TREE) if is_tree else (cell.trees, DEPTH_OF_FOREST)
    parts = disjoint_parts(len(y), trees, rng)
    total = np.zeros(len(X_test))
    for part in range(trees):
        tree = DecisionTreeRegressor(max_depth=depth, random_state=int(rng.integers(2**31)))
        total += tree.fit(X[parts == part], y[parts == part]).predict(X_test)
    return total / trees


class Results:
    """Cross-validations in a CSV file, one line for each fold; a cell is written at once, so a killed run goes on.

    Parameters
    ----------
    path
        The CSV file; made with its folder if it does not exist. Incomplete cells are dropped.
    """

    FIELDS = ("column", "epsilon", "trees", "reading", "rate", "repeat", "seed", "fold", "mae", "seconds")

    def __init__(self, path: Path, *, seed: int) -> None:
        self.path, self.seed = path, seed
        self._errors: dict[tuple[str, ...], list[float]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = list(self._whole_cells())
        self._write(path.with_suffix(".new"), "w", [list(self.FIELDS), *kept])
        path.with_suffix(".new").replace(path)

    def errors_of(self, cell: Cell, X: Floats, y: Floats) -> list[float]:
        """Return the folds' errors of a cell, from the file if it has them."""
        key = self._key(cell)
        if key not in self._errors:
            began = time.perf_counter()
            errors = cross_validate(cell, X, y, seed=self.seed)
            seconds = f"{(time.perf_counter() - began) / len(errors):.3f}"
            rows = [[*key, str(fold), repr(error), seconds] for fold, error in enumerate(errors)]
            self._write(self.path, "a", rows)
            self._errors[key] = errors
        return self._errors[key]

    def score_of(self, column: str, epsilon: float) -> Score | None:
        """Return the score over all stored repeats of a cell of Table 3, or None; runs nothing.

        Trees of the paper: the fitted reading with its choice rate, 25 trees to a forest.
        """
        reading, rate = ("-", 0.0) if column == "DPMean" else ("fitted", CHOICE_RATE)
        start = self._key(Cell(column, epsilon, 0, reading=reading, rate=rate))
        errors = [folds for key, folds in self._errors.items() if key[:5] == start[:5] and key[6] == start[6]]
        return Score.of(errors) if errors else None

    def _key(self, cell: Cell) -> tuple[str, ...]:
        values = (cell.column, f"{cell.epsilon:g}", cell.trees, cell.reading, f"{cell.rate:g}", cell.repeat, self.seed)
        return tuple(map(str, values))

    def _whole_cells(self) -> Iterator[list[str]]:
        if not self.path.exists():
            return
        cells: dict[tuple[str, ...], list[list[str]]] = {}
        with self.path.open(newline="") as file:
            for row in list(csv.reader(file))[1:]:
                if len(row) == len(self.FIELDS):  # a kill may leave the last line torn
                    cells.setdefault(tuple(row[:7]), []).append(row)
        for key, rows in cells.items():
            if len(rows) == FOLDS:
                self._errors[key] = [float(row[8]) for row in rows]
                yield from rows

    @staticmethod
    def _write(path: Path, mode: str, rows: list[list[str]]) -> None:
        with path.open(mode, newline="") as file:
            csv.writer(file).writerows(rows)
            file.flush()
            os.fsync(file.fileno())
