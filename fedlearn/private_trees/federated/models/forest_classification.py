"""Forests that predict a class, as models."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedlearn.config import RunConfig
from fedlearn.core.metrics import PRIVATE_CLASSIFIER
from fedlearn.core.state import Layout, State
from fedlearn.data.data_spec import DataSpec, Examples, TableSchema
from fedlearn.models.model import Evaluation
from fedlearn.models.torch.measuring import of_classes
from fedlearn.private_trees.binning import MISSING
from fedlearn.private_trees.classes.encoding import Encoding
from fedlearn.private_trees.federated.models.fitted_forest import FittedClassifier
from fedlearn.private_trees.federated.models.forest import ForestModel, Kind
from fedlearn.private_trees.predicting import predict

VOTING = {"max_depth": 2, "leaf": "label"}
"""Options of the models that differ from the estimators' defaults: in a union many small trees vote by labels.

Where a node has seen some classes only, leaves of counts would carry its own shares of the classes into the mean;
labels do not."""
MANY, FEW, NONE = (
    {"n_estimators": trees, "max_depth": depth} for trees, depth in ((10, 3), (3, 2), (1, 0))
)  # random trees of a node: with enough records; with few; with so few that only the shares of the classes are learned
ENOUGH, FEWEST = 4000, 4  # least epsilon times records of a node with `MANY`, and with `FEW` trees
USUAL = 1000  # records of a node that are assumed where ``gate.max_examples`` is not set
BINS = 8  # of a number, as classifiers take categories only; evenly spaced between the declared, public bounds


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
        """Return categories, edges of bins and classes, as parameters of the estimator."""
        schema = self.schema
        return {
            "bins": {i: _edges(*bound) for i, bound in enumerate(schema.bounds.values())},
            "bounds": None,
            "categories": {len(schema.bounds) + i: len(words) for i, words in enumerate(schema.categories.values())},
            "classes": tuple(range(len(schema.classes))),
        }

    def value_bounds(self, before: Layout) -> tuple[float, float]:
        """Return 0 and 1: each value is the share of a class."""
        return 0.0, 1.0

    def shares(self, state: State, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share of the trees' votes for each class, (rows, classes); each row sums to 1."""
        if not len(state["root"]):
            return np.full((len(features), self.outputs), 1 / self.outputs)
        codes = self._encoding.encode(features)
        coded = np.where(codes == MISSING, np.nan, codes)
        votes = predict(self.table_of(state), coded)
        total = votes.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(votes, total, out=np.full_like(votes, 1 / self.outputs), where=total > 0))

    def fitted(self, state: State) -> FittedClassifier:
        """Return the forest with its trees."""
        schema = self.schema
        bins = [self._encoding.words(feature, name) for feature, name in enumerate(schema.bounds)]
        categories = [[f"{name} = {word}" for word in words] for name, words in schema.categories.items()]
        return FittedClassifier(
            schema, self.checked_table_of(state), partial(self.shares, state), codes=[*bins, *categories]
        )

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return cross-entropy and accuracy on `examples`."""
        return of_classes(self.shares(state, examples.inputs), examples)


def _edges(low: float, high: float, scale: str = "linear") -> list[float]:
    """Return the inner edges of `BINS` bins of equal width, linear or in the logarithm (``"log"``)."""
    edges = np.geomspace(low, high, BINS + 1) if scale == "log" else np.linspace(low, high, BINS + 1)
    return [float(edge) for edge in edges[1:-1]]


def dp_classifier(spec: DataSpec, options: Mapping[str, Any]) -> ForestModel:
    """Return the model ``dp-classifier``: private ID3 trees, one of each node."""
    kind = Kind(ForestClassifier, "fedlearn.private_trees.classes.classification:DPClassificationTree", True)
    return kind.model_for("dp-classifier", spec, VOTING | dict(options))


class RandomForest(ForestClassifier):
    """Random decision trees, whose number and depth follow from epsilon times the declared records of a node.

    Before the settings of a run are known, a forest has `MANY` trees.
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
    """Return the model ``dp-random-forest``: random decision trees with private leaves, a small forest of each node."""
    kind = Kind(RandomForest, "fedlearn.private_trees.classes.random_forest:DPRandomForestClassifier", True)
    return kind.model_for("dp-random-forest", spec, options)


def pf_forest(spec: DataSpec, options: Mapping[str, Any]) -> ForestModel:
    """Return the model ``pf-forest``: permute-and-flip trees, a small forest of each node."""
    kind = Kind(ForestClassifier, "fedlearn.private_trees.classes.permute_and_flip_forest:PermuteAndFlipForest", True)
    return kind.model_for("pf-forest", spec, VOTING | {"n_estimators": 3} | dict(options))
