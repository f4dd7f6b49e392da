"""Order of a feature's categories by their noisy mean targets, so that one threshold divides them well.

A regression tree tests ``code <= cut``, which says little if the codes have no meaningful order. In the order of the
categories' mean targets, the best division into two sets is a cut, for squared error (Fisher 1958,
doi:10.1080/01621459.1958.10501479; Breiman et al. 1984, theorem 4.5).

*Why it is private*, add or remove one record. For each feature of three or more categories the sums of (1 - y, y) by
category are released, with y the target mapped to [0, 1]. A record lies in at most one category of a feature, and adds
(1 - y, y) there: an L1 norm of at most 1 for each of m features, m in all. Geometric noise for a sensitivity of m and a
share of epsilon costs that share. Orders follow from the released sums, and later steps read the records through these
orders: sequential composition, each line booked by itself. Two categories need no order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy import Noise, geometric
from fedlearn.private_trees.domain import Domain
from fedlearn.private_trees.numbers.histograms import UNIT, pairs_of
from fedlearn.private_trees.numbers.leaves import NoisySums, shrunk
from fedlearn.private_trees.numbers.training_set import TrainingSet

FloatArray = NDArray[np.float64]
Orders: TypeAlias = Mapping[int, NDArray[np.int64]]
"""Of each feature that has one, its categories from the smallest mean target to the largest."""

SHARE = 0.1
"""Of epsilon, for the orders of all features together."""

SPREAD, WITHIN = (
    0.1,
    0.02,
)  # public guesses for targets in [0, 1]: spread of categories' means, variance inside a category


def features_to_order(domain: Domain) -> NDArray[np.int64]:
    """Return the features of three or more categories."""
    return np.flatnonzero(domain.categories > 2)


def private_orders(training: TrainingSet, *, epsilon: float, noise: Noise) -> dict[int, NDArray[np.int64]]:
    """Return the categories of each feature of `features_to_order`, in ascending order of their noisy mean targets.

    Parameters
    ----------
    training
        Records whose categorical features hold codes, NaN = missing.
    epsilon
        Privacy loss of all features together.
    noise
        Source of the noise.
    """
    features = features_to_order(training.domain)
    sizes = training.domain.categories
    sums = np.zeros((len(features), int(sizes[features].max()), 2), np.int64)
    pairs = pairs_of(training.unit_target, UNIT if training.whole is None else training.whole)
    for at, feature in enumerate(features):
        code = codes_of(training.X[:, feature], int(sizes[feature]))
        np.add.at(sums[at], code[code >= 0], pairs[code >= 0])
    released = geometric(sums, sensitivity=UNIT * len(features), epsilon=epsilon, noise=noise) / UNIT
    return {
        int(feature): _order(released[at, : sizes[feature]], epsilon / len(features))
        for at, feature in enumerate(features)
    }


def _order(sums: FloatArray, epsilon: float) -> NDArray[np.int64]:
    """Return the categories by ascending mean; means of few records are shrunk towards the mean of all."""
    everywhere = NoisySums.of(sums.sum(axis=0, keepdims=True), epsilon).mean
    means = shrunk(NoisySums.of(sums, epsilon), np.repeat(everywhere, len(sums)), SPREAD, WITHIN)
    return np.argsort(means, kind="stable")


def codes_of(column: FloatArray, size: int) -> NDArray[np.int64]:
    """Return (rows,) the category of each value; -1 if it is missing or undeclared."""
    known = (column >= 0) & (column < size)  # False for NaN
    nearest = np.ceil(np.where(known, column, 0) - 0.5)  # rounds as thresholds between codes do
    return np.where(known, np.clip(nearest, 0, size - 1), -1).astype(np.int64)


def ranked(X: FloatArray, orders: Orders) -> FloatArray:
    """Return X (rows, features) with ranks of categories in place of codes; NaN = missing or undeclared.

    >>> ranked(np.array([[0.0, 7.0], [2.0, 8.0]]), {0: np.array([2, 0, 1])}).tolist()
    [[1.0, 7.0], [0.0, 8.0]]
    """
    if not orders:
        return X
    out = X.copy()
    for feature, order in orders.items():
        code = codes_of(X[:, feature], len(order))
        out[:, feature] = np.where(code >= 0, np.argsort(order)[code], np.nan)
    return out
