"""Relay boosting as a model: a sum of private regression trees, each grown by another node on what those before left.

Sources and proofs: `fedlearn.private_trees.numbers.relay`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.data.base import DataSpec
from fedlearn.private_trees.federated.models.forest import ForestModel, ForestRegressor, Kind
from fedlearn.private_trees.numbers.relay import relay_predict, relay_value_bounds
from fedlearn.private_trees.numbers.relay_forest import DPRelayTree
from fedlearn.words.state import Layout, State


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


def dp_relay(spec: DataSpec, options: Mapping[str, Any]) -> ForestModel:
    """Return relay boosting, one tree of each node."""
    return Kind(RelayRegressor, f"{DPRelayTree.__module__}:DPRelayTree", False).of("dp-relay", spec, options)
