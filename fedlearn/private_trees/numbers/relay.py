"""Relay boosting: one node a round, each adds a private tree fitted to the residuals of the ensemble.

In round 1 the first node fits the targets. In every later round a node receives the ensemble, clips the residuals of
its own records to +- CLIP of the width of the target bounds, grows one private tree on them with its *whole* epsilon,
and adds STEP times that tree. The ensemble is public after each round, and each record is used in one round only, so
the rounds compose in parallel: epsilon in all, against everyone who sees the ensemble at any time, the other nodes
included. (A later tree depends on the earlier ones, which are public: parallel composition holds for adaptively chosen
mechanisms on parts fixed beforehand.)

A relay ensemble is a *sum* of trees: its prediction is the sum of the trees' values, in the target's unit, clipped to
the target bounds (`relay_predict`); the table's weights stay equal. Clipped residuals make it robust like Huber's
loss.

Source: gradient boosting, Friedman 2001 (doi:10.1214/aos/1013203451); rounds of nodes and privacy are ours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy import Noise
from fedlearn.private_trees.binning import Grid
from fedlearn.private_trees.domain import Domain
from fedlearn.private_trees.node_table import NodeTable, union
from fedlearn.private_trees.numbers.forest_growing import grow
from fedlearn.private_trees.numbers.leaves import smoothed_means
from fedlearn.private_trees.numbers.training_set import TrainingSet
from fedlearn.private_trees.numbers.tree_plan import TreePlan, greedy_levels_for, plan_for
from fedlearn.private_trees.predicting import predict

FloatArray = NDArray[np.float64]

CLIP = 0.12  # of the width of the target bounds, to which residuals are clipped
STEP = 0.5  # share of a tree that is added after round 1; the first tree is added whole
OFFSET = 6.5  # see plan.greedy_levels_for; residuals carry less signal than targets
SMALLEST = 16.0  # see plan.greedy_levels_for; a boosted tree may be coarse
RANDOM_LEVELS = 2


def relay_plan(epsilon: float, n: float) -> TreePlan:
    """Return the plan of one round's tree, from the public number of records of its node."""
    greedy = greedy_levels_for(epsilon, n, offset=OFFSET, smallest=SMALLEST)
    return plan_for(
        epsilon, greedy_levels=greedy, random_levels=RANDOM_LEVELS, leaf_share=0.35, level_spread=0.1, spread_decay=0.85
    )


def grow_relay_tree(
    ensemble: NodeTable | None,
    X: FloatArray,
    y: FloatArray,
    *,
    domain: Domain,
    plan: TreePlan,
    noise: Noise,
    rng: np.random.Generator,
    candidates: int = 40,
) -> NodeTable:
    """Return the tree of one round, its values in the target's unit; the caller has booked ``plan.epsilon``.

    Parameters
    ----------
    ensemble
        Received ensemble, a sum of trees; None in round 1.
    X, y
        (rows, features) and (rows,): the records of the round's node, used in no other round.
    domain
        The declared domain, the same at all nodes.
    plan
        Levels and budgets, from `relay_plan`.
    noise, rng
        Randomness that protects the records, and randomness that needs no protection.
    """
    grid = Grid.of(domain, candidates=candidates)
    low, high = domain.target_bounds
    residual = np.clip(y, low, high) - (center_of(domain) if ensemble is None else relay_predict(ensemble, X, domain))
    reach = (high - low) * (0.5 if ensemble is None else CLIP)  # residuals lie in -reach .. reach
    unit = (np.clip(residual, -reach, reach) + reach) / (2 * reach)
    rows = TrainingSet(X, y, domain, grid).rows(unit, np.zeros(len(y), np.int64), 1)
    grown = grow(rows, grid, plan, noise=noise, rng=rng)
    means = smoothed_means(grown.sums, plan.spreads, plan.within)
    if ensemble is None:
        return grown.table(grid, [domain.target_of_unit(mean) for mean in means])
    return grown.table(grid, [STEP * reach * (2 * mean - 1) for mean in means])


def add_tree(ensemble: NodeTable | None, tree: NodeTable) -> NodeTable:
    """Return the ensemble with one more tree."""
    return tree if ensemble is None else union([ensemble, tree])


def relay_predict(ensemble: NodeTable, X: FloatArray, domain: Domain) -> FloatArray:
    """Return (rows,) predictions: the sum over the trees, clipped to the target bounds."""
    low, high = domain.target_bounds
    return np.clip(ensemble.num_trees * predict(ensemble, X)[:, 0], low, high)


def relay_value_bounds(domain: Domain, *, is_first: bool) -> tuple[float, float]:
    """Return the lowest and highest value that a round's tree may have; the server's gate checks a report by them."""
    low, high = domain.target_bounds
    step = STEP * CLIP * (high - low)
    return (low, high) if is_first else (-step, step)


def check_received(ensemble: NodeTable, domain: Domain) -> None:
    """Raise MalformedTree unless a received ensemble is a sum of relay trees.

    The sender may be malicious. Values out of range would let a record count for more than its weight; a NaN would
    spread to the residuals, which are what a record contributes.
    """
    bounds = [relay_value_bounds(domain, is_first=is_first) for is_first in (True, False)]
    rounding = 1e-9 * (domain.target_bounds[1] - domain.target_bounds[0])
    low, high = min(low for low, _ in bounds) - rounding, max(high for _, high in bounds) + rounding
    ensemble.validate(num_features=domain.num_features, value_bounds=(low, high))


def center_of(domain: Domain) -> float:
    """Return the middle of the target bounds, around which the residuals of round 1 are taken."""
    return sum(domain.target_bounds) / 2
