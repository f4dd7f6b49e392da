"""What is learned, as both sides see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedlearn.config import RunConfig
from fedlearn.data.base import DataSpec, Examples
from fedlearn.words.errors import SettingError
from fedlearn.words.metrics import Metrics
from fedlearn.words.state import Layout, State, UpdateKind


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Sums over examples of what a model measures, so that parts of a test set can be evaluated apart and added.

    Parameters
    ----------
    sums
        Metric -> sum over the examples.
    count
        How many examples there were.
    confusion : array of int64, optional
        Shape (K, K): how many examples of the class of the row were taken for that of the column. Only of models that
        tell at most `MOST_CLASSES` classes apart, one an example.

    >>> parts = Evaluation({"accuracy": 3}, 4) + Evaluation({"accuracy": 2}, 6)
    >>> parts.means
    {'accuracy': 0.5}
    """

    sums: Mapping[str, float]
    count: int
    confusion: NDArray[np.int64] | None = field(default=None, compare=False)

    def __add__(self, other: Evaluation) -> Evaluation:
        """Return the evaluation of both sets of examples."""
        names = [*self.sums, *(name for name in other.sums if name not in self.sums)]
        sums = {name: self.sums.get(name, 0) + other.sums.get(name, 0) for name in names}
        mine, others = self.confusion, other.confusion
        both = mine + others if mine is not None and others is not None else mine if others is None else others
        return Evaluation(sums, self.count + other.count, both)

    @property
    def means(self) -> dict[str, float]:
        """Mean per example of each: loss (cross-entropy in nats), accuracy, mae."""
        return {name: total / self.count for name, total in self.sums.items()}


NOTHING = Evaluation({}, 0)
MOST_CLASSES = 100  # beyond it nobody looks at a confusion matrix, and it would not be small


def confusion_of(truth: NDArray[Any], guess: NDArray[Any], classes: int) -> NDArray[np.int64] | None:
    """Return how often each class was taken for each; None of too many classes, or of none.

    >>> confusion_of(np.array([0, 1, 1]), np.array([0, 1, 0]), 2)
    array([[1, 0],
           [1, 1]])
    """
    if not 2 <= classes <= MOST_CLASSES:
        return None
    known = (truth >= 0) & (truth < classes) & (guess >= 0) & (guess < classes)  # a loss may leave out some examples
    cells = truth[known].astype(np.int64) * classes + guess[known].astype(np.int64)
    return np.bincount(cells, minlength=classes * classes).reshape(classes, classes)


def image_shape(spec: DataSpec, *, smallest: int) -> tuple[int, int, int]:
    """Return height, width and channels, if images have at least `smallest` pixels a side and belong to classes.

    Raises
    ------
    SettingError
        Where the data set is a table, or its images are too small.
    """
    if not spec.is_image or spec.classes < 2:
        raise SettingError("data.dataset", spec.name, "its examples are not images of classes: take another model.name")
    height, width, channels = spec.shape
    if min(height, width) < smallest:
        found = f"its images have {height} x {width} pixels, and the model needs {smallest} x {smallest}"
        raise SettingError("data.dataset", spec.name, f"{found}: take another model.name")
    return height, width, channels


@runtime_checkable
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

    @property
    def metrics(self) -> Metrics:
        """What `evaluate` and the learner measure."""
        ...

    def initial_state(self, *, seed: int) -> State:
        """Return the state before round 1; the same seed gives the same state."""
        ...

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return how well `state` does on `examples`; changes nothing."""
        ...


@runtime_checkable
class Tryable(Protocol):
    """What a model does that can be tried on a few examples before the first round."""

    def try_step(self, examples: Examples) -> object:
        """Compute the loss and its gradient; raises where they do not fit the model, and changes no result."""
        ...


@runtime_checkable
class Planned(Protocol):
    """What a model does whose meaning depends on the run: on what a round may spend, and whose noise it is."""

    def planned(self, config: RunConfig) -> Model:
        """Return the model of a run with these settings."""
        ...


@runtime_checkable
class Summed(Protocol):
    """What a model whose updates are sums must do beside all others."""

    def check_sums(self, arrays: State, *, before: Layout, max_examples: int) -> None:
        """Accept what a node sent in silence.

        Parameters
        ----------
        before
            The layout of the state that the node was sent.
        max_examples
            So many examples a node has at most.

        Raises
        ------
        Refused
            With a word for the reason, if no honest node can have made it.
        """
        ...


@runtime_checkable
class Ensemble(Protocol):
    """What a model whose updates are members to be united must do beside all others.

    Attributes
    ----------
    sums
        Whether it is the sum of its members; else their weighted mean.
    """

    sums: bool

    def check_members(self, arrays: State, *, before: Layout, max_depth: int, max_nodes: int) -> None:
        """Accept what a node sent in silence.

        Parameters
        ----------
        before
            The layout of the state that the node was sent.

        Raises
        ------
        Refused
            With a word for the reason, if no honest node can have made it.
        """
        ...
