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

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.privacy import Noise, PrivacyAccountant
from fedlearn.private_trees.binning import Grid
from fedlearn.private_trees.domain import Domain
from fedlearn.private_trees.nodes import NodeTable, union
from fedlearn.private_trees.numbers.growing import grow
from fedlearn.private_trees.numbers.leaves import smoothed_means
from fedlearn.private_trees.numbers.plan import TreePlan, greedy_levels_for, plan_for
from fedlearn.private_trees.numbers.randomness import part_sources
from fedlearn.private_trees.numbers.regressor import PrivateRegressor, released_number
from fedlearn.private_trees.numbers.training_set import TrainingSet
from fedlearn.private_trees.parameters import Rule, at_least
from fedlearn.private_trees.predicting import predict
from fedlearn.private_trees.weights import refuse_weights

FloatArray = NDArray[np.float64]

CLIP = 0.12  # of the width of the target bounds: residuals beyond count as this far
STEP = 0.5  # share of a tree that is added, after turn 0, which is added whole
OFFSET = 6.5  # see plan.greedy_levels_for; the residuals say less than the targets
SMALLEST = 16.0  # likewise: a boosted tree need not be fine
RANDOM_LEVELS = 2


def relay_plan(epsilon: float, n: float) -> TreePlan:
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
    plan: TreePlan,
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
    residual = np.clip(y, low, high) - (center_of(domain) if ensemble is None else relay_predict(ensemble, X, domain))
    reach = (high - low) * (0.5 if ensemble is None else CLIP)  # of residuals, either way
    unit = (np.clip(residual, -reach, reach) + reach) / (2 * reach)
    rows = TrainingSet(X, y, domain, grid).rows(unit, np.zeros(len(y), np.int64), 1)
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


def _check_received(ensemble: NodeTable, domain: Domain) -> None:
    """Refuse what is no sum of relay trees: who sent it may wish a record to count for more than it does.

    A value that is no number would be a residual that is none, and residuals are what a record weighs.
    """
    bounds = [relay_value_bounds(domain, is_first=is_first) for is_first in (True, False)]
    rounding = 1e-9 * (domain.target_bounds[1] - domain.target_bounds[0])
    low, high = min(low for low, _ in bounds) - rounding, max(high for _, high in bounds) + rounding
    ensemble.validate(num_features=domain.num_features, value_bounds=(low, high))


def center_of(domain: Domain) -> float:
    """Return the middle of the target bounds, from which the first residuals are counted."""
    return sum(domain.target_bounds) / 2


@dataclass(kw_only=True, eq=False, repr=False)
class DPRelayForest(PrivateRegressor):
    """Relay boosting on one machine: rows are given to nodes, which take their turns in order.

    Pure epsilon, add or remove one record: each record is used in one turn.

    Parameters
    ----------
    n_nodes : int, default=25
        Number of nodes, and of turns; 1 or more.
    epsilon : float, default=1.0
        What the fit spends, in nats; above 0. ``math.inf``: no noise.
    bounds : tuple, sequence of tuples or mapping, default=None
        Declared range of the numeric features, never learned from the data: ``(low, high)`` for all of them, one pair
        for each, or a mapping from a feature's name or position to its pair. A third member, ``"log"``, spaces the
        thresholds evenly in the logarithm. Values outside are clipped.
    target_bounds : tuple of two floats, default=None
        Declared range of the target; values outside are clipped. Needed, like `bounds`, unless `bounds_from_data`.
    categories : mapping or sequence of int, default=None
        Number of categories by the feature's name or position, or one number for each feature, 0 = numeric. Values are
        codes 0 .. k - 1 and are split in that order.
    n_declared : float or None, default=None
        Number of records, where it is public. None: 2 % of epsilon release it.
    candidates : int, default=40
        Thresholds of each numeric feature, 1 to 254.
    missing : {"wp", "drop"}, default="wp"
        ``"wp"``: a record that lacks a value goes to both children, with half its weight each. ``"drop"``: it is left
        out.
    noise : {"secure", "seeded"}, default="secure"
        ``"secure"``: from the operating system. ``"seeded"``: reproducible, protects nobody, needs `random_state`.
    random_state : int, Generator, SeedSequence, RandomState or None, default=None
        Seed of seeded noise, and of all that needs no protection.
    accountant : PrivacyAccountant or None, default=None
        Account to spend from; it is asked before the data is touched. None: one of its own, with a budget of epsilon.
    bounds_from_data : bool, default=False
        Read all bounds from the data, with a warning: *not private*, and ``privacy_spent_`` says an infinite epsilon.

    Attributes
    ----------
    table_ : NodeTable
        The trees, one of each turn; a prediction is the sum over them; all of it may be published.
    plan_ : TreePlan
        Levels of each tree and what each of them spent.
    domain_ : Domain
        What was declared.
    privacy_spent_ : PrivacySpent
        What the account has spent, line by line.
    notice_ : str
        What every result must say about this fit, as that its noise protects nobody; empty if there is nothing to say.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where X had names.

    References
    ----------
    .. [1] Friedman 2001, doi:10.1214/aos/1013203451: gradient boosting; turns and privacy are ours.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (2000, 2))
    >>> y = X[:, 0] / 10
    >>> relay = DPRelayForest(
    ...     n_nodes=4, epsilon=4.0, bounds=(0, 10), target_bounds=(0, 1), noise="seeded", random_state=0
    ... ).fit(X, y)
    >>> round(relay.privacy_spent_.epsilon, 9), relay.table_.num_trees
    (4.0, 4)
    >>> relay.predict([[1.0, 5.0], [9.0, 5.0]]).round(1)
    array([0.1, 0.9])
    """

    n_nodes: int = 25
    epsilon: float = 1.0
    bounds: Any = None
    target_bounds: Any = None
    categories: Any = None
    n_declared: float | None = None
    candidates: int = 40
    missing: str = "wp"
    noise: str = "secure"
    random_state: Any = None
    accountant: PrivacyAccountant | None = None
    bounds_from_data: bool = False

    rules: ClassVar[dict[str, Rule]] = {**PrivateRegressor.rules, "n_nodes": at_least(1)}

    def fit(self, X: ArrayLike, y: ArrayLike, *, parts: ArrayLike | None = None, **not_taken: Any) -> Self:
        """Let the nodes take their turns; the accountant is asked before the data is touched.

        Parameters
        ----------
        X : array-like or DataFrame of shape (rows, features)
            NaN = missing; categorical features hold their codes 0 .. k - 1.
        y : array-like of shape (rows,)
            Values outside the target bounds are clipped.
        parts : array-like of shape (rows,) or None, default=None
            The node 0 .. n_nodes - 1 that holds each row; turns are in the nodes' order; a row of no such node is left
            out. A record's node must not depend on other records. None: at random, each row independently of all
            others.

        Returns
        -------
        self

        Raises
        ------
        BudgetExceeded
            If the account does not cover epsilon; nothing is booked and no data touched.
        ValueError
            If a parameter is out of its range, or X, y and parts are not as they were declared.
        """
        refuse_weights(not_taken, owner=type(self).__name__)
        return self._fit(X, y, parts)

    def _num_parts(self) -> int:
        return int(self.n_nodes)

    def _predict(self, X: FloatArray) -> FloatArray:
        return relay_predict(self.table_, X, self.domain_)

    def _grow(
        self, training: TrainingSet, accountant: PrivacyAccountant, noise: Noise, rng: np.random.Generator
    ) -> NodeTable:
        node_of_row = training.parts(self.n_nodes, rng, is_secure=noise.is_secure)
        n, epsilon = released_number(
            training, epsilon=self.epsilon, declared=self.n_declared, accountant=accountant, noise=noise
        )
        self.plan_ = relay_plan(epsilon, n / self.n_nodes)
        self.plan_.spend_from(accountant, is_secure=noise.is_secure)  # once: the turns use disjoint records
        ensemble: NodeTable | None = None
        for turn in range(self.n_nodes):
            here = node_of_row == turn
            own_noise, own_rng = part_sources(self.noise, self.random_state, turn)
            tree = grow_relay_tree(
                ensemble,
                training.X[here],
                training.y[here],
                domain=training.domain,
                plan=self.plan_,
                noise=own_noise,
                rng=own_rng,
                candidates=self.candidates,
            )
            ensemble = add_turn(ensemble, tree)
        assert ensemble is not None
        return ensemble


@dataclass(kw_only=True, eq=False, repr=False)
class RelayTurn(PrivateRegressor):
    """The tree of one node's turn in a relay; `DPRelayForest` takes all turns in one place.

    Pure epsilon, add or remove one of this node's records. Predictions are those of this one tree, a step on what the
    ensemble still gets wrong; those of the ensemble are `relay_predict`'s.

    Parameters
    ----------
    ensemble : NodeTable or None, default=None
        The sum of trees that was received; None: this is the first turn.
    epsilon : float, default=1.0
        What the fit spends, in nats; above 0. ``math.inf``: no noise.
    bounds : tuple, sequence of tuples or mapping, default=None
        Declared range of the numeric features, never learned from the data: ``(low, high)`` for all of them, one pair
        for each, or a mapping from a feature's name or position to its pair. A third member, ``"log"``, spaces the
        thresholds evenly in the logarithm. Values outside are clipped.
    target_bounds : tuple of two floats, default=None
        Declared range of the target; values outside are clipped. Needed, like `bounds`, unless `bounds_from_data`.
    categories : mapping or sequence of int, default=None
        Number of categories by the feature's name or position, or one number for each feature, 0 = numeric. Values are
        codes 0 .. k - 1 and are split in that order.
    n_declared : float or None, default=None
        Number of records, where it is public. None: 2 % of epsilon release it.
    candidates : int, default=40
        Thresholds of each numeric feature, 1 to 254.
    missing : {"wp", "drop"}, default="wp"
        ``"wp"``: a record that lacks a value goes to both children, with half its weight each. ``"drop"``: it is left
        out.
    noise : {"secure", "seeded"}, default="secure"
        ``"secure"``: from the operating system. ``"seeded"``: reproducible, protects nobody, needs `random_state`.
    random_state : int, Generator, SeedSequence, RandomState or None, default=None
        Seed of seeded noise, and of all that needs no protection.
    accountant : PrivacyAccountant or None, default=None
        Account to spend from; it is asked before the data is touched. None: one of its own, with a budget of epsilon.
    bounds_from_data : bool, default=False
        Read all bounds from the data, with a warning: *not private*, and ``privacy_spent_`` says an infinite epsilon.

    Attributes
    ----------
    table_ : NodeTable
        The tree; all of it may be published.
    plan_ : TreePlan
        Levels of the tree and what each of them spent.
    domain_ : Domain
        What was declared.
    privacy_spent_ : PrivacySpent
        What the account has spent, line by line.
    notice_ : str
        What every result must say about this fit, as that its noise protects nobody; empty if there is nothing to say.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where X had names.

    References
    ----------
    .. [1] Friedman 2001, doi:10.1214/aos/1013203451: gradient boosting; turns and privacy are ours.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (2000, 2))
    >>> y = X[:, 0] / 10
    >>> declared = {"bounds": (0, 10), "target_bounds": (0, 1), "noise": "seeded", "random_state": 0}
    >>> first = RelayTurn(**declared).fit(X[::2], y[::2])
    >>> second = RelayTurn(ensemble=first.table_, **declared).fit(X[1::2], y[1::2])
    >>> both = add_turn(first.table_, second.table_)
    >>> relay_predict(both, np.array([[1.0, 5.0], [9.0, 5.0]]), first.domain_).round(1)
    array([0.1, 0.9])
    """

    ensemble: NodeTable | None = None
    epsilon: float = 1.0
    bounds: Any = None
    target_bounds: Any = None
    categories: Any = None
    n_declared: float | None = None
    candidates: int = 40
    missing: str = "wp"
    noise: str = "secure"
    random_state: Any = None
    accountant: PrivacyAccountant | None = None
    bounds_from_data: bool = False

    def _grow(
        self, training: TrainingSet, accountant: PrivacyAccountant, noise: Noise, rng: np.random.Generator
    ) -> NodeTable:
        if self.ensemble is not None:
            _check_received(self.ensemble, training.domain)
        n, epsilon = released_number(
            training, epsilon=self.epsilon, declared=self.n_declared, accountant=accountant, noise=noise
        )
        self.plan_ = relay_plan(epsilon, n)
        self.plan_.spend_from(accountant, is_secure=noise.is_secure)
        return grow_relay_tree(
            self.ensemble,
            training.X,
            training.y,
            domain=training.domain,
            plan=self.plan_,
            noise=noise,
            rng=rng,
            candidates=self.candidates,
        )
