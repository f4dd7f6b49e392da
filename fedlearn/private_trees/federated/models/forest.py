"""Ensembles of differentially private trees as models: the seam between `fedlearn.private_trees` and our named arrays.

A state holds the columns of a `NodeTable` under their own names. There is one difference: where a node has no threshold
(leaves, and categorical nodes, whose children are numbered by category) the table has NaN, the state has 0, so that a
state is finite like that of any other model. Before round 1 it holds no tree, and the prediction is the middle of
the target's bounds, or every class alike.

Everything that an estimator must know before it sees data comes from the data set's schema; `model.options` sets its
other parameters.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedlearn.config import RunConfig
from fedlearn.data.base import DataSpec, Examples, TableSchema
from fedlearn.models.base import Evaluation
from fedlearn.models.measuring import of_classes, of_numbers
from fedlearn.plugging.options import options_for
from fedlearn.plugging.registry import load_reference
from fedlearn.private_trees.binning import MISSING
from fedlearn.private_trees.classes.encoding import Encoding
from fedlearn.private_trees.domain import Domain
from fedlearn.private_trees.nodes import DTYPES, LEAF, NodeTable
from fedlearn.private_trees.numbers.plan import plan_for
from fedlearn.private_trees.numbers.relay import center_of
from fedlearn.private_trees.numbers.trees import predict_target
from fedlearn.private_trees.predicting import predict
from fedlearn.words.errors import Refused, SettingError
from fedlearn.words.metrics import PRIVATE_CLASSIFIER, PRIVATE_REGRESSOR
from fedlearn.words.state import Array, Layout, State, UpdateKind

NOT_FOR_USERS = {
    "epsilon", "noise", "random_state", "accountant", "bounds_from_data", "n_declared", "ensemble", "max_weight",
    "category_order",
}  # fmt: skip
"""Parameters of estimators that other settings decide, or that would not be private."""
VOTING = {"max_depth": 2, "leaf": "label"}
"""In a union many small trees vote. Where each node has seen one side of the data, counts carry its own shares of the
classes into the mean, and labels do not: so models do not follow the estimators' rule."""
MANY, FEW, NONE = (
    {"n_estimators": trees, "max_depth": depth} for trees, depth in ((10, 3), (3, 2), (1, 0))
)  # random trees of a node: where there is enough; little; hardly anything but the shares of the classes
ENOUGH, FEWEST = 4000, 4  # epsilon times records of a node, from which on it has many trees, or few
USUAL = 1000  # records of a node that has not declared how many it may have
BINS = 8  # into which classifiers, which take categories only, sort a number; public, from the declared bounds


def state_of(table: NodeTable) -> dict[str, Array]:
    """Return the state that holds these trees."""
    arrays = table.to_arrays()
    return {**arrays, "threshold": np.where(np.isnan(table.threshold), 0.0, table.threshold)}


def empty_state(outputs: int) -> dict[str, Array]:
    """Return the state that holds no tree."""
    return {name: np.zeros((0, outputs) if name == "value" else (0,), dtype) for name, dtype in DTYPES.items()}


class ForestModel(ABC):
    """What regression and classification have in common.

    Parameters
    ----------
    estimator
        ``module:Class`` of the estimator that grows a node's trees.
    options
        The user's choice of its parameters.
    """

    update_kind = UpdateKind.ENSEMBLE
    learner = "tree"
    sizes: Sequence[int] | None = None  # of each feature, how many categories; None: all tests are against thresholds
    sums = False  # whether the prediction is the sum over the trees; else their weighted mean
    outputs = 1
    counts_records = False  # whether the estimator wants to know how many there are, and pays for it unless it is told

    def __init__(self, estimator: str, schema: TableSchema, options: Mapping[str, Any]) -> None:
        self._build = load_reference(estimator)
        self.schema = schema
        self.options = options
        options_for(
            self._build, options, setting="model.options", reserved={*self.declared(), *NOT_FOR_USERS}
        )  # checked only: estimators read them themselves
        self.trees_of_a_node = int(self._build(**options).get_params().get("n_estimators", 1))

    def initial_state(self, *, seed: int) -> State:
        """Return the empty ensemble, whatever the seed."""
        return empty_state(self.outputs)

    def estimator(self, state: State, **parameters: Any) -> Any:
        """Return the estimator with what the schema declares, the user's options, and what the run decides."""
        return self._build(**self.options, **self.declared(), **self.given(state), **parameters)

    @abstractmethod
    def declared(self) -> dict[str, Any]:
        """Return what the schema says, as parameters of the estimator."""

    def table_of(self, state: State) -> NodeTable:
        """Return the trees of a state, with NaN again where there is no threshold."""
        feature, threshold = state["feature"], state["threshold"]
        unused = feature == LEAF
        if self.sizes is not None:
            known = (feature >= 0) & (feature < len(self.sizes))
            unused = unused | (np.asarray(self.sizes)[np.where(known, feature, 0)] > 0)
        return NodeTable.from_arrays({**state, "threshold": np.where(unused, np.nan, threshold)})

    def given(self, state: State) -> dict[str, Any]:
        """Return what the estimator is to know of the state that the node received."""
        return {}

    def check_members(self, arrays: State, *, before: Layout, max_depth: int, max_nodes: int) -> None:
        """Refuse trees that cannot have been grown under the schema and the options."""
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
        # A distribution of more than 1 would count as that many trees.
        if self.outputs > 1 and not np.allclose(table.value[table.is_leaf].sum(axis=1), 1, rtol=0, atol=1e-9):
            raise Refused("bad-value", "a leaf's distribution does not sum to 1")

    @abstractmethod
    def value_bounds(self, before: Layout) -> tuple[float, float]:
        """Return between which numbers every value of a tree lies that improves a state of this layout."""


class ForestRegressor(ForestModel):
    """Trees that predict a number; median leaves hold its distribution over even knots of its bounds.

    Parameters
    ----------
    estimator, schema, options
        As in `ForestModel`; the schema has bounds of its target.
    """

    metrics = PRIVATE_REGRESSOR
    counts_records = True

    def __init__(self, estimator: str, schema: TableSchema, options: Mapping[str, Any]) -> None:
        super().__init__(estimator, schema, options)
        self.domain = Domain.declare(num_features=len(schema.features), **self.declared())
        leaf = self._build(**options).get_params().get("leaf", "mean")
        self.outputs = plan_for(1.0, greedy_levels=0, random_levels=0).knots if leaf == "median" else 1

    def declared(self) -> dict[str, Any]:
        """Return bounds, categories (taken in their declared order) and target bounds."""
        schema = self.schema
        return {
            "bounds": dict(enumerate(schema.bounds.values())),
            "categories": {len(schema.bounds) + i: len(words) for i, words in enumerate(schema.categories.values())},
            "target_bounds": schema.target_bounds,
        }

    def value_bounds(self, before: Layout) -> tuple[float, float]:
        """Return the target's bounds, or those of a share."""
        return (0.0, 1.0) if self.outputs > 1 else self.domain.target_bounds

    def predict(self, state: State, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (rows,) predictions in the target's unit, inside its bounds."""
        if not len(state["root"]):
            return np.full(len(features), center_of(self.domain))
        return predict_target(self.table_of(state), features, self.domain)

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return the absolute error in the target's unit, and as a share of the width of its bounds."""
        return of_numbers(self.predict(state, examples.inputs), examples, self.domain.target_bounds)


class ForestClassifier(ForestModel):
    """Trees that predict a class; features are categories, numbers are sorted into `BINS` bins.

    Parameters
    ----------
    estimator, schema, options
        As in `ForestModel`; the schema has classes.
    """

    metrics = PRIVATE_CLASSIFIER

    def __init__(self, estimator: str, schema: TableSchema, options: Mapping[str, Any]) -> None:
        super().__init__(estimator, schema, options)
        self.outputs = len(schema.classes)
        declared = self.declared()
        self._encoding = Encoding.declare(
            len(schema.features), categories=declared["categories"], bins=declared["bins"]
        )
        self.sizes = [int(size) for size in self._encoding.sizes]

    def declared(self) -> dict[str, Any]:
        """Return categories, bins between the declared bounds, and classes."""
        schema = self.schema
        return {
            "bins": {i: _edges(*bound) for i, bound in enumerate(schema.bounds.values())},
            "bounds": None,
            "categories": {len(schema.bounds) + i: len(words) for i, words in enumerate(schema.categories.values())},
            "classes": tuple(range(len(schema.classes))),
        }

    def value_bounds(self, before: Layout) -> tuple[float, float]:
        """Return those of a share."""
        return 0.0, 1.0

    def shares(self, state: State, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (rows, classes) what the trees say of each class, 1 in all."""
        if not len(state["root"]):
            return np.full((len(features), self.outputs), 1 / self.outputs)
        codes = self._encoding.encode(features)
        coded = np.where(codes == MISSING, np.nan, codes)
        votes = predict(self.table_of(state), coded)
        total = votes.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(votes, total, out=np.full_like(votes, 1 / self.outputs), where=total > 0))

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return cross-entropy and accuracy."""
        return of_classes(self.shares(state, examples.inputs), examples)


def _edges(low: float, high: float, scale: str = "linear") -> list[float]:
    """Return the edges between `BINS` bins of equal width, in the logarithm for heavy tails."""
    edges = np.geomspace(low, high, BINS + 1) if scale == "log" else np.linspace(low, high, BINS + 1)
    return [float(edge) for edge in edges[1:-1]]


@dataclass(frozen=True, slots=True)
class Kind:
    """Which trees a model is made of, and what they predict."""

    model: type[ForestModel]
    estimator: str
    wants_classes: bool

    def of(self, name: str, spec: DataSpec, options: Mapping[str, Any]) -> ForestModel:
        """Return the model for a data set, if it is one of the right kind."""
        kind, known = ("classes", "adult") if self.wants_classes else ("numbers", "california, diabetes")
        if spec.table is None:
            raise SettingError("model.name", name, f"it learns from tables, and {spec.name!r} holds images")
        if bool(spec.classes) != self.wants_classes:
            target = f"{spec.table.target!r} of {spec.name!r}"
            raise SettingError(
                "model.name", name, f"the target {target} does not fit; it predicts {kind}: {known}, or a .toml file"
            )
        return self.model(self.estimator, spec.table, options)


def dp_forest(spec: DataSpec, options: Mapping[str, Any]) -> ForestModel:
    """Return private regression trees, one of each node."""
    return Kind(ForestRegressor, "fedlearn.private_trees.numbers.regression:DPEnsembleTree", False).of(
        "dp-forest", spec, options
    )


def dp_classifier(spec: DataSpec, options: Mapping[str, Any]) -> ForestModel:
    """Return private ID3 trees, one of each node."""
    kind = Kind(ForestClassifier, "fedlearn.private_trees.classes.classification:DPClassificationTree", True)
    return kind.of("dp-classifier", spec, VOTING | dict(options))


class RandomForest(ForestClassifier):
    """Random decision trees, as many and as deep as a node's declared records and its epsilon can pay for.

    A run of which nothing is known counts as one of many records.
    """

    def __init__(self, estimator: str, schema: TableSchema, options: Mapping[str, Any]) -> None:
        self._given = options
        super().__init__(estimator, schema, MANY | dict(options))

    def planned(self, config: RunConfig) -> Self:
        """Return the model of a run with these settings."""
        declared, preset = config.gate.max_examples, RunConfig().gate.max_examples
        worth = config.privacy.epsilon * (declared if declared != preset else USUAL)
        size = MANY if worth >= ENOUGH else FEW if worth >= FEWEST else NONE
        made = copy.copy(self)
        made.options = size | dict(self._given)
        made.trees_of_a_node = int(made.options["n_estimators"])
        return made


def dp_random_forest(spec: DataSpec, options: Mapping[str, Any]) -> ForestModel:
    """Return random decision trees with private leaves, a small forest of each node."""
    kind = Kind(RandomForest, "fedlearn.private_trees.classes.random_forest:DPRandomForestClassifier", True)
    return kind.of("dp-random-forest", spec, options)


def pf_forest(spec: DataSpec, options: Mapping[str, Any]) -> ForestModel:
    """Return permute-and-flip trees, a small forest of each node."""
    kind = Kind(ForestClassifier, "fedlearn.private_trees.classes.permute_and_flip_forest:PermuteAndFlipForest", True)
    return kind.of("pf-forest", spec, VOTING | {"n_estimators": 3} | dict(options))
