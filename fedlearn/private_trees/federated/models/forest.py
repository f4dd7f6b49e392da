"""Forests of differentially private trees as models: a `NodeTable` as the named arrays of a state, and back.

A state holds the columns of a `NodeTable` under their own names, with one difference. Where a node has no threshold
(leaves, and categorical nodes, whose children are numbered by category) the table holds NaN and the state 0, so that a
state is finite like that of any other model. Before round 1 a state holds no tree; the prediction is then the middle of
the target's bounds, or equal shares of all classes.

The data set's schema gives an estimator all that it must know before it sees data; `model.options` sets its other
parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedlearn.core.errors import Refused
from fedlearn.core.state import Array, Layout, State, UpdateKind
from fedlearn.data.data_spec import DataSpec, TableSchema
from fedlearn.models.models_of_tables import table_of
from fedlearn.plugins.options import options_for
from fedlearn.plugins.registry import load_reference
from fedlearn.private_trees.federated.models.fitted_forest import FittedForest
from fedlearn.private_trees.federated.models.table_checks import wrong_target
from fedlearn.private_trees.node_table import DTYPES, LEAF, NodeTable

NOT_FOR_USERS = {
    "epsilon", "noise", "random_state", "accountant", "bounds_from_data", "n_declared", "ensemble", "max_weight",
    "category_order",
}  # fmt: skip
"""Parameters of estimators that other settings set, or that would not be private."""


def state_of(table: NodeTable) -> dict[str, Array]:
    """Return the state that holds the trees of a table."""
    arrays = table.to_arrays()
    return {**arrays, "threshold": np.where(np.isnan(table.threshold), 0.0, table.threshold)}


def empty_state(outputs: int) -> dict[str, Array]:
    """Return the state that holds no tree; each leaf will have this many outputs."""
    return {name: np.zeros((0, outputs) if name == "value" else (0,), dtype) for name, dtype in DTYPES.items()}


class ForestModel(ABC):
    """Base class of forests for regression and classification.

    Parameters
    ----------
    estimator
        ``module:Class`` of the estimator that grows a node's trees.
    schema
        Declared columns and target of the table.
    options
        Parameters of the estimator that the user has set.
    """

    update_kind = UpdateKind.ENSEMBLE
    learner = "tree"
    sizes: Sequence[int] | None = None  # number of categories of each feature; None: all tests are against thresholds
    sums = False  # whether the prediction is the sum over the trees; else their weighted mean
    outputs = 1
    counts_records = False  # whether the estimator pays for the number of records unless it is given as n_declared

    def __init__(self, estimator: str, schema: TableSchema, options: Mapping[str, Any]) -> None:
        self._build = load_reference(estimator)
        self.schema = schema
        self.options = options
        options_for(
            self._build, options, setting="model.options", reserved={*self.declared(), *NOT_FOR_USERS}
        )  # only checked: the estimator converts its own parameters
        self.trees_of_a_node = int(self._build(**options).get_params().get("n_estimators", 1))

    def initial_state(self, *, seed: int) -> State:
        """Return the state without trees; the seed makes no difference."""
        return empty_state(self.outputs)

    def estimator(self, state: State, **parameters: Any) -> Any:
        """Return the estimator, with the schema's declarations, the user's options and the run's own parameters."""
        return self._build(**self.options, **self.declared(), **self.given(state), **parameters)

    @abstractmethod
    def declared(self) -> dict[str, Any]:
        """Return the schema's declarations, as parameters of the estimator."""

    def table_of(self, state: State) -> NodeTable:
        """Return the trees of a state as a table, with NaN where a node has no threshold."""
        feature, threshold = state["feature"], state["threshold"]
        unused = feature == LEAF
        if self.sizes is not None:
            known = (feature >= 0) & (feature < len(self.sizes))
            unused = unused | (np.asarray(self.sizes)[np.where(known, feature, 0)] > 0)
        return NodeTable.from_arrays({**state, "threshold": np.where(unused, np.nan, threshold)})

    def checked_table_of(self, state: State) -> NodeTable:
        """Return `table_of` a stored state, which others may have written; raise `Refused` where it holds no trees.

        Following the children of such a table might have no end, or lead out of its arrays.
        """
        table = self.table_of(state)
        if table.num_trees:
            table.validate(num_features=len(self.schema.features), outputs=self.outputs, categories=self.sizes)
        return table

    def given(self, state: State) -> dict[str, Any]:
        """Return the parameters that the estimator takes from the state that the node received."""
        return {}

    def check_members(self, arrays: State, *, before: Layout, max_depth: int, max_nodes: int) -> None:
        """Raise `Refused` for trees that cannot have been grown under the schema and the options."""
        checked = NodeTable.from_arrays(arrays)
        if checked.threshold.shape != checked.feature.shape:
            raise Refused("wrong-shape", "columns 'feature' and 'threshold' are not equally long")
        table = self.table_of(arrays)
        if not np.isfinite(checked.threshold).all() or checked.threshold[np.isnan(table.threshold)].any():
            raise Refused("bad-threshold", "a threshold is not finite, or stands where none belongs")
        table.validate(
            num_features=len(self.schema.features), outputs=self.outputs, value_bounds=self.value_bounds(before),
            max_depth=max_depth, max_nodes=max_nodes, max_trees=self.trees_of_a_node, categories=self.sizes,
        )  # fmt: skip
        # A distribution that sums to k would count as k trees.
        if self.outputs > 1 and not np.allclose(table.value[table.is_leaf].sum(axis=1), 1, rtol=0, atol=1e-9):
            raise Refused("bad-value", "a leaf's distribution does not sum to 1")

    @abstractmethod
    def fitted(self, state: State) -> FittedForest:
        """Return the forest with the trees of a state, to be read like a fitted estimator."""

    @abstractmethod
    def value_bounds(self, before: Layout) -> tuple[float, float]:
        """Return the bounds of all values of a tree that is added to a state of this layout."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The class of a forest model, its estimator, and whether its target must be classes."""

    model: type[ForestModel]
    estimator: str
    wants_classes: bool

    def model_for(self, name: str, spec: DataSpec, options: Mapping[str, Any]) -> ForestModel:
        """Return the model for a data set; raise `SettingError` where its target is of the other kind."""
        table = table_of(name, spec)
        if bool(spec.classes) != self.wants_classes:
            raise wrong_target(name, spec, predicts="classes" if self.wants_classes else "numbers")
        return self.model(self.estimator, table, options)
