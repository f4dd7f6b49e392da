"""Forests that predict a number, as models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.metrics import PRIVATE_REGRESSOR
from fedlearn.core.state import Layout, State
from fedlearn.data.data_spec import DataSpec, Examples, TableSchema
from fedlearn.models.model import Evaluation
from fedlearn.models.torch.measuring import of_numbers
from fedlearn.private_trees.domain import Domain
from fedlearn.private_trees.federated.models.fitted_forest import FittedRegressor
from fedlearn.private_trees.federated.models.forest import ForestModel, Kind
from fedlearn.private_trees.numbers.planned_trees import predict_target, target_of_values
from fedlearn.private_trees.numbers.relay import center_of
from fedlearn.private_trees.numbers.tree_plan import plan_for


class ForestRegressor(ForestModel):
    """Trees that predict a number; a median leaf holds a distribution over even knots of the target's bounds.

    Parameters
    ----------
    estimator, schema, options
        As in `ForestModel`; the schema has bounds of the target.
    """

    metrics = PRIVATE_REGRESSOR
    counts_records = True

    def __init__(self, estimator: str, schema: TableSchema, options: Mapping[str, Any]) -> None:
        super().__init__(estimator, schema, options)
        self.domain = Domain.declare(num_features=len(schema.features), **self.declared())
        leaf = self._build(**options).get_params().get("leaf", "mean")
        self.outputs = plan_for(1.0, greedy_levels=0, random_levels=0).knots if leaf == "median" else 1

    def declared(self) -> dict[str, Any]:
        """Return bounds, categories (in their declared order) and target bounds, as parameters of the estimator."""
        schema = self.schema
        return {
            "bounds": dict(enumerate(schema.bounds.values())),
            "categories": {len(schema.bounds) + i: len(words) for i, words in enumerate(schema.categories.values())},
            "target_bounds": schema.target_bounds,
        }

    def value_bounds(self, before: Layout) -> tuple[float, float]:
        """Return the target's bounds; of median leaves 0 and 1, as they hold shares."""
        return (0.0, 1.0) if self.outputs > 1 else self.domain.target_bounds

    def predict(self, state: State, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return predictions (rows,) in the target's unit, inside its bounds."""
        if not len(state["root"]):
            return np.full(len(features), center_of(self.domain))
        return predict_target(self.table_of(state), features, self.domain)

    def fitted(self, state: State) -> FittedRegressor:
        """Return the forest with its trees; the value of a median leaf is its median, in the target's unit."""
        table = self.checked_table_of(state)
        if self.outputs > 1:
            table = replace(table, value=target_of_values(table.value, self.domain)[:, None])
        return FittedRegressor(self.schema, table, partial(self.predict, state))

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return the absolute error in the target's unit, and as a share of the width of its bounds."""
        return of_numbers(self.predict(state, examples.inputs), examples, self.domain.target_bounds)


def dp_forest(spec: DataSpec, options: Mapping[str, Any]) -> ForestModel:
    """Return the model ``dp-forest``: private regression trees, one of each node."""
    return Kind(ForestRegressor, "fedlearn.private_trees.numbers.regression:DPEnsembleTree", False).model_for(
        "dp-forest", spec, options
    )
