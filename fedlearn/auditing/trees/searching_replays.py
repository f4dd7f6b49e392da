"""Pairs of data sets on which the exact auditor runs a private search: add or remove one record.

A search publishes the best of a secret number of equal runs. That it costs (2 + eta) times one run is proved in
`fedlearn.privacy.searching`; no recorded sequence of noise shows it. So the auditor replays searches of a single run,
and checks the share of epsilon that one run claims for its fit and its score, on disjoint records.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.auditing.pairs import Draw, Pair, drawn_records, public_of
from fedlearn.private_trees.classes.classification import DPClassificationTree
from fedlearn.private_trees.numbers.regression import DPRegressionTree
from fedlearn.private_trees.private_search import PrivateSearch

ONE_RUN = 1 + 1e-9  # on average
TREES = (
    DPClassificationTree(categories=[2, 2], classes=[0.0, 1.0], max_depth=1),
    DPRegressionTree(depth=1, candidates=1, bounds=(0, 1), target_bounds=(0, 1)),
)
COLUMNS = [np.array([0.0, 1.0, np.nan])] * 2
TARGETS = np.array([0.0, 1.0, 9.0])  # the last is not a class, and outside the bounds


def of_one_run(rng: np.random.Generator) -> Pair:
    """Return a pair of data sets for a search of one run."""
    X, y = drawn_records(rng, COLUMNS, TARGETS)
    record = np.array([rng.choice(column) for column in COLUMNS]), float(rng.choice(TARGETS))
    epsilon, eta = float(rng.choice([0.5, 2.0, 8.0])), int(rng.integers(2))
    tree = TREES[rng.integers(len(TREES))]

    def publish(X: NDArray[np.float64], y: NDArray[np.float64]) -> dict[str, Any]:
        search = PrivateSearch(
            estimator=tree, grid={"missing": [tree.missing]}, epsilon=epsilon, mean_runs=ONE_RUN, eta=eta, folds=2
        )
        search.fit(X, y)
        best = {name: value for name, value in public_of(search.best_estimator_).items() if name != "random_state"}
        return public_of(search) | {"estimator": None, "best_estimator_": best}  # the seed of the run is secret

    return Pair(publish, X, y, record, epsilon / (2 + eta), at_front=bool(rng.random() < 0.5))


REPLAYS: dict[str, Draw] = {"PrivateSearch": of_one_run}
"""What draws a pair."""
