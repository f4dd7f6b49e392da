"""The private classifiers, ready for small data of codes: what holds for all of them is tested over this table."""

from __future__ import annotations

import numpy as np

from fedlearn.private_trees.classes.classification import DPClassificationTree
from fedlearn.private_trees.classes.permute_and_flip_forest import PermuteAndFlipForest
from fedlearn.private_trees.classes.random_forest import DPRandomForestClassifier

SIZES = (2, 3, 4)
MAKERS = {
    **{
        f"tree {mechanism}": (DPClassificationTree, {"mechanism": mechanism})
        for mechanism in ("laplace", "exponential", "permute_and_flip")
    },
    **{
        f"forest {mechanism} {sampling}": (DPRandomForestClassifier, {"mechanism": mechanism, "sampling": sampling})
        for mechanism in ("laplace", "exponential", "permute_and_flip")
        for sampling in ("disjoint", "same")
    },
    "tree labels": (DPClassificationTree, {"leaf": "label"}),
    "edprf labels": (PermuteAndFlipForest, {"leaf": "label"}),
    "edprf of given shape": (PermuteAndFlipForest, {"max_depth": 2, "n_estimators": 2}),
    **{f"edprf {sampling}": (PermuteAndFlipForest, {"sampling": sampling}) for sampling in ("disjoint", "same")},
}


def made(name, epsilon=1.0, **changes):
    """Return the named classifier, with reproducible noise."""
    kind, settings = MAKERS[name]
    declared = {"categories": SIZES, "classes": ["no", "yes"], "noise": "seeded", "random_state": 3}
    return kind(epsilon=epsilon, **{**declared, **settings, **changes})


def examples(n=400, *, missing=0.0, seed=0):
    """Return codes and labels; the label is "yes" where the second feature is 2, else mostly "no"."""
    rng = np.random.default_rng(seed)
    X = np.stack([rng.integers(0, size, n) for size in SIZES], axis=1).astype(float)
    y = np.where((X[:, 1] == 2) ^ (rng.random(n) < 0.05), "yes", "no")
    X[rng.random(X.shape) < missing] = np.nan
    return X, y
