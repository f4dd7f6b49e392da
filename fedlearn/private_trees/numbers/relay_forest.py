"""Estimators of relay boosting: all nodes in one place, and the tree of a single node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.privacy import Noise, PrivacyAccountant
from fedlearn.private_trees.nodes import NodeTable
from fedlearn.private_trees.numbers.randomness import part_sources
from fedlearn.private_trees.numbers.regressor import PrivateRegressor, released_number
from fedlearn.private_trees.numbers.relay import add_tree, check_received, grow_relay_tree, relay_plan, relay_predict
from fedlearn.private_trees.numbers.training_set import TrainingSet
from fedlearn.private_trees.parameters import Rule, at_least
from fedlearn.private_trees.weights import refuse_weights

FloatArray = NDArray[np.float64]


@dataclass(kw_only=True, eq=False, repr=False)
class DPRelayForest(PrivateRegressor):
    """Relay boosting on one machine: rows are divided over nodes, which add a tree each, one node a round.

    Pure epsilon, add or remove one record: each record is used in one round.

    Parameters
    ----------
    n_nodes : int, default=25
        Number of nodes, and of rounds; 1 or more.
    epsilon : float, default=1.0
        Privacy loss of the fit, in nats; above 0. ``math.inf``: no noise.
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
        Number of records, if it is public. None: a noisy number is released for 2 % of epsilon.
    candidates : int, default=40
        Thresholds of each numeric feature, 1 to 254.
    missing : {"wp", "drop"}, default="wp"
        ``"wp"`` (weight partition): a record without the value goes to both children, with half its weight each.
        ``"drop"``: incomplete records are left out.
    noise : {"secure", "seeded"}, default="secure"
        ``"secure"``: from the operating system. ``"seeded"``: reproducible, gives no privacy, needs `random_state`.
    random_state : int, Generator, SeedSequence, RandomState or None, default=None
        Seed of seeded noise, and of the draws that need no protection.
    accountant : PrivacyAccountant or None, default=None
        Account that pays; it is checked before the data is read. None: a new account with a budget of epsilon.
    bounds_from_data : bool, default=False
        Whether to read all bounds from the data, with a warning: *not private*; ``privacy_spent_`` has an infinite
        epsilon.

    Attributes
    ----------
    table_ : NodeTable
        The trees, one of each round; a prediction is the sum over them; all of it may be published.
    plan_ : TreePlan
        Levels of each tree, and the epsilon of each level.
    domain_ : Domain
        The declared domain.
    privacy_spent_ : PrivacySpent
        Spending of the account, line by line.
    notice_ : str
        Warning that belongs beside every result, for example that the noise is seeded; empty if there is none.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where X had names.

    References
    ----------
    .. [1] Friedman 2001, doi:10.1214/aos/1013203451: gradient boosting; rounds of nodes and privacy are ours.

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

    ranges: ClassVar[dict[str, Rule]] = {**PrivateRegressor.ranges, "n_nodes": at_least(1)}

    def fit(self, X: ArrayLike, y: ArrayLike, *, parts: ArrayLike | None = None, **not_taken: Any) -> Self:
        """Grow one tree a round, node after node; the account is checked before the data is read.

        Parameters
        ----------
        X : array-like or DataFrame of shape (rows, features)
            Records. NaN is a missing value; categorical features hold codes 0 .. k - 1.
        y : array-like of shape (rows,)
            Targets. Values outside the target bounds are clipped.
        parts : array-like of shape (rows,) or None, default=None
            The node 0 .. n_nodes - 1 of each row; round r is that of node r - 1. Rows of other nodes are left out. A
            record's node must not depend on other records. None: random nodes, each row independently of all others.

        Returns
        -------
        self

        Raises
        ------
        BudgetExceeded
            If the account does not cover epsilon; nothing is booked and no data is read.
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
        self.plan_.spend_from(accountant, is_secure=noise.is_secure)  # once, as the rounds use disjoint records
        ensemble: NodeTable | None = None
        for node in range(self.n_nodes):
            here = node_of_row == node
            own_noise, own_rng = part_sources(self.noise, self.random_state, node)
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
            ensemble = add_tree(ensemble, tree)
        assert ensemble is not None
        return ensemble


@dataclass(kw_only=True, eq=False, repr=False)
class DPRelayTree(PrivateRegressor):
    """The tree of one node in a relay, grown in its round; `DPRelayForest` does all rounds in one place.

    Pure epsilon, add or remove one of this node's records. `predict` returns the values of this tree alone, a step on
    the residuals of the ensemble; `relay_predict` returns the ensemble's predictions.

    Parameters
    ----------
    ensemble : NodeTable or None, default=None
        Received sum of trees; None in round 1.
    epsilon : float, default=1.0
        Privacy loss of the fit, in nats; above 0. ``math.inf``: no noise.
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
        Number of records, if it is public. None: a noisy number is released for 2 % of epsilon.
    candidates : int, default=40
        Thresholds of each numeric feature, 1 to 254.
    missing : {"wp", "drop"}, default="wp"
        ``"wp"`` (weight partition): a record without the value goes to both children, with half its weight each.
        ``"drop"``: incomplete records are left out.
    noise : {"secure", "seeded"}, default="secure"
        ``"secure"``: from the operating system. ``"seeded"``: reproducible, gives no privacy, needs `random_state`.
    random_state : int, Generator, SeedSequence, RandomState or None, default=None
        Seed of seeded noise, and of the draws that need no protection.
    accountant : PrivacyAccountant or None, default=None
        Account that pays; it is checked before the data is read. None: a new account with a budget of epsilon.
    bounds_from_data : bool, default=False
        Whether to read all bounds from the data, with a warning: *not private*; ``privacy_spent_`` has an infinite
        epsilon.

    Attributes
    ----------
    table_ : NodeTable
        The tree; all of it may be published.
    plan_ : TreePlan
        Levels of the tree, and the epsilon of each.
    domain_ : Domain
        The declared domain.
    privacy_spent_ : PrivacySpent
        Spending of the account, line by line.
    notice_ : str
        Warning that belongs beside every result, for example that the noise is seeded; empty if there is none.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where X had names.

    References
    ----------
    .. [1] Friedman 2001, doi:10.1214/aos/1013203451: gradient boosting; rounds of nodes and privacy are ours.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (2000, 2))
    >>> y = X[:, 0] / 10
    >>> declared = {"bounds": (0, 10), "target_bounds": (0, 1), "noise": "seeded", "random_state": 0}
    >>> first = DPRelayTree(**declared).fit(X[::2], y[::2])
    >>> second = DPRelayTree(ensemble=first.table_, **declared).fit(X[1::2], y[1::2])
    >>> both = add_tree(first.table_, second.table_)
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
            check_received(self.ensemble, training.domain)
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
