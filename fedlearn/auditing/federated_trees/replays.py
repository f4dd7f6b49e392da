"""Pairs of data sets for the exact auditor, on which nodes of private models report.

Neighbors differ by one added or removed record. Where the number of records is public (``privacy.public_sizes``), only
*replace* has a meaning, at twice the epsilon. The claim is the smaller of two numbers: the epsilon in the report, and
the epsilon that the node's ledger books. There are three kinds of rows:

- *a report of a node*, in any round, after any number of released rounds, of tables of numbers and of classes, with
  local noise. The state need not be one that an honest server sends in that round;
- *later rounds* alone, where a model has several rounds: a slip in them must show by itself;
- *a sum of shares*: distributed noise, in a round with the smallest number of reports that a server commits.

`file_replays` replays what runs before the report: file, loader, partition and client app.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from client.learners import LEARNERS
from client.learners.learner import LocalTask
from client.memory import NodeMemory
from fedlearn.auditing.pairs import Draw, Pair, Record, booked_by_lines, drawn_records, public_of
from fedlearn.auditing.trees.classes_replays import PAID
from fedlearn.config import config_from
from fedlearn.core.errors import SettingError
from fedlearn.core.metric import EPSILON
from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples, TableSchema
from fedlearn.data.dataset import Dataset
from fedlearn.models import MODELS, model_spec
from fedlearn.models.model import Planned
from fedlearn.privacy import largest_loss

BOUNDS = {"a": (0.0, 1.0)}
CATEGORIES = {"b": ("red", "green")}
NUMBERS = TableSchema("y", BOUNDS, CATEGORIES, target_bounds=(-1.0, 1.0))
CLASSES = TableSchema("y", BOUNDS, CATEGORIES, classes=("no", "yes"))
COLUMNS = [np.array([0.05, 0.05, 0.95, 0.95, np.nan]), np.array([0.0, 0.0, 1.0, 1.0, np.nan])]
ROUNDS = (1, 2, 3, 5, 12)  # numbers of rounds of a run, of which one is drawn
LEAST_ROUNDS = {"dp-cox": 2}  # of models that take no single round
MOST_RELEASED = 4  # most rounds before the replayed round
SHARED = 0.2  # share of the pairs of sums that have distributed noise
FEW = {"rounds.minimum_ready": 0.8, "rounds.quorum": 0.7}  # so that a round is committed without some nodes

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "dp-forest": [{}, {"candidates": 1}, {"candidates": 1, "leaf": "mean", "depth": 1}],
    "dp-relay": [{}, {"candidates": 1}],
    "dp-classifier": [
        {},
        {"max_depth": 0},
        {"max_depth": 1},
        {"max_depth": 1, "mechanism": "laplace"},
        {"leaf": "counts"},
        {"leaf": "counts", "max_depth": 0},  # no other choice makes up for a part of the loss
    ],
    "dp-random-forest": [{}, {"sampling": "same"}],
    "pf-forest": [{}, {"max_depth": 0}, {"max_depth": 1, "penalty": 0}, {"leaf": "counts"}],
    "dp-boosting": [{}, {"pairs": 1}],
    "dp-describe": [{}, {"by": "b"}, {"bins": 3, "columns": ["y"]}],
    "dp-glm": [
        {"family": "normal", "outcome": "y", "columns": ["a", "b"]},  # y reaches its bounds, so that a slip shows
        {"family": "logit", "outcome": "a", "columns": ["b", "y"]},
        {"family": "poisson", "outcome": "a", "columns": ["b", "y"]},
    ],
    "dp-cox": [{"event": "b", "duration": "a", "columns": ["y"], "step": 0.5}],
    "dp-kaplan-meier": [{"event": "b", "step": 0.5}, {"event": "b", "by": "b"}],
}
"""Model -> the ``model.options`` with which its nodes report; models that are not listed report without options."""

Table = tuple[NDArray[np.float64], NDArray[np.float64]]  # X, y


class Node:
    """A node of a private model; each report is on records that the caller passes."""

    def __init__(
        self, name: str, schema: TableSchema, settings: Mapping[str, Any], options: dict[str, Any], seed: int
    ) -> None:
        self.schema = schema
        self.targets = np.array([0.0, 1.0]) if schema.classes else np.array([-1.0, 0.3, 1.0, 7.0])
        self.config = config_from({"model.name": name, "privacy.noise": "secure"} | dict(settings))
        model = _model(name, schema, options)
        self.model = model.planned(self.config) if isinstance(model, Planned) else model
        self.learner = LEARNERS.load(self.model.learner).from_settings(self.model, self.config)
        self.seed = seed

    def examples(self, X: NDArray[np.float64], y: NDArray[np.float64]) -> Examples:
        """Return the records as examples, with the target's dtype."""
        return Examples(X, y.astype(np.int64) if self.schema.classes else y)

    def report(self, state: State, X: NDArray[np.float64], y: NDArray[np.float64], round_number: int = 1) -> Any:
        """Return the node's report in a round: arrays, number of examples, metrics, parcels."""
        return self.learner.fit(state, _task(self.examples(X, y), np.arange(len(y)), self.seed, round_number, 0))

    def booked(self, round_number: int) -> float:
        """Return the epsilon that the node's ledger books for a round."""
        cost = self.learner.cost(self.config.privacy.epsilon, round_number=round_number)
        return largest_loss(cost, self.config.privacy).epsilon


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Schema, settings and options of a model, drawn for one pair of data sets.

    `odd`: values that a cell may have beside numbers and codes.
    """

    rng: np.random.Generator
    name: str
    schema: TableSchema
    settings: dict[str, Any]
    options: dict[str, Any]
    odd: tuple[float, ...] = ()

    @classmethod
    def draw(cls, name: str, rng: np.random.Generator, *, rounds: int, **settings: Any) -> Drawn:
        """Draw a schema, a budget and options."""
        schemas = _schemas_of(name)
        every = OPTIONS.get(name, [{}])
        given = {
            "privacy.epsilon": float(rng.choice([0.5, 1.0, 2.0, 8.0])),
            "privacy.public_sizes": bool(rng.random() < 0.3),
            "rounds.total": rounds,
        }
        return cls(rng, name, schemas[rng.integers(len(schemas))], given | settings, every[rng.integers(len(every))])

    @property
    def is_public(self) -> bool:
        """Whether the number of records is public."""
        return bool(self.settings["privacy.public_sizes"])

    @property
    def columns(self) -> list[NDArray[np.float64]]:
        """The values that each feature may have."""
        return [np.append(column, self.odd) for column in COLUMNS]

    def node(self, **changes: Any) -> Node:
        """Return a node with these settings; `changes` override some, with ``__`` for the dot in a name."""
        settings = self.settings | {name.replace("__", "."): value for name, value in changes.items()}
        return Node(self.name, self.schema, settings, self.options, int(self.rng.integers(2**31)))

    def table(self, node: Node) -> Table:
        """Draw the records of a node."""
        return drawn_records(self.rng, self.columns, np.append(node.targets, self.odd))

    def record(self, node: Node) -> Record:
        """Draw the record that only one data set has, or the record that replaces it."""
        features = np.array([self.rng.choice(column) for column in self.columns])
        return features, float(self.rng.choice(np.append(node.targets, self.odd)))

    def released(self, rounds: int, reports: int) -> State:
        """Return the state after some rounds, to each of which as many other nodes have reported as `reports` says."""
        seeded = self.node(privacy__noise="seeded", privacy__trust="local")
        state: State = seeded.model.initial_state(seed=1)
        for number in range(1, rounds + 1):
            state = _next(state, [seeded.report(state, *self.table(seeded), number).arrays for _ in range(reports)])
        return state

    def pair(self, node: Node, publish: Callable[..., Any], claimed: Any, **more: Any) -> Pair:
        """Draw a pair of data sets of a node; `publish`, `claimed` and `more` are passed on to `Pair`."""
        one, two = self.record(node), self.record(node)
        X, y = self.table(node)
        other, at_front = two if self.is_public else None, bool(self.rng.random() < 0.5)
        return Pair(publish, X, y, one, claimed, other=other, at_front=at_front, **more)


def reports_of(name: str, *, first: int = 1) -> Draw:
    """Return a function that draws pairs for the reports of a node in one round or several, from round `first` on.

    For models of sums, a share `SHARED` of the pairs are those of `sums_of_shares`.
    """
    is_planned = model_spec(name).is_planned

    def draw(rng: np.random.Generator) -> Pair:
        if model_spec(name).sums and rng.random() < SHARED:
            return sums_of_shares(name)(rng)
        total = _rounds_of(name, rng, first) if is_planned else 1
        drawn = Drawn.draw(name, rng, rounds=total)
        begin = int(rng.integers(first, min(total, MOST_RELEASED + 1) + 1)) if is_planned else int(rng.integers(1, 6))
        last = min(begin + int(rng.choice([0, 0, 1, 2])), total) if is_planned else begin
        released = begin - 1 if is_planned and rng.random() < 0.8 else int(rng.integers(MOST_RELEASED + 1))
        node, state = drawn.node(), drawn.released(released, int(rng.integers(1, 4)))
        before = _reported_epsilon(node, begin - 1)
        booked = booked_of(node, state)
        costs = sum(node.booked(number) for number in range(begin, last + 1))

        def publish(X: NDArray[np.float64], y: NDArray[np.float64]) -> list[Any]:
            reports, now = [], state
            for number in range(begin, last + 1):
                reports.append(node.report(now, X, y, number))
                now = _next(now, [reports[-1].arrays])
            return reports

        return drawn.pair(
            node,
            publish,
            lambda reports: min(reports[-1].metrics[EPSILON.name] - before, costs),
            booked=lambda reports: booked,
        )

    return draw


def sums_of_shares(name: str) -> Draw:
    """Return a function that draws pairs for a sum of reports with distributed noise.

    The sum has the smallest number of reports that a server commits, and is private only as a whole. The record is one
    of the first node.
    """
    is_planned = model_spec(name).is_planned

    def draw(rng: np.random.Generator) -> Pair:
        total = _rounds_of(name, rng) if is_planned else 1
        nodes = {"clients": int(rng.integers(2, 7)), "privacy.trust": "distributed", "privacy.noise": "seeded"}
        drawn = Drawn.draw(name, rng, rounds=total, **{"rounds.cohort": 0} | FEW | nodes)
        number = int(rng.integers(1, min(total, MOST_RELEASED + 1) + 1))
        node = drawn.node()
        fewest = node.config.fewest_reports
        state = drawn.released(number - 1, fewest)
        before = _reported_epsilon(node, number - 1)
        others = [drawn.table(node) for _ in range(fewest - 1)]

        def publish(X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
            own = node.report(state, X, y, number)
            shares = [own.arrays, *(node.report(state, *each, number).arrays for each in others)]
            return {"state": _next(state, shares), "examples": own.num_examples, "metrics": own.metrics}

        def claimed(published: Any) -> float:
            return float(min(published["metrics"][EPSILON.name] - before, node.booked(number)))

        return drawn.pair(node, publish, claimed, is_secret=False)

    return draw


def _rounds_of(name: str, rng: np.random.Generator, first: int = 1) -> int:
    return int(rng.choice([each for each in ROUNDS if each >= max(first, LEAST_ROUNDS.get(name, 1))]))


def _model(name: str, schema: TableSchema, options: Mapping[str, Any]) -> Any:
    empty = Examples(np.zeros((0, len(COLUMNS))), np.zeros(0, np.int64 if schema.classes else np.float64))
    return model_spec(name).build_model(Dataset.of_table("made", empty, empty, schema, "made").spec, options)


def _schemas_of(name: str) -> list[TableSchema]:
    """Return the schemas of the tables that a model can learn from."""
    found = []
    for schema in (NUMBERS, CLASSES):
        try:
            _model(name, schema, OPTIONS.get(name, [{}])[0])
        except SettingError:
            continue
        found.append(schema)
    return found


def _task(train: Examples, rows: NDArray[Any], seed: int, round_number: int, partition: int) -> Any:
    memory = NodeMemory()
    return LocalTask(train, rows, seed, round_number, partition, {}, memory)


def _next(state: State, reports: list[State]) -> State:
    """Return the state after a round: sums are appended; trees are replaced by the last report."""
    if "sums" not in state:
        return reports[-1]
    return {each: np.concatenate([state[each], sum(report[each] for report in reports)]) for each in state}


def _reported_epsilon(node: Node, round_number: int) -> float:
    """Return the epsilon that a node reports as spent up to a round; 0 for models of one round."""
    if not round_number or not model_spec(node.config.model.name).is_planned:
        return 0.0
    empty = np.zeros((0, len(COLUMNS))), np.zeros(0)
    return float(node.report(node.model.initial_state(seed=1), *empty, round_number).metrics[EPSILON.name])


def booked_of(node: Node, state: State) -> Mapping[str, float]:
    """Return the epsilon that the lines of an estimator's account book for each caller of a mechanism.

    The plan of a regressor depends on a noisy number of records, so its bookings are not known: the mapping is empty.
    """
    if not hasattr(node.model, "estimator") or not node.schema.classes:
        return {}
    seeded = node.model.estimator(state, epsilon=node.booked(1), noise="seeded", random_state=0)
    return booked_by_lines(PAID)(public_of(seeded.fit(np.zeros((0, len(COLUMNS))), np.zeros(0))))


PRIVATE = [name for name, row in MODELS.items() if row.is_private]
PLANNED = [name for name in PRIVATE if MODELS[name].is_planned]
REPLAYS: dict[str, Draw] = {
    **{f"{name}, report of a node": reports_of(name) for name in PRIVATE},
    **{f"{name}, later rounds of a node": reports_of(name, first=2) for name in PLANNED},
    **{f"{name}, a sum of shares": sums_of_shares(name) for name in PRIVATE if MODELS[name].sums},
}
"""Name of the row -> function that draws its pairs. A new private model is replayed as soon as it is in `MODELS`."""
