"""Relay boosting as a model: a sum of private regression trees, each grown by another node on the residuals so far.

Sources and proofs: `fedlearn.private_trees.numbers.relay`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.state import Layout, State
from fedlearn.data.data_spec import DataSpec
from fedlearn.private_trees.federated.models.forest import ForestModel, Kind
from fedlearn.private_trees.federated.models.forest_regression import ForestRegressor
from fedlearn.private_trees.numbers.relay import relay_predict, relay_value_bounds
from fedlearn.private_trees.numbers.relay_forest import DPRelayTree


class RelayRegressor(ForestRegressor):
    """A sum of trees, clipped to the target's bounds."""

    sums = True

    def given(self, state: State) -> dict[str, Any]:
        """Return the parameter ``ensemble``: the trees that the next tree is to improve, None before round 1."""
        return {"ensemble": self.table_of(state) if len(state["root"]) else None}

    def value_bounds(self, before: Layout) -> tuple[float, float]:
        """Return the bounds of a step on the residuals; in round 1, the bounds of the target."""
        low, high = relay_value_bounds(self.domain, is_first=before["root"].shape == (0,))
        rounding = 1e-9 * (high - low)
        return low - rounding, high + rounding

    def predict(self, state: State, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return predictions (rows,) in the target's unit, clipped to its bounds."""
        if not len(state["root"]):
            return super().predict(state, features)
        return relay_predict(self.table_of(state), features, self.domain)


def dp_relay(spec: DataSpec, options: Mapping[str, Any]) -> ForestModel:
    """Return the model ``dp-relay`` for a table with a number as target; raise `SettingError` for other data."""
    return Kind(RelayRegressor, f"{DPRelayTree.__module__}:DPRelayTree", False).model_for("dp-relay", spec, options)
