"""Pairs of data sets, and options, with which the exact auditor fits the regressors.

Add or remove one record. If the number of records is declared, a pair replaces a record, at twice the epsilon.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fedlearn.auditing.pairs import Draw, Pair, booked_by_lines, drawn_records, perhaps_weights, public_of, weights_of
from fedlearn.private_trees.node_table import NodeTable
from fedlearn.private_trees.numbers.regression import DPEnsembleTree, DPRegressionTree
from fedlearn.private_trees.numbers.regression_forest import DPRegressionForest
from fedlearn.private_trees.numbers.relay_forest import DPRelayForest, DPRelayTree
from fedlearn.private_trees.numbers.voted import DPVotedForest

Options = Callable[[np.random.Generator], dict[str, Any]]
TARGETS = np.array([-1.0, -1.0, 0.0, 0.3, 1.0, 1.0, 7.0])  # the last lies outside its bounds
PAID = {
    "choose of grow": "choice of the split",
    "choose of grow_voted": "choice of the split",
    "noisy_sums of grow": "center of the node",
    "released_number of _book": "number of records",
    "private_orders of _ordered": "order of the categories",
}
PLACES = {"linear": np.array([0.05, 0.45, 0.95, -3.0]), "log": np.array([0.1, 3.0, 900.0, np.inf])}


def declared(rng: np.random.Generator) -> tuple[dict[str, Any], list[np.ndarray[Any, np.dtype[np.float64]]]]:
    """Return a domain of one to three features, as parameters, and the values of each feature.

    Often it is the smallest domain in which a choice can lose its whole epsilon: one feature with two thresholds.
    """
    if rng.random() < 0.3:
        return {"bounds": (0.0, 1.0), "target_bounds": (-1.0, 1.0), "candidates": 2}, [PLACES["linear"]]
    kinds = rng.choice(["linear", "log", "codes"], size=int(rng.choice([1, 1, 2, 3])))
    categories = {at: int(rng.choice([1, 2, 3, 3])) for at, kind in enumerate(kinds) if kind == "codes"}
    values = [np.arange(categories[at] + 1.0) if at in categories else PLACES[kind] for at, kind in enumerate(kinds)]
    share = rng.choice([0.0, 0.3, 0.8])  # share of missing values
    columns = [np.append(each, np.full(round(len(each) * share / (1 - share)), np.nan)) for each in values]
    bounds = {at: (0.1, 1000.0, "log") if kind == "log" else (0.0, 1.0) for at, kind in enumerate(kinds)}
    domain = {
        "bounds": {at: bound for at, bound in bounds.items() if at not in categories},
        "categories": categories,
        "target_bounds": (-1.0, 1.0),
        "candidates": int(rng.choice([1, 2, 2, 3])),
        "missing": str(rng.choice(["wp", "drop"], p=[0.8, 0.2])),
    }
    return domain, columns


def fits_of(estimator: Callable[..., Any], options: Options, *, parts: str = "") -> Draw:
    """Return a function that draws pairs for an estimator; `parts` names its parameter for the number of parts."""

    def draw(rng: np.random.Generator) -> Pair:
        domain, columns = declared(rng)
        X, y = drawn_records(rng, columns, TARGETS)
        one, two = ((np.array([rng.choice(column) for column in columns]), float(rng.choice(TARGETS))) for _ in "12")
        epsilon = float(rng.choice([0.5, 1.0, 2.0, 8.0]))
        is_declared = rng.random() < 0.2
        given = domain | options(rng) | {"epsilon": epsilon, "n_declared": len(y) + 1 if is_declared else None}
        if estimator is DPRelayTree:
            given["ensemble"] = _received(domain, columns, rng)
        estimator_of = partial(estimator, **given, random_state=int(rng.integers(2**31)))
        count = given[parts] if parts and rng.random() < 0.5 else 0

        def publish(X: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Any:
            fitted = estimator_of()
            more: dict[str, Any] = {"parts": _part_of(X, y, count)} if count else {}
            if "max_weight" in given:
                more["sample_weight"] = weights_of(X, y)
            return public_of(fitted.fit(X, y, **more))

        claimed = 2 * epsilon if is_declared else epsilon
        booked = booked_by_lines(PAID, claimed / epsilon)
        at_front = bool(rng.random() < 0.5)
        return Pair(publish, X, y, one, claimed, other=two if is_declared else None, at_front=at_front, booked=booked)

    return draw


def _part_of(X: np.ndarray[Any, Any], y: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    """Return (rows,) given parts, each a function of its own record."""
    sums: np.ndarray[Any, Any] = np.abs(np.nan_to_num(X, posinf=0.0).sum(axis=1) * 10 + y * 3)
    return sums.astype(np.int64) % count


def _received(domain: dict[str, Any], columns: list[Any], rng: np.random.Generator) -> NodeTable | None:
    """Return the ensemble that a relay round improves: None, or the tree of another node."""
    if rng.random() < 0.3:
        return None
    X, y = drawn_records(rng, columns, TARGETS)
    first = DPRelayTree(**domain, epsilon=5.0, noise="seeded", random_state=int(rng.integers(2**31)))
    return first.fit(X, y).table_


def _planned(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "criterion": str(rng.choice(["vote", "vote", "squared", "absolute", "random"])),
        "leaf": str(rng.choice(["mean", "median"])),
        "leaf_share": float(rng.choice([0.1, 0.45, 0.9])),
        "smoothing": bool(rng.random() < 0.5),
        "depth": rng.choice(np.array([None, 0, 1, 1, 2, 3], object)),
        **perhaps_weights(rng),
    }


def _in_parts(rng: np.random.Generator) -> dict[str, Any]:
    return _planned(rng) | {"n_trees": int(rng.integers(1, 4))}


def _of_nodes(rng: np.random.Generator) -> dict[str, Any]:
    return {"n_nodes": int(rng.integers(1, 4))}


def _in_groups(rng: np.random.Generator) -> dict[str, Any]:
    groups = int(rng.integers(1, 3))
    return {"n_groups": groups, "n_nodes": groups * int(rng.integers(1, 3))}


def _alone(rng: np.random.Generator) -> dict[str, Any]:
    return _planned(rng) | {"category_order": str(rng.choice(["target", "declared"]))}


REPLAYS: dict[str, Draw] = {
    "DPRegressionTree": fits_of(DPRegressionTree, _alone),
    "DPEnsembleTree": fits_of(DPEnsembleTree, _planned),
    "DPRegressionForest": fits_of(DPRegressionForest, _in_parts, parts="n_trees"),
    "DPRelayForest": fits_of(DPRelayForest, _of_nodes, parts="n_nodes"),
    "DPRelayTree": fits_of(DPRelayTree, lambda rng: {}),
    "DPVotedForest": fits_of(DPVotedForest, _in_groups, parts="n_nodes"),
}
"""Of each estimator, what draws a pair; a new estimator is replayed as soon as it stands here."""
