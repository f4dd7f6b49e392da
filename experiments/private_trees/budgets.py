"""Measure whether `dp-boosting` gets worse with a larger budget: epsilon 1000 beside 8 and others, on six tables.

    FEDLEARN_DATA=... python -m experiments.private_trees.budgets [--nodes 1] [--seeds 5] [--epsilons 1 8 64 1000]
        [--estimators]

Tables, held-out fifths and shards are those of `few_records`, and Adult and California. Shipped defaults, local noise
of so many nodes. The last column says whether the last epsilon is worse than 8 by more than a standard error of the
difference over the seeds, which are the same for both. ``--estimators``: `DPBoostingClassifier` and
`DPBoostingRegressor` of the same rows in one table. Noise is seeded: the runs measure, and give no privacy.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from experiments.private_trees.few_records import HELD_OUT, measured, table_of
from fedlearn.core.seeding import rng_for
from fedlearn.private_trees import DPBoostingClassifier, DPBoostingRegressor
from fedlearn.report.tables import Table

TABLES = ("adult", "california", "breast cancer", "digits", "made, classes", "made, a number")
LARGER_IS_WORSE = ("california", "made, a number")  # scaled errors; the others have accuracies
BESIDE = 8.0


def main() -> None:
    """Measure, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, BESIDE, 64.0, 1000.0])
    parser.add_argument("--estimators", action="store_true", help="of one table, in place of the model of nodes")
    parser.add_argument("--tables", nargs="+", default=TABLES, choices=TABLES)
    given = parser.parse_args()
    lines = []
    for task in given.tables:
        found, rounds = {}, {}
        for epsilon in {**dict.fromkeys(given.epsilons), BESIDE: None}:
            runs = [
                pooled(task, epsilon, seed)
                if given.estimators
                else measured(task, "dp-boosting", epsilon, nodes=given.nodes, seed=seed, declared=None)
                for seed in range(1, given.seeds + 1)
            ]
            found[epsilon], rounds[epsilon] = np.array([run["score"] for run in runs]), runs[0]["rounds"]
        more = (found[given.epsilons[-1]] - found[BESIDE]) * (-1 if task in LARGER_IS_WORSE else 1)
        error = float(more.std(ddof=1) / np.sqrt(len(more)))
        cells = [f"{found[e].mean():.4f} ({found[e].std():.4f}), {rounds[e]:g}" for e in given.epsilons]
        lines.append([task, *cells, f"{more.mean():+.4f}", f"{error:.4f}", "yes" if more.mean() < -error else "no"])
        print(*lines[-1], flush=True)
    heads = ["table", *(f"{e:g} (deviation), rounds" for e in given.epsilons), "gain over 8", "its error", "worse"]
    print(Table.of_texts("budgets", "dp-boosting by epsilon", heads, lines, words=1).as_markdown())


def pooled(task: str, epsilon: float, seed: int) -> dict[str, float]:
    """Return the score of the estimator of one table on the held-out records, and its number of rounds."""
    examples, schema = table_of(task)
    order = rng_for(seed, purpose="held out").permutation(len(examples))
    held = round(HELD_OUT * len(examples))
    train, test = examples.at(order[held:]), examples.at(order[:held])
    declared: dict[str, Any] = {
        "bounds": dict(enumerate(schema.bounds.values())), "noise": "seeded", "random_state": seed,
        "categories": {len(schema.bounds) + at: len(words) for at, words in enumerate(schema.categories.values())},
    }  # fmt: skip
    if schema.classes:
        classifier = DPBoostingClassifier(epsilon=epsilon, classes=range(len(schema.classes)), **declared)
        found = classifier.fit(train.inputs, train.targets.astype(int))
        score = (found.predict(test.inputs) == test.targets).mean()
    else:
        assert schema.target_bounds is not None
        low, high = schema.target_bounds
        found = DPBoostingRegressor(epsilon=epsilon, target_bounds=(low, high), **declared).fit(
            train.inputs, train.targets
        )
        score = np.abs(found.predict(test.inputs) - np.clip(test.targets, low, high)).mean() / (high - low)
    return {"score": float(score), "rounds": len(found.model_.steps)}


if __name__ == "__main__":
    main()
