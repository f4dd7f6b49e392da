"""Boosted trees of exact sums beside scikit-learn's HistGradientBoosting, with the same trees, depth, leaves and bins.

    FEDLEARN_DATA=... python -m experiments.private_trees.exact_boosting [--seeds 3] [--iterations 100] [--nodes 8]
        [--pairs 5]

Adult and California, on all rows that are declared, of which a seed draws three tenths for testing. The trees of uneven
nodes, one of them without a record, are compared with those of one table: the largest difference of scores is printed.
scikit-learn gets the same rows: numbers as they are, categories as such, and as many bins. Seconds are CPU time of the
fit, with one thread each (``OMP_NUM_THREADS=1``): medians of fits in turns. The first fit of each kind is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import r2_score, roc_auc_score

from fedlearn.config import config_from
from fedlearn.core.state import State
from fedlearn.data import Dataset, Examples, load_dataset
from fedlearn.data.data_spec import joined
from fedlearn.models import load_model
from fedlearn.private_trees.exact.exact_model import ExactBoosting
from fedlearn.report.tables import Table

SHAPE = {"max_depth": 5, "max_leaf_nodes": 31, "min_samples_leaf": 20, "learning_rate": 0.1, "max_bins": 64}
TEST_SHARE = 0.3


def main() -> None:
    """Print a table of scores and seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=5, help="fits of both kinds, in turns")
    given = parser.parse_args()
    shape = SHAPE | {"max_iter": given.iterations}
    rows = [
        compared(load_dataset(name, os.environ.get("FEDLEARN_DATA", "")), seed, given.nodes, given.pairs, shape)
        for name in ("adult", "california")
        for seed in range(given.seeds)
    ]
    columns = (
        "data",
        "seed",
        "score",
        "exact-boosting",
        "scikit-learn",
        "seconds",
        "theirs",
        "ratio",
        "largest difference",
    )
    print(Table.of_texts("exact_boosting", "boosted trees without noise", columns, rows, words=3).as_markdown())


def compared(data: Dataset, seed: int, nodes: int, pairs: int, shape: dict[str, Any]) -> tuple[str, ...]:
    """Return a line of the table."""
    rng, rows = np.random.default_rng(seed), joined([data.train, data.test])
    test, train = np.split(rng.permutation(len(rows)), [int(TEST_SHARE * len(rows))])
    cuts = np.sort(rng.integers(0, len(train), nodes - 2))
    parts = [rows.at(part) for part in np.split(train, [0, *cuts])]
    model: Any = load_model("exact-boosting", data.spec, json.dumps(shape))
    of_nodes, _ = grown(model, parts)
    of_one, _ = grown(model, [rows.at(train)])
    inputs = rows.inputs[test]
    score = model.score(of_one, inputs)
    apart = float(np.abs(score - model.score(of_nodes, inputs)).max())
    theirs, _ = scikit_learn(data, rows.at(train), shape)
    both = np.array(
        [(grown(model, [rows.at(train)])[1], scikit_learn(data, rows.at(train), shape)[1]) for _ in range(pairs)]
    )
    name, measure = ("AUC", roc_auc_score) if data.spec.classes else ("R2", r2_score)
    truth = rows.targets[test]
    numbers = (measure(truth, score[:, 0]), measure(truth, theirs(inputs)))
    return (
        data.name,
        str(seed),
        name,
        *(f"{each:.4f}" for each in numbers),
        *(f"{each:.2f}" for each in (*np.median(both, axis=0), np.median(both[:, 0] / both[:, 1]))),
        f"{apart}",
    )


def grown(model: ExactBoosting, parts: Sequence[Examples]) -> tuple[State, float]:
    """Return the trees of nodes that hold these parts, and the CPU seconds that it takes."""
    planned = model.planned(config_from({"clients": len(parts)}))
    begin = time.process_time()
    return planned.fit(parts), time.process_time() - begin


def scikit_learn(
    data: Dataset, train: Examples, shape: dict[str, Any]
) -> tuple[Callable[[np.ndarray[Any, Any]], Any], float]:
    """Return the scores of scikit-learn's trees of the same rows, and the CPU seconds of their fit."""
    assert data.schema is not None
    numbers, words = len(data.schema.bounds), len(data.schema.categories)
    kind = HistGradientBoostingClassifier if data.spec.classes else HistGradientBoostingRegressor
    taken = [*[False] * numbers, *[True] * words]
    made = kind(early_stopping=False, categorical_features=taken, **shape)
    begin = time.process_time()
    made.fit(train.inputs, train.targets)
    seconds = time.process_time() - begin
    return (made.decision_function if data.spec.classes else made.predict), seconds


if __name__ == "__main__":
    main()
