"""Relay boosting: nodes take turns, each adds a private tree fitted to what the ensemble still gets wrong.

Turn 0 fits the targets. Every later turn takes the ensemble received, clips its own residuals to +- CLIP of the width
of the target bounds, grows one private tree on them with its *whole* epsilon, and adds STEP times that tree. The
ensemble is public after each turn and each record is used in one turn only, so the turns compose in parallel: epsilon
in all, against everyone who sees the ensemble at any time, the other nodes included. (The later tree depends on the
earlier ones, which are public: parallel composition holds for adaptively chosen mechanisms on parts fixed
beforehand.)

A relay ensemble is a *sum* of trees: its prediction is the sum of the trees' values, in the target's unit, clipped to
the target bounds (`relay_predict`); the table's weights stay equal. Clipped residuals make it robust like Huber's
loss.

Gradient boosting: Friedman 2001 (doi:10.1214/aos/1013203451). Sequential rounds: as many as turns.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.privacy import PrivacyAccountant
from fedlearn.privacy.noise import Noise
from fedlearn.trees.binning import Grid
from fedlearn.trees.domain import Domain
from fedlearn.trees.nodes import NodeTable, union
from fedlearn.trees.numbers.growing import grow
from fedlearn.trees.numbers.leaves import smoothed_means
from fedlearn.trees.numbers.plan import Plan, greedy_levels_for, plan_for
from fedlearn.trees.numbers.regressor import PrivateRegressor, Records, checked_parts, part_sources
from fedlearn.trees.predicting import predict

FloatArray = NDArray[np.float64]

CLIP = 0.12  # of the width of the target bounds: residuals beyond count as this far
STEP = 0.5  # share of a tree that is added, after turn 0, which is added whole
OFFSET = 6.5  # see plan.greedy_levels_for; the residuals say less than the targets
SMALLEST = 16.0  # likewise: a boosted tree need not be fine
RANDOM_LEVELS = 2


def relay_plan(epsilon: float, n: float) -> Plan:
    """Return the plan of one turn, from the public number of records of the node whose turn it is."""
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
    plan: Plan,
    noise: Noise,
    rng: np.random.Generator,
    candidates: int = 40,
) -> NodeTable:
    """Return the tree of one turn, its values in the target's unit; the accountant has been asked for ``plan.epsilon``.

    Parameters
    ----------
    ensemble
        What was received: a sum of trees; None at turn 0.
    X, y
        (rows, features) and (rows,): the records of the node whose turn it is, used in no other turn.
    domain
        The declared domain, the same at all nodes.
    plan
        Levels and budgets, of `relay_plan`.
    noise, rng
        The randomness that protects, and the one that does not.
    """
    grid = Grid.of(domain, candidates=candidates)
    low, high = domain.target_bounds
    residual = np.clip(y, low, high) - (centre_of(domain) if ensemble is None else relay_predict(ensemble, X, domain))
    reach = (high - low) * (0.5 if ensemble is None else CLIP)  # of residuals, either way
    unit = (np.clip(residual, -reach, reach) + reach) / (2 * reach)
    rows = Records(X, y, domain, grid).rows(unit, np.zeros(len(y), np.int64), 1)
    grown = grow(rows, grid, plan, noise=noise, rng=rng)
    means = smoothed_means(grown.sums, plan.spreads, plan.within)
    if ensemble is None:
        return grown.table(grid, [domain.target_of_unit(mean) for mean in means])
    return grown.table(grid, [STEP * reach * (2 * mean - 1) for mean in means])


def add_turn(ensemble: NodeTable | None, tree: NodeTable) -> NodeTable:
    """Return the ensemble with one more tree."""
    return tree if ensemble is None else union([ensemble, tree])


def relay_predict(ensemble: NodeTable, X: FloatArray, domain: Domain) -> FloatArray:
    """Return (rows,) the sum over the trees, clipped to the target bounds."""
    low, high = domain.target_bounds
    return np.clip(ensemble.num_trees * predict(ensemble, X)[:, 0], low, high)


def relay_value_bounds(domain: Domain, *, is_first: bool) -> tuple[float, float]:
    """Return between which values a tree of a turn must lie: what the gate checks of a node's report."""
    low, high = domain.target_bounds
    step = STEP * CLIP * (high - low)
    return (low, high) if is_first else (-step, step)


def centre_of(domain: Domain) -> float:
    """Return the middle of the target bounds, from which the first residuals are counted."""
    return sum(domain.target_bounds) / 2


class DPRelayForest(PrivateRegressor):
    """Relay boosting on one machine: rows are given to nodes, which take their turns in order.

    Parameters
    ----------
    n_nodes
        Number of nodes, and of turns; 1 or more. Rows go to nodes at random, independently of each other.
    epsilon, bounds, target_bounds, categories, n_declared, candidates, missing, noise, random_state, accountant
        As in `DPRegressionTree`.
    bounds_from_data
        Likewise.
    """

    def __init__(
        self,
        *,
        n_nodes: int = 25,
        epsilon: float = 1.0,
        bounds: Any = None,
        target_bounds: Any = None,
        categories: Any = None,
        n_declared: float | None = None,
        candidates: int = 40,
        missing: str = "wp",
        noise: str = "secure",
        random_state: Any = None,
        accountant: PrivacyAccountant | None = None,
        bounds_from_data: bool = False,
    ) -> None:
        self.n_nodes = n_nodes
        self.epsilon = epsilon
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.categories = categories
        self.n_declared = n_declared
        self.candidates = candidates
        self.missing = missing
        self.noise = noise
        self.random_state = random_state
        self.accountant = accountant
        self.bounds_from_data = bounds_from_data

    def fit(self, X: ArrayLike, y: ArrayLike, *, parts: ArrayLike | None = None) -> Self:
        """Let the nodes take their turns.

        Parameters
        ----------
        X, y
            (rows, features) and (rows,).
        parts
            (rows,) the node 0 .. n_nodes - 1 that holds each row; turns are in the nodes' order. None = at random.
        """
        if self.n_nodes < 1:
            raise ValueError(f"n_nodes: {self.n_nodes} must be 1 or more")
        self._parts = parts
        try:
            return super().fit(X, y)
        finally:
            del self._parts

    def _predict(self, X: FloatArray) -> FloatArray:
        return relay_predict(self.table_, X, self.domain_)

    def _grow(
        self, records: Records, accountant: PrivacyAccountant, noise: Noise, rng: np.random.Generator
    ) -> NodeTable:
        node_of_row = checked_parts(self._parts, records, self.n_nodes, rng, self.noise)
        n, epsilon = self._number_of_records(records, accountant, noise)
        self.plan_ = relay_plan(epsilon, n / self.n_nodes)
        self.plan_.spend_from(accountant, is_secure=noise.is_secure)  # once: the turns use disjoint records
        ensemble: NodeTable | None = None
        for turn in range(self.n_nodes):
            here = node_of_row == turn
            own_noise, own_rng = part_sources(self.noise, self.random_state, turn)
            tree = grow_relay_tree(
                ensemble,
                records.X[here],
                records.y[here],
                domain=records.domain,
                plan=self.plan_,
                noise=own_noise,
                rng=own_rng,
                candidates=self.candidates,
            )
            ensemble = add_turn(ensemble, tree)
        assert ensemble is not None
        return ensemble
