"""Relay boosting as a model: a sum of private regression trees, each grown by another node on what those before left.

Sources and proofs: `fedlearn.trees.numbers.relay`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.data.base import AnyDataset
from fedlearn.models.forest import ForestModel, ForestRegressor, Kind
from fedlearn.privacy import Noise, PrivacyAccountant
from fedlearn.state import Layout, State
from fedlearn.trees.nodes import NodeTable
from fedlearn.trees.numbers.regressor import PrivateRegressor, Records
from fedlearn.trees.numbers.relay import grow_relay_tree, relay_plan, relay_predict, relay_value_bounds


class RelayTurn(PrivateRegressor):
    """The tree of one node's turn, as an estimator.

    Parameters
    ----------
    ensemble
        The sum of trees that was received; None at the first turn.
    epsilon, bounds, target_bounds, categories, n_declared, candidates, missing, noise, random_state, accountant
        As in `DPRegressionTree`; ``n_declared`` is the number of this node's records.
    bounds_from_data
        Likewise.
    """

    def __init__(
        self,
        *,
        ensemble: NodeTable | None = None,
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
        self.ensemble = ensemble
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

    def _grow(
        self, records: Records, accountant: PrivacyAccountant, noise: Noise, rng: np.random.Generator
    ) -> NodeTable:
        n, epsilon = self._number_of_records(records, accountant, noise)
        plan = relay_plan(epsilon, n)
        plan.spend_from(accountant, is_secure=noise.is_secure)
        return grow_relay_tree(
            self.ensemble, records.X, records.y,
            domain=records.domain, plan=plan, noise=noise, rng=rng, candidates=self.candidates,
        )  # fmt: skip


class RelayRegressor(ForestRegressor):
    """A sum of trees, clipped to the target's bounds."""

    sums = True

    def given(self, state: State) -> dict[str, Any]:
        """Return the ensemble that the next tree is to improve."""
        return {"ensemble": self.table_of(state) if len(state["root"]) else None}

    def value_bounds(self, before: Layout) -> tuple[float, float]:
        """Return those of a step on residuals; at the first turn, those of the target."""
        low, high = relay_value_bounds(self.domain, is_first=before["root"].shape == (0,))
        rounding = 1e-9 * (high - low)
        return low - rounding, high + rounding

    def predict(self, state: State, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (rows,) predictions in the target's unit, inside its bounds."""
        if not len(state["root"]):
            return super().predict(state, features)
        return relay_predict(self.table_of(state), features, self.domain)


def dp_relay(dataset: AnyDataset, options: Mapping[str, Any]) -> ForestModel:
    """Return relay boosting, one tree of each node."""
    return Kind(RelayRegressor, f"{RelayTurn.__module__}:RelayTurn", False).of("dp-relay", dataset, options)
