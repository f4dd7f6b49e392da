"""What is learned, as both sides see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fedlearn.data.base import Examples
from fedlearn.state import State, UpdateKind


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Sums over examples, so that parts of a test set can be evaluated apart and added.

    >>> (Evaluation(12.0, 3, 4) + Evaluation(8.0, 2, 6)).accuracy
    0.5
    """

    loss_sum: float
    correct: int
    count: int

    def __add__(self, other: Evaluation) -> Evaluation:
        """Return the evaluation of both sets of examples."""
        return Evaluation(self.loss_sum + other.loss_sum, self.correct + other.correct, self.count + other.count)

    @property
    def loss(self) -> float:
        """Mean loss per example (cross-entropy in nats, for classifiers)."""
        return self.loss_sum / self.count

    @property
    def accuracy(self) -> float:
        """Share of examples classified correctly."""
        return self.correct / self.count


class Model(Protocol):
    """What is learned.

    Attributes
    ----------
    update_kind
        What an update of it means.
    learner
        The name of the learner that improves it on a node; see `client/learners`.
    """

    update_kind: UpdateKind
    learner: str

    def initial_state(self, *, seed: int) -> State:
        """Return the state before round 1; the same seed gives the same state."""
        ...

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return how well `state` does on `examples`; changes nothing."""
        ...
