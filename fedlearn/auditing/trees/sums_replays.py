"""Pairs of data sets, and options, with which the exact auditor fits the sums: add or remove one record."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.auditing.pairs import Draw, Pair, booked_by_lines, drawn_records, perhaps_weights, public_of, weights_of
from fedlearn.private_trees.sums.boosted import DPBoostingClassifier, DPBoostingRegressor
from fedlearn.private_trees.sums.naive_bayes import DPNaiveBayes

Options = Callable[[np.random.Generator], dict[str, Any]]
CLASSES = [0.0, 1.0, 2.0]
UNDECLARED = 9.0  # a label that is not a class
NUMBERS = np.array([-1.0, -1.0, 0.2, 1.0, 1.0, 7.0])  # the last lies outside its bounds
PLACES = {"linear": np.array([0.05, 0.95, np.nan]), "log": np.array([0.2, 900.0, np.inf])}
PAID = {  # losses of rounds have either sign, so together they lose less than their budget
    "choose of _rounds": "choices of cells",
    "_rounds of boost": "sums of cells",
    "boost of _boost": "number of records and start",
    "private_edges of boost": "bins of numeric columns",
}


def fits_of(estimator: Callable[..., Any], options: Options) -> Draw:
    """Return a function that draws pairs for an estimator."""

    def draw(rng: np.random.Generator) -> Pair:
        domain, columns = _declared(rng)
        given = domain | options(rng)
        targets = np.array([*given["classes"], UNDECLARED]) if "classes" in given else NUMBERS
        X, y = drawn_records(rng, columns, targets)
        record = np.array([rng.choice(column) for column in columns]), float(rng.choice(targets))
        epsilon = float(rng.choice([0.5, 1.0, 2.0, 8.0]))
        estimator_of = partial(estimator, epsilon=epsilon, **given, random_state=int(rng.integers(2**31)))

        def publish(X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
            more = {"sample_weight": weights_of(X, y)} if "max_weight" in given else {}
            return public_of(estimator_of().fit(X, y, **more))

        at_front = bool(rng.random() < 0.5)
        return Pair(publish, X, y, record, epsilon, at_front=at_front, booked=booked_by_lines(PAID))

    return draw


def _declared(rng: np.random.Generator) -> tuple[dict[str, Any], list[NDArray[np.float64]]]:
    """Return a domain of one to three features, as parameters, and the values of each feature.

    Often it is the smallest domain in which a choice can lose its whole epsilon: two features of two categories.
    """
    if rng.random() < 0.3:
        return {"categories": {0: 2, 1: 2}}, [np.arange(2.0), np.arange(2.0)]
    kinds = rng.choice(["linear", "log", "codes"], p=[0.2, 0.2, 0.6], size=int(rng.choice([1, 2, 2, 3])))
    categories = {at: int(rng.integers(1, 4)) for at, kind in enumerate(kinds) if kind == "codes"}
    columns = [
        np.append(np.arange(float(categories[at])), np.nan) if at in categories else PLACES[kind]
        for at, kind in enumerate(kinds)
    ]
    bounds = {at: (0.1, 1000.0, "log") if kind == "log" else (0.0, 1.0) for at, kind in enumerate(kinds)}
    return {"bounds": {at: b for at, b in bounds.items() if at not in categories}, "categories": categories}, columns


def _classes(rng: np.random.Generator) -> dict[str, Any]:
    return {"classes": CLASSES[: int(rng.integers(2, 4))], **perhaps_weights(rng)}


def _of_numbers(rng: np.random.Generator) -> dict[str, Any]:
    return {**_boosted(rng), "target_bounds": (-1.0, 1.0), **perhaps_weights(rng)}


def _boosted(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "n_rounds": rng.choice(np.array([None, 1, 1, 1, 2, 2, 4], object)),
        "interactions": bool(rng.random() < 0.5),
    }


def _crowd_and_stranger(rng: np.random.Generator) -> Pair:
    """Return a crowd of one class, and a record of the other class in the crowd's cell of one column alone.

    The record moves one utility up and the other down by nearly 1, which is the largest loss of a choice.
    """
    estimator = partial(
        DPBoostingClassifier, epsilon=8.0, n_rounds=1, interactions=False, categories=[2, 2], classes=CLASSES[:2],
        random_state=int(rng.integers(2**31)),
    )  # fmt: skip

    def publish(X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
        return public_of(estimator().fit(X, y))

    crowd = int(rng.choice([100, 300, 900]))
    record = np.array([0.0, 1.0]), 1.0
    return Pair(publish, np.zeros((crowd, 2)), np.zeros(crowd), record, 8.0, booked=booked_by_lines(PAID))


def _with_bins(estimator: Callable[..., Any], **declared: Any) -> Draw:
    """Return a function that draws crowds large enough for private bins of their two numeric columns."""

    def draw(rng: np.random.Generator) -> Pair:
        estimator_of = partial(
            estimator, epsilon=8.0, n_rounds=1, bounds={0: (0.0, 1.0), 1: (0.0, 1.0)},
            random_state=int(rng.integers(2**31)), **declared,
        )  # fmt: skip
        crowd = int(rng.choice([500, 900]))
        X, y = rng.random((crowd, 2)), rng.integers(2, size=crowd).astype(float)

        def publish(X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
            return public_of(estimator_of().fit(X, y))

        return Pair(publish, X, y, (rng.random(2), float(rng.integers(2))), 8.0, booked=booked_by_lines(PAID))

    return draw


def _mostly(draw: Draw, *others: Draw) -> Draw:
    """Return a function that draws with each of `others` once in twenty times, else with `draw`."""

    def one_of(rng: np.random.Generator) -> Pair:
        which = int(rng.integers(20))
        return others[which](rng) if which < len(others) else draw(rng)

    return one_of


REPLAYS: dict[str, Draw] = {
    "DPBoostingClassifier": _mostly(
        fits_of(DPBoostingClassifier, lambda rng: _boosted(rng) | _classes(rng)),
        _crowd_and_stranger,
        _with_bins(DPBoostingClassifier, classes=CLASSES[:2]),
    ),
    "DPBoostingRegressor": _mostly(
        fits_of(DPBoostingRegressor, lambda rng: _boosted(rng) | {"target_bounds": (-1.0, 1.0)} | perhaps_weights(rng)),
        _with_bins(DPBoostingRegressor, target_bounds=(-1.0, 1.0)),
    ),
    "DPNaiveBayes": fits_of(DPNaiveBayes, _classes),
}
"""Of each estimator, what draws a pair; a new estimator is replayed as soon as it stands here."""
