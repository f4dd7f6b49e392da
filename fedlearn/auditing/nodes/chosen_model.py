"""A model with a parameter of no dimension, and nodes that change it as an auditor has chosen, or are not there.

What nodes do is kept in this process, so the runs are those of the inline engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from client.learners.learner import Learner, LocalFit, LocalTask
from fedlearn.algorithms.scalars.two_point import TwoPoint
from fedlearn.auditing.planting import NOT_THERE, swapped
from fedlearn.config import RunConfig
from fedlearn.core.metric import TRAIN_LOSS, Metric
from fedlearn.core.metrics import Metrics
from fedlearn.core.state import Array, State, UpdateKind
from fedlearn.data.data_spec import Examples
from fedlearn.models.model import Evaluation

Change = Mapping[str, float]  # parameter -> what is added to each of its entries

HONEST: Change = {"scale": 0.01, "weight": 0.001, "bias": 0.0}  # of an honest node: nobody else moves the bias
WIDE = 64  # numbers a side: noise of 4,099 entries shows that it is independent
NUMBERS = 1 + WIDE * WIDE + 2
NOTHING: Change = {"scale": 0.0, "weight": 0.0, "bias": 0.0}
FAR: Change = {"scale": 0.0, "weight": 1e3, "bias": 0.0}
HOSTILE: Mapping[str, Change] = {
    "far in one parameter": FAR,
    "far in the parameter without a dimension": {"scale": -1e6, "weight": 0.0, "bias": 0.0},
    "far in all": {"scale": 9.0, "weight": 9.0, "bias": 9.0},
    "just the norm, in all entries": dict.fromkeys(NOTHING, 0.5 / math.sqrt(NUMBERS)),
    "beyond float32": {"scale": 1e200, "weight": 3e38, "bias": -3e38},
    "no number": {"scale": 0.0, "weight": np.nan, "bias": 0.0},
}
"""Changes of a hostile node; the norm is 0.5."""


class Odd:
    """A model of a few thousand numbers, whose score is the sum of their sizes."""

    update_kind = UpdateKind.DENSE
    learner = "fedlearn.auditing.nodes.chosen_model:Chosen"
    metrics = Metrics((TRAIN_LOSS,), (Metric("size", better="down", headline=True),))

    def initial_state(self, *, seed: int) -> State:
        """Return the same state for every seed."""
        weight, bias = np.full((WIDE, WIDE), 0.5, np.float32), np.zeros(2, np.float32)
        return {"scale": np.array(1.0), "weight": weight, "bias": bias}

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return the sum of all sizes."""
        total = sum(float(np.abs(array).sum()) for array in state.values())
        return Evaluation({"size": total * len(examples)}, len(examples))


class Chosen(Learner):
    """Adds what was chosen for its node; it says a number of examples and a loss that are the node's own."""

    changes: ClassVar[Mapping[int, Change]] = {}  # partition -> its change in each round
    absent: ClassVar[frozenset[int]] = frozenset()
    fits: ClassVar[list[tuple[int, int]]] = []  # round and partition of each

    @classmethod
    def from_settings(cls, model: Any, config: RunConfig) -> Chosen:
        """Return a learner of any model and settings."""
        return cls()

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the state after the chosen change; fail in a node that is not there."""
        self.fits.append((task.round_number, task.partition_id))
        if task.partition_id in self.absent:
            raise RuntimeError(NOT_THERE)
        change = self.changes.get(task.partition_id, HONEST)
        with np.errstate(all="ignore"):
            after: dict[str, Array] = {
                name: np.asarray(array + np.asarray(change[name])).astype(array.dtype) for name, array in state.items()
            }
        return LocalFit(after, 1 + 10 * task.partition_id, {TRAIN_LOSS.name: 0.123456 + task.partition_id})


def _derivatives(self: TwoPoint, state: State, task: LocalTask) -> LocalFit:
    """Return a report of derivatives as chosen: the first, all others, and the last as the three parameters move."""
    Chosen.fits.append((task.round_number, task.partition_id))
    if task.partition_id in Chosen.absent:
        raise RuntimeError(NOT_THERE)
    change = Chosen.changes.get(task.partition_id, HONEST)
    found = np.full(self.directions, change["weight"])
    found[0], found[-1] = change["scale"], change["bias"]
    count = 1 + 10 * task.partition_id
    return LocalFit(self.model.report_of(found, count), count, {TRAIN_LOSS.name: 0.123456 + task.partition_id})


def model() -> Odd:
    """Return the model."""
    return Odd()


@contextmanager
def chosen(changes: Mapping[int, Change], absent: frozenset[int] = frozenset()) -> Iterator[list[tuple[int, int]]]:
    """Let nodes change the state, or report derivatives, as chosen; yield the round and partition of each fit."""
    fits: list[tuple[int, int]] = []
    with swapped(Chosen, changes=changes, absent=absent, fits=fits), swapped(TwoPoint, fit=_derivatives):
        yield fits
