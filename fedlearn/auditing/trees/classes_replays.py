"""Pairs of data sets, and options, with which the exact auditor fits the classifiers.

Add or remove one record.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.auditing.pairs import Draw, Pair, booked_by_lines, drawn_records, perhaps_weights, public_of, weights_of
from fedlearn.private_trees.classes.classification import DPClassificationTree
from fedlearn.private_trees.classes.permute_and_flip_forest import PermuteAndFlipForest
from fedlearn.private_trees.classes.random_forest import DPRandomForestClassifier

Options = Callable[[np.random.Generator], dict[str, Any]]
# A split that a record makes likelier leads to a label that the record makes less likely, and vice versa: choices and
# labels together lose less than their budget, and a slip in the choices alone would not show in the sum.
PAID = {"_choose of grow_by_selection": "choice of the feature", "_book of _fit": "number of records"}
UNDECLARED = 9.0  # a label that is not a class


def fits_of(estimator: Callable[..., Any], options: Options) -> Draw:
    """Return a function that draws pairs for an estimator."""

    def draw(rng: np.random.Generator) -> Pair:
        domain, columns, labels = _declared(rng)
        X, y = drawn_records(rng, columns, labels)
        record = np.array([rng.choice(column) for column in columns]), float(rng.choice(labels))
        epsilon = float(rng.choice([0.5, 1.0, 2.0, 8.0]))
        given = domain | options(rng)
        most = len(y) + int(rng.choice([0, 20]))
        if "max_records" in given:
            given["max_records"] = int(rng.choice([most + 1, max(len(y), 1), 1]))  # as tight as possible, or too small
        estimator_of = partial(estimator, epsilon=epsilon, **given, random_state=int(rng.integers(2**31)))
        at_front = bool(rng.random() < 0.5)

        def publish(X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
            more = {"sample_weight": weights_of(X, y)} if "max_weight" in given else {}
            return public_of(estimator_of().fit(X, y, **more))

        return Pair(publish, X, y, record, epsilon, at_front=at_front, booked=booked_by_lines(PAID), most=most)

    return draw


def _declared(rng: np.random.Generator) -> tuple[dict[str, Any], list[NDArray[np.float64]], NDArray[np.float64]]:
    """Return a domain of one to three features, as parameters; the values of each feature; and the labels."""
    sizes = rng.integers(1, 4, size=int(rng.integers(1, 4)))
    has_bins = rng.random(len(sizes)) < 0.3
    share = rng.choice([0.0, 0.3, 0.8])  # share of missing values
    columns = [np.append(np.arange(float(size)), np.full(round(size * share / (1 - share)), np.nan)) for size in sizes]
    classes = [0.0, 1.0, 2.0][: int(rng.integers(2, 4))]
    domain = {
        "categories": {at: int(size) for at, size in enumerate(sizes) if not has_bins[at]},
        "bins": {at: list(np.arange(size - 1) + 0.5) for at, size in enumerate(sizes) if has_bins[at]},
        "classes": classes,
        "class_weight": {label: float(rng.choice([1, 0.3])) for label in classes} if rng.random() < 0.3 else None,
        "missing": str(rng.choice(["wp", "drop"], p=[0.8, 0.2])),
    }
    return domain, columns, np.array([*classes, *classes, UNDECLARED])


def _tree(rng: np.random.Generator) -> dict[str, Any]:
    criterion = str(rng.choice(["max", "gini", "information_gain"]))
    return {
        "max_depth": _perhaps(rng, int(rng.integers(4))),
        "mechanism": str(rng.choice(["permute_and_flip", "exponential", "laplace"])),
        "criterion": criterion,
        "leaf": str(rng.choice(["label", "counts"])),
        **({"max_records": None} if criterion == "information_gain" else perhaps_weights(rng)),
    }


def _random_forest(rng: np.random.Generator) -> dict[str, Any]:
    sampled = _sampled(rng)
    return {
        **sampled,
        "n_estimators": _perhaps(rng, sampled["n_estimators"]),
        "max_depth": _perhaps(rng, int(rng.integers(4))),
        "mechanism": str(rng.choice(["permute_and_flip", "exponential", "laplace"])),
        **perhaps_weights(rng),
    }


def _forest(rng: np.random.Generator) -> dict[str, Any]:
    sampled = _sampled(rng)
    return {
        **sampled,
        "n_estimators": _perhaps(rng, sampled["n_estimators"]),
        "max_depth": _perhaps(rng, int(rng.integers(4))),
        "max_features": rng.choice(np.array([None, 1, 2], object)),
        "penalty": float(rng.choice([0.0, 0.2, 2.0])),
        "leaf": str(rng.choice(["label", "counts"])),
        **perhaps_weights(rng),
    }


def _perhaps(rng: np.random.Generator, value: int) -> int | None:
    """Return the value, or None, which lets the estimator derive it from the published number of records."""
    return None if rng.random() < 0.2 else value


def _sampled(rng: np.random.Generator) -> dict[str, Any]:
    return {"n_estimators": int(rng.integers(1, 4)), "sampling": str(rng.choice(["disjoint", "same"]))}


REPLAYS: dict[str, Draw] = {
    "DPClassificationTree": fits_of(DPClassificationTree, _tree),
    "DPRandomForestClassifier": fits_of(DPRandomForestClassifier, _random_forest),
    "PermuteAndFlipForest": fits_of(PermuteAndFlipForest, _forest),
}
"""Function that draws a pair, by estimator; the auditor replays every estimator of this table."""
