"""Growth of planned regression trees, and predictions from their values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy import Noise
from fedlearn.private_trees.domain import Domain
from fedlearn.private_trees.node_table import NodeTable
from fedlearn.private_trees.numbers.forest_growing import Grown, grow
from fedlearn.private_trees.numbers.leaves import median_of_shares, plain_means, smoothed_means, smoothed_shares
from fedlearn.private_trees.numbers.training_set import TrainingSet
from fedlearn.private_trees.numbers.tree_plan import TreePlan
from fedlearn.private_trees.predicting import predict


def grow_trees(
    training: TrainingSet,
    tree_of_row: NDArray[np.integer],
    *,
    trees: int,
    plan: TreePlan,
    noise: Noise,
    rng: np.random.Generator,
    smoothing: bool = True,
) -> NodeTable:
    """Return trees on disjoint rows, all grown at once; the caller has booked ``plan.epsilon``.

    Parameters
    ----------
    training
        Data and declared domain: ``TrainingSet(X, y, domain, Grid.of(domain))``.
    tree_of_row
        (rows,) in 0 .. trees - 1.
    plan
        Levels and budgets, from `plan_for`.
    noise, rng
        Randomness that protects the records, and randomness that needs no protection.
    """
    rows = training.rows(training.unit_target, tree_of_row, trees)
    grown = grow(rows, training.grid, plan, noise=noise, rng=rng)
    return grown.table(training.grid, values_of(grown, plan, training.domain, smoothing=smoothing))


def values_of(grown: Grown, plan: TreePlan, domain: Domain, *, smoothing: bool = True) -> list[NDArray[np.float64]]:
    """Return the values of every node of every level, root first.

    The values of a level are (slots,) means in the target's unit; for median leaves (slots, knots) distributions over
    even knots of the target bounds, each with sum 1.
    """
    if grown.hats is not None:
        return smoothed_shares(grown.hats, plan.depth, smoothing=smoothing)
    means = smoothed_means(grown.sums, plan.spreads, plan.within) if smoothing else plain_means(grown.sums)
    return [domain.target_of_unit(mean) for mean in means]


def predict_target(table: NodeTable, X: NDArray[np.float64], domain: Domain) -> NDArray[np.float64]:
    """Return (rows,) predictions inside the target bounds: means, or medians of the pooled distributions."""
    values = predict(table, X)
    return target_of_values(values, domain)


def target_of_values(values: NDArray[np.float64], domain: Domain) -> NDArray[np.float64]:
    """Return (rows,) predictions in the target's unit from (rows, 1) means or (rows, knots) distributions."""
    if values.shape[1] > 1:
        return domain.target_of_unit(median_of_shares(values))
    return np.clip(values[:, 0], *domain.target_bounds)
