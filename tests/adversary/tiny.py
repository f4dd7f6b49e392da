"""The smallest federation: a model of a few numbers and a learner that pulls them to each node's own point.

A run takes milliseconds and imports no torch; it has all that a run stores: a best round, memories of the strategy and
of the nodes, and, where the model is private, their ledgers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from client.learners.learner import Learner, LocalFit, LocalTask
from fedlearn.core.cohort import At
from fedlearn.core.metric import EPSILON, TRAIN_LOSS, Metric
from fedlearn.core.metrics import Metrics
from fedlearn.core.state import State, UpdateKind
from fedlearn.data.data_spec import DataSpec
from fedlearn.data.dataset import Dataset
from fedlearn.models.model import Evaluation
from fedlearn.models.spec import ModelSpec
from server.attempt import NotCommitted
from server.collecting import collect
from server.committing import abandon, committed_or_not
from server.schedules.synchronous import Synchronous
from tests.oracles import forests

SIZE = 12
ROUNDS = 3


def table(data_dir: str) -> Any:
    """Return a small table, from which no model learns."""
    return forests.dataset(forests.REGRESSION)


def drawn(data_dir: str) -> Any:
    """Return the table whose seed stands in a file of the data folder, and whose fingerprint it is."""
    seed = (Path(data_dir) / "seed").read_text()
    train, test = (forests.examples(60, forests.REGRESSION, seed=int(seed) + part) for part in (0, 1))
    return Dataset.of_table("drawn", train, test, forests.REGRESSION, seed)


class Point:
    """A point in space; evaluated by its distance to the middle of the nodes' points."""

    update_kind = UpdateKind.DENSE
    learner = f"{__name__}:Pull"
    metrics = Metrics((TRAIN_LOSS,), (Metric("distance", better="down", headline=True),))

    def initial_state(self, *, seed: int) -> State:
        return {"x": np.full(SIZE, 4.0, np.float32), "b": np.zeros((2, 2), np.float32)}

    def evaluate(self, state: State, examples: Any) -> Evaluation:
        wobble = abs(np.sin(5 * float(state["x"].sum())))  # so that the best round is not always the last
        return Evaluation({"distance": (float(np.linalg.norm(state["x"])) + wobble) * len(examples)}, len(examples))


class Pull(Learner):
    """One step towards the node's own point."""

    @classmethod
    def from_settings(cls, model: Point, config: Any) -> Pull:
        return cls()

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        target = np.cos(np.arange(SIZE) + task.partition_id).astype(np.float32)
        x = state["x"] + np.float32(0.3) * (target - state["x"])
        arrays = {"x": x, "b": state["b"] + np.float32(0.01)}
        return LocalFit(arrays, len(task.indices), {"train_loss": float(np.abs(x).mean())})


class PaidPoint(Point):
    """A point of which nodes say no more than they pay for."""

    learner = f"{__name__}:PaidPull"
    metrics = Metrics((TRAIN_LOSS, EPSILON), Point.metrics.evaluated)


class PaidPull(Pull):
    """The same step with noise; only its price is claimed, the same in each round."""

    def __init__(self, is_seeded: bool) -> None:
        self.is_seeded = is_seeded

    @classmethod
    def from_settings(cls, model: Point, config: Any) -> PaidPull:
        return cls(config.privacy.noise == "seeded")

    def cost(self, budget: float, *, round_number: int = 1) -> float:
        return budget / ROUNDS

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        fit = super().fit(state, task)
        seeds = (task.seed, task.round_number, task.partition_id) if self.is_seeded else None
        noise = np.random.default_rng(seeds).normal(size=SIZE).astype(np.float32)
        spent = {EPSILON.name: task.round_number / ROUNDS}
        return LocalFit({**fit.arrays, "x": fit.arrays["x"] + noise}, 1, {**fit.metrics, **spent})


class Again(Synchronous):
    """Abandons the first attempt of each round when its reports have come."""

    def attempt(self, at: At) -> NotCommitted | None:
        collected = collect(self.server, at)
        if isinstance(collected, NotCommitted) or at.attempt > 1:
            return collected if isinstance(collected, NotCommitted) else committed_or_not(self.server, collected, at)
        abandon(self.server, collected.reporting, at, "once more")
        return NotCommitted("once more")


def _made(spec: DataSpec, options: Any) -> Point:
    return Point()


def _made_private(spec: DataSpec, options: Any) -> Point:
    return PaidPoint()


POINT = ModelSpec(_made)
PAID = ModelSpec(_made_private, is_private=True)
SETTINGS = {
    "clients": 6, "rounds.cohort": 4, "rounds.total": ROUNDS, "rounds.backoff": 0.0,
    "data.dataset": f"{__name__}:table", "model.name": f"{__name__}:POINT", "engine.name": "inline",
}  # fmt: skip
OWING = {"compression.codec": "residual,top-k:0.3,quantize:4", "compression.send": "update", "strategy.name": "fedavgm"}
PRIVATE = {"model.name": f"{__name__}:PAID", "privacy.noise": "secure", "rounds.schedule": f"{__name__}:Again"}
