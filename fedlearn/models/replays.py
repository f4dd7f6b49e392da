"""Which pairs of data sets the exact auditor lets a node report on: all that the node of a private model sends.

Add or remove one record. Where the number of records is public (``privacy.public_sizes``), only *replace* has a
meaning, at twice the epsilon.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.config import config_from
from fedlearn.data.base import Examples, TableDataset, TableSchema
from fedlearn.errors import SettingError
from fedlearn.models import MODELS, model_spec
from fedlearn.privacy.replay import Draw, Pair, Record, booked_by_lines, made, public_of
from fedlearn.registry import load_reference
from fedlearn.state import State
from fedlearn.trees.classes.replays import PAID

BOUNDS = {"a": (0.0, 1.0)}
CATEGORIES = {"b": ("red", "green")}
NUMBERS = TableSchema("y", BOUNDS, CATEGORIES, target_bounds=(-1.0, 1.0))
CLASSES = TableSchema("y", BOUNDS, CATEGORIES, classes=("no", "yes"))
COLUMNS = [np.array([0.05, 0.05, 0.95, 0.95, np.nan]), np.array([0.0, 0.0, 1.0, 1.0, np.nan])]

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "dp-forest": [{}, {"candidates": 1}, {"candidates": 1, "leaf": "mean", "depth": 1}],
    "dp-relay": [{}, {"candidates": 1}],
    "dp-classifier": [
        {},
        {"max_depth": 0},
        {"max_depth": 1},
        {"max_depth": 1, "mechanism": "laplace"},
        {"leaf": "counts"},
        {"leaf": "counts", "max_depth": 0},  # nothing pulls the other way
    ],
    "dp-random-forest": [{}, {"sampling": "same"}],
    "pf-forest": [{}, {"max_depth": 0}, {"max_depth": 1, "penalty": 0}, {"leaf": "counts"}],
    "dp-boosting": [{}, {"pairs": 1}],
}
"""Of each model, ``model.options`` under which its nodes report; of any other, none."""


class Node:
    """A node of a private model, with no other data than those that it is given."""

    def __init__(self, name: str, settings: dict[str, Any], options: dict[str, Any], seed: int) -> None:
        self.schema = _schema_of(name)
        self.targets = np.array([0.0, 1.0]) if self.schema.classes else np.array([-1.0, 0.3, 1.0, 7.0])
        config = config_from({"model.name": name, "privacy.noise": "secure"} | settings)
        nothing = self.examples(np.zeros((0, len(COLUMNS))), np.zeros(0))
        spec = TableDataset("made", nothing, nothing, self.schema, "made").spec
        self.model: Any = model_spec(name).made(spec, options)
        # A client is loaded by name, as the engines do it: the kernel imports none.
        self.learner = (
            load_reference("client.learners:LEARNERS").load(self.model.learner).from_settings(self.model, config)
        )
        self.seed = seed

    def examples(self, X: NDArray[np.float64], y: NDArray[np.float64]) -> Examples:
        """Return the records as the model's data are."""
        return Examples(X, y.astype(np.int64) if self.schema.classes else y)

    def report(self, state: State, X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
        """Return what the node sends in its first round: arrays, number of examples, metrics, parcels."""
        memory = load_reference("client.memory:NodeMemory")()
        task = load_reference("client.learners.base:LocalTask")(
            self.examples(X, y), np.arange(len(y)), self.seed, 1, 0, {}, memory
        )
        return self.learner.fit(state, task)


def of(name: str) -> Draw:
    """Return what draws pairs for the nodes of a model."""

    def draw(rng: np.random.Generator) -> Pair:
        epsilon, is_public = float(rng.choice([0.5, 1.0, 2.0, 8.0])), bool(rng.random() < 0.3)
        settings = {"privacy.epsilon": epsilon, "privacy.public_sizes": is_public}
        every = OPTIONS.get(name, [{}])
        options = every[rng.integers(len(every))]
        node = Node(name, settings, options, int(rng.integers(2**31)))
        state = node.model.initial_state(seed=1)
        if rng.random() < 0.5:  # what another node has sent
            seeded = {"privacy.epsilon": 5.0, "privacy.noise": "seeded"}
            other = Node(name, seeded, options, int(rng.integers(2**31)))
            state = other.report(state, *made(rng, COLUMNS, other.targets)).arrays
        one, two = (_record(node, rng) for _ in "12")
        X, y = made(rng, COLUMNS, node.targets)
        cost = node.learner.cost(epsilon)
        claimed = 2 * cost if is_public else cost
        publish = partial(node.report, state)
        booked: dict[str, float] = {}
        if (
            hasattr(node.model, "estimator") and node.schema.classes
        ):  # what the plan of a regressor books depends on how many records there seem to be
            seeded = node.model.estimator(state, epsilon=claimed, noise="seeded", random_state=0)
            booked = booked_by_lines(PAID)(public_of(seeded.fit(np.zeros((0, len(COLUMNS))), np.zeros(0))))
        at_front = bool(rng.random() < 0.5)
        return Pair(
            publish,
            X,
            y,
            one,
            claimed,
            other=two if is_public else None,
            at_front=at_front,
            booked=lambda report: booked,
        )

    return draw


def _record(node: Node, rng: np.random.Generator) -> Record:
    return np.array([rng.choice(column) for column in COLUMNS]), float(rng.choice(node.targets))


def _schema_of(name: str) -> TableSchema:
    """Return the schema of a table that the model can learn from."""
    nothing = Examples(np.zeros((0, len(COLUMNS))), np.zeros(0))
    try:
        model_spec(name).made(TableDataset("made", nothing, nothing, NUMBERS, "made").spec, {})
    except SettingError:
        return CLASSES
    return NUMBERS


REPLAYS: dict[str, Draw] = {f"{name}, report of a node": of(name) for name, row in MODELS.items() if row.is_private}
"""Of each private model, what draws a pair; a new model is replayed as soon as it stands in `MODELS`."""
