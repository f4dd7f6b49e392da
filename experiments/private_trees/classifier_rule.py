"""The search for the classifiers' rule: depth, trees and leaf form by epsilon, records and columns, on training rows.

    FEDLEARN_DATA=... python -m experiments.private_trees.classifier_rule --out runs/dp_classifier_rule.csv

The rows are the training rows of Adult in `all_columns`; a fifth of them is held out here, so that no test row takes
part. Columns: all fourteen, numbers in the bins that follow from declared bounds, or the six categorical ones of the
classification paper. Cross-entropy decides (shares below 0.001 count as 0.001), as it depends on the ranking and the
level of probabilities; accuracy and AUC are shown beside it. Noise is seeded: the runs measure, and give no privacy.
Finished fits are in ``--out``; a second call does the missing ones.

Source: the rule, `fedlearn.private_trees.classes.rule`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from experiments.private_trees.all_columns import Data, adult
from experiments.private_trees.stored_rows import StoredRows
from fedlearn.private_trees import DPClassificationTree, PermuteAndFlipForest
from fedlearn.private_trees.classes.rule import FOREST_OFFSET, TREE_OFFSET, depth_for, trees_for
from fedlearn.report.tables import Table

INNER = 5  # seed of the rows that judge the search
RECORDS = (250, 1000, 4000, 20_000)
EPSILONS = (0.1, 0.5, 1.0, 4.0)
DEPTHS, TREES, LEAVES = (1, 2, 3, 4, 5), (1, 3, 10), ("label", "counts")
ALL = 14
CATEGORICAL = 6  # columns of the classification paper
KEYS = ("columns", "records", "epsilon", "method", "depth", "trees", "leaf", "seed")
COLUMNS = (*KEYS, "loss", "auc", "accuracy")
METHODS = {"PermuteAndFlipForest": PermuteAndFlipForest, "DPClassificationTree": DPClassificationTree}
LEAST = 1e-3  # least share in the cross-entropy


def views_of(data: Data) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return the positions and the declaration of each choice of columns."""
    numeric = data.sizes == 0
    categorical = np.flatnonzero(~numeric)[:CATEGORICAL]
    bounds = {int(i): (float(data.low[i]), float(data.high[i])) for i in np.flatnonzero(numeric)}
    sizes = {int(i): int(data.sizes[i]) for i in np.flatnonzero(~numeric)}
    return {
        "all": (np.arange(len(numeric)), {"bounds": bounds, "categories": sizes}),
        "categorical": (categorical, {"categories": [int(data.sizes[i]) for i in categorical]}),
    }


def cells(seeds: int) -> list[tuple[Any, ...]]:
    """Return the keys of all fits."""
    grid = product(("all", "categorical"), RECORDS, EPSILONS, METHODS, DEPTHS, TREES, LEAVES, range(seeds))
    return [cell for cell in grid if cell[3] == "PermuteAndFlipForest" or cell[5] == 1]


def run(cell: tuple[Any, ...], data: Data, inner: tuple[Any, Any]) -> tuple[float, float, float]:
    """Return cross-entropy, AUC and accuracy of one fit."""
    columns, records, epsilon, method, depth, trees, leaf, seed = cell
    judged, rest = inner
    picked, declared = views_of(data)[columns]
    train = np.random.default_rng(seed).permutation(rest)[:records]
    options = {"max_depth": depth, "leaf": leaf, "classes": [0, 1], "noise": "seeded", "random_state": seed}
    if method == "PermuteAndFlipForest":
        options["n_estimators"] = trees
    model = METHODS[method](epsilon=epsilon, **declared, **options).fit(data.X[np.ix_(train, picked)], data.y[train])
    shares = model.predict_proba(data.X[np.ix_(judged, picked)])[:, 1]
    true = data.y[judged]
    loss = log_loss(true, np.clip(shares, LEAST, 1 - LEAST))
    return float(loss), float(roc_auc_score(true, shares)), float(((shares > 0.5) == true).mean())


def table_of(found: dict[tuple[Any, ...], list[tuple[float, float, float]]], method: str) -> Table:
    """Return the best cell, the rule's and the former default, for each (columns, records, epsilon)."""
    rows = []
    for place in product(("all", "categorical"), RECORDS, EPSILONS):
        means = {key[4:]: np.mean(found[key], axis=0) for key in found if key[:3] == place and key[3] == method}
        if not means:
            continue
        best = min(means, key=lambda key: means[key][0])
        _, records, epsilon = place
        is_forest = method == "PermuteAndFlipForest"
        width = CATEGORICAL if place[0] == "categorical" else ALL
        offset = FOREST_OFFSET if is_forest else TREE_OFFSET
        trees = trees_for(epsilon, records) if is_forest else 1
        ruled = (depth_for(epsilon, records, width, offset=offset), trees, "counts")
        before = (2, 3 if is_forest else 1, "label")
        texts = [f"{'/'.join(map(str, key))}: {_text(means[key])}" for key in (best, ruled)]
        rows.append([place[0], f"{records:,}", f"{epsilon:g}", *texts, _text(means[before])])
    heads = ["columns", "records", "epsilon", "best: depth/trees/leaf", "by the rule", "before: depth 2, labels"]
    title = f"{method}: cross-entropy, AUC, accuracy in %"
    return Table.of_texts(f"rule_{method}", title, heads, rows, words=1)


def leaves_compared(found: dict[tuple[Any, ...], list[tuple[float, float, float]]]) -> str:
    """Return how often counts are better than labels, everything else equal."""
    pairs = [(np.mean(found[(*key[:-1], "counts")], axis=0), np.mean(found[key], axis=0)) for key in found
             if key[-1] == "label" and (*key[:-1], "counts") in found]  # fmt: skip
    gains = np.array([counts - labels for counts, labels in pairs])
    lower, higher = int((gains[:, 0] < 0).sum()), int((gains[:, 1] > 0).sum())
    points = f"{100 * np.median(gains[:, 2]):+.1f} (median), {100 * gains[:, 2].mean():+.1f} (mean) points"
    return f"counts, of {len(pairs)}: smaller cross-entropy {lower}, larger AUC {higher}, accuracy {points}"


def _text(mean: Any) -> str:
    return f"{mean[0]:.3f}, {mean[1]:.3f}, {100 * mean[2]:.1f}"


def main() -> None:
    """Run what is missing, then print a table for each method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("runs/dp_classifier_rule.csv"))
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("FEDLEARN_DATA"), help="holds adult.parquet")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if options.data_dir is None:
        sys.exit("--data-dir: say where adult.parquet is, or set FEDLEARN_DATA")
    stored = StoredRows(options.out, COLUMNS)
    data = adult(options.data_dir)
    order = np.random.default_rng(INNER).permutation(len(data.y))
    inner = order[: len(order) // 5], order[len(order) // 5 :]
    done = {tuple(row[key] for key in KEYS) for row in stored.rows}
    for cell in cells(options.seeds):
        if tuple(map(str, cell)) not in done:
            stored.add(dict(zip(COLUMNS, (*cell, *run(cell, data, inner)), strict=True)))
    found = defaultdict(list)
    for row in stored.rows:
        key = (row["columns"], int(row["records"]), float(row["epsilon"]), row["method"], int(row["depth"]))
        result = (float(row["loss"]), float(row["auc"]), float(row["accuracy"]))
        found[(*key, int(row["trees"]), row["leaf"])].append(result)
    for method in METHODS:
        table_of(found, method).show()
    print(leaves_compared(found))


if __name__ == "__main__":
    main()
