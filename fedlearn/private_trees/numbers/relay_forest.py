"""Estimators of relay boosting: all nodes in one place, and the tree of a single node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.privacy import Noise, PrivacyAccountant
from fedlearn.private_trees.described import described
from fedlearn.private_trees.node_table import NodeTable
from fedlearn.private_trees.numbers.randomness import part_sources
from fedlearn.private_trees.numbers.regressor import PrivateRegressor, released_number
from fedlearn.private_trees.numbers.relay import add_tree, check_received, grow_relay_tree, relay_plan, relay_predict
from fedlearn.private_trees.numbers.training_set import TrainingSet
from fedlearn.private_trees.parameters import Rule, at_least
from fedlearn.private_trees.weights import refuse_weights

FloatArray = NDArray[np.float64]


@described
@dataclass(kw_only=True, eq=False, repr=False)
class DPRelayForest(PrivateRegressor):
    """Relay boosting on one machine: rows are divided over nodes, which add a tree each, one node a round.

    Pure epsilon, add or remove one record: each record is used in one round.

    Parameters
    ----------
    n_nodes : int, default=25
        Number of nodes, and of rounds; 1 or more.

    Attributes
    ----------
    table_ : NodeTable
        The trees, one of each round; a prediction is the sum over them; all of it may be published.
    plan_ : TreePlan
        Levels of each tree, and the epsilon of each level.

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
    bounds: Any = None
    target_bounds: Any = None
    categories: Any = None
    n_declared: float | None = None
    candidates: int = 40
    missing: str = "wp"

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


@described
@dataclass(kw_only=True, eq=False, repr=False)
class DPRelayTree(PrivateRegressor):
    """The tree of one node in a relay, grown in its round; `DPRelayForest` does all rounds in one place.

    Pure epsilon, add or remove one of this node's records. `predict` returns the values of this tree alone, a step on
    the residuals of the ensemble; `relay_predict` returns the ensemble's predictions.

    Parameters
    ----------
    ensemble : NodeTable or None, default=None
        Received sum of trees; None in round 1.

    Attributes
    ----------
    table_ : NodeTable
        The tree; all of it may be published.
    plan_ : TreePlan
        Levels of the tree, and the epsilon of each.

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
    bounds: Any = None
    target_bounds: Any = None
    categories: Any = None
    n_declared: float | None = None
    candidates: int = 40
    missing: str = "wp"

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
