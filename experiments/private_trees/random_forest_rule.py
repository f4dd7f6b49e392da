"""The search for the shape of `DPRandomForestClassifier` by epsilon, records and columns, and its test.

    FEDLEARN_DATA=... python -m experiments.private_trees.random_forest_rule --rows inner
    FEDLEARN_DATA=... python -m experiments.private_trees.random_forest_rule --rows test --seeds 5

``inner``: all shapes, on the training rows of `all_columns`, of which 2000 are held out to judge. ``test``: the rule's
shape beside the former default (depth 3, 10 trees), on the test rows of `all_columns`. Columns as in `classifier_rule`.
Cross-entropy decides. Noise is seeded: the runs measure, and give no privacy.
"""

from __future__ import annotations

import argparse
import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from experiments.private_trees.all_columns import Data, adult
from experiments.private_trees.classifier_rule import INNER, LEAST, views_of
from fedlearn.private_trees import DPRandomForestClassifier
from fedlearn.report.tables import Table

RECORDS, EPSILONS = (1000, 4000, 20_000), (0.1, 1.0, 4.0)
DEPTHS, TREES = (1, 2, 3, 4), (1, 3, 10, 30)
BEFORE = (3, 10)
JUDGED = 2000
Shape = tuple[int | None, int | None]  # depth and trees; None: by the rule


def measured(data: Data, rows: Any, place: tuple[str, int, float], shape: Shape, seeds: int) -> Any:
    """Return cross-entropy, AUC and accuracy, means over seeds."""
    columns, records, epsilon = place
    X, y, judged_X, judged_y = rows
    picked, declared = views_of(data)[columns]
    found = []
    for seed in range(seeds):
        train = np.random.default_rng(seed).permutation(len(y))[:records]
        given = {"max_depth": shape[0], "n_estimators": shape[1], "classes": [0, 1], **declared}
        model = DPRandomForestClassifier(epsilon=epsilon, **given, noise="seeded", random_state=seed)
        shares = model.fit(X[np.ix_(train, picked)], y[train]).predict_proba(judged_X[:, picked])[:, 1]
        loss = log_loss(judged_y, np.clip(shares, LEAST, 1 - LEAST))
        found.append((loss, roc_auc_score(judged_y, shares), ((shares > 0.5) == judged_y).mean()))
    return np.mean(found, axis=0)


def rows_of(data: Data, which: str) -> Any:
    """Return X and y to draw from, and to judge by."""
    if which == "test":
        return data.X, data.y, data.test_X, data.test_y
    order = np.random.default_rng(INNER).permutation(len(data.y))
    judged, rest = order[: len(order) // 5][:JUDGED], order[len(order) // 5 :]
    return data.X[rest], data.y[rest], data.X[judged], data.y[judged]


def main() -> None:
    """Fit all and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("FEDLEARN_DATA", "."), help="of adult.parquet")
    parser.add_argument("--rows", choices=("inner", "test"), default="inner")
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    data = adult(Path(options.data_dir))
    rows = rows_of(data, options.rows)
    shapes: list[Shape] = [(None, None), BEFORE]
    if options.rows == "inner":
        shapes += [shape for shape in product(DEPTHS, TREES) if shape != BEFORE]
    lines = []
    for place in product(("all", "categorical"), RECORDS, EPSILONS):
        means = {shape: measured(data, rows, place, shape, options.seeds) for shape in shapes}
        best = min(means, key=lambda shape: means[shape][0])
        texts = [f"{mean[0]:.3f}, {mean[1]:.3f}, {100 * mean[2]:.1f}" for mean in means.values()]
        named = "the rule" if best[0] is None else "/".join(map(str, best))
        of_best = [f"{named}: {means[best][0]:.3f}"] if options.rows == "inner" else []
        lines.append([place[0], f"{place[1]:,}", f"{place[2]:g}", *texts[:2], *of_best])
    heads = ["columns", "records", "epsilon", "by the rule", "depth 3, 10 trees"]
    heads += ["best: depth/trees"] if options.rows == "inner" else []
    title = f"DPRandomForestClassifier, {options.rows} rows: cross-entropy, AUC, accuracy in %"
    Table.of_texts("random_forest_rule", title, heads, lines, words=1).show()


if __name__ == "__main__":
    main()
