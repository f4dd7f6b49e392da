"""Models as clients and server see them: protocols, and the evaluation of a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError
from fedlearn.core.metrics import Metrics
from fedlearn.core.state import Layout, State, UpdateKind
from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.secure.whole import WholeNumbers


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Sums of metrics over examples; evaluations of parts of a test set can be added.

    Parameters
    ----------
    sums
        Metric -> sum over the examples.
    count
        Number of examples.
    confusion : array of int64, optional
        Confusion matrix, (K, K): number of examples by true class (row) and predicted class (column). Only for models
        of at most `MOST_CLASSES` classes with one class per example.
    scores
        Metric -> value of the whole set, which no addition gives; NaN where it is not defined.
    outputs
        Outputs of each part, where scores need those of the whole set (`Scored`).
    weights
        Metric -> what its sum is divided by, where that is not `count`: targets that a loss ignores weigh nothing.

    Examples
    --------
    >>> parts = Evaluation({"accuracy": 3}, 4) + Evaluation({"accuracy": 2}, 6)
    >>> parts.means
    {'accuracy': 0.5}
    >>> half = Evaluation({"loss": 3.0}, 4, weights={"loss": 2.0})
    >>> (half + Evaluation({"loss": 0.0}, 4, weights={"loss": 0.0})).means
    {'loss': 1.5}
    """

    sums: Mapping[str, float]
    count: int
    confusion: NDArray[np.int64] | None = field(default=None, compare=False)
    scores: Mapping[str, float] = field(default_factory=dict)
    outputs: tuple[bytes, ...] = field(default=(), compare=False)
    weights: Mapping[str, float] = field(default_factory=dict)

    def __add__(self, other: Evaluation) -> Evaluation:
        """Return the evaluation of both sets of examples, without scores."""
        names = [*self.sums, *(name for name in other.sums if name not in self.sums)]
        sums = {name: self.sums.get(name, 0) + other.sums.get(name, 0) for name in names}
        mine, others = self.confusion, other.confusion
        both = mine + others if mine is not None and others is not None else mine if others is None else others
        weights = {name: self._weight(name) + other._weight(name) for name in {**self.weights, **other.weights}}
        return Evaluation(
            sums, self.count + other.count, both, outputs=(*self.outputs, *other.outputs), weights=weights
        )

    @property
    def means(self) -> dict[str, float]:
        """Mean of each metric over the targets that count in it, if any does, and the scores that are defined."""
        scores = {name: value for name, value in self.scores.items() if isfinite(value)}
        weighed = ((name, total, self._weight(name)) for name, total in self.sums.items())
        return {**{name: total / weight for name, total, weight in weighed if weight}, **scores}

    def _weight(self, name: str) -> float:
        return self.weights.get(name, self.count)


NOTHING = Evaluation({}, 0)
MOST_CLASSES = 100  # a larger confusion matrix is neither readable nor small


def confusion_of(truth: NDArray[Any], guess: NDArray[Any], classes: int) -> NDArray[np.int64] | None:
    """Return the confusion matrix, true classes by predicted ones; None for fewer than 2 or too many classes.

    >>> confusion_of(np.array([0, 1, 1]), np.array([0, 1, 0]), 2)
    array([[1, 0],
           [1, 1]])
    """
    if not 2 <= classes <= MOST_CLASSES:
        return None
    known = (truth >= 0) & (truth < classes) & (guess >= 0) & (guess < classes)  # a loss may ignore some labels
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
    """A model: its initial state, and the evaluation of a state.

    Attributes
    ----------
    update_kind
        Kind of the updates that nodes send.
    learner
        Name of the learner that trains it on a node; see `client/learners`.
    """

    update_kind: UpdateKind
    learner: str

    @property
    def metrics(self) -> Metrics:
        """Metrics of `evaluate` and of the learner."""
        ...

    def initial_state(self, *, seed: int) -> State:
        """Return the state before round 1; the same seed gives the same state."""
        ...

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return the metrics of `state` on `examples`; the state is not changed."""
        ...


@runtime_checkable
class Tryable(Protocol):
    """A model that can be tried on a few examples before the first round."""

    def try_step(self, examples: Examples) -> object:
        """Compute loss and gradient; raise an error where the examples do not fit the model. No result changes."""
        ...


@runtime_checkable
class Scored(Protocol):
    """A model that can score all outputs of a set at once, beside metrics that are sums over examples.

    Attributes
    ----------
    is_scored
        Whether it does, in this run.
    """

    is_scored: bool

    def evaluate_part(self, state: State, examples: Examples) -> Evaluation:
        """Return the sums of a part of a set, with its outputs and without scores."""
        ...

    def scores_of(self, outputs: Sequence[bytes], targets: NDArray[Any]) -> dict[str, float]:
        """Return the scores of a set from the outputs of its parts; NaN for one that is not defined."""
        ...

    def try_scores(self, outputs: object, *, rows: int, examples: Examples | None = None) -> None:
        """Raise SettingError, before the first round, for scores that cannot be computed of such outputs.

        Parameters
        ----------
        outputs
            The outputs of two examples.
        rows
            Number of examples of the largest set.
        examples
            A few examples, for scores that call the module themselves.
        """
        ...


@runtime_checkable
class Planned(Protocol):
    """A model that depends on the settings of a run, for example on the epsilon of a round."""

    def planned(self, config: RunConfig) -> Model:
        """Return the model of a run with these settings."""
        ...


@runtime_checkable
class Counting(Protocol):
    """A model whose state is statistics of the nodes' records, which results show as they are."""

    def statistics(self, state: State) -> Mapping[str, object]:
        """Return the statistics of a state, as plain values (`fedlearn.runs.statistics_json.TableStatistics`)."""
        ...


@dataclass(frozen=True, slots=True)
class Finished:
    """Why a run needs no further round, or can have none.

    Parameters
    ----------
    why
        In words; empty as long as the run goes on.
    is_failure
        Whether there is no result: the run then fails with these words.
    """

    why: str = ""
    is_failure: bool = False


@runtime_checkable
class Finishing(Protocol):
    """A model that says by its state alone after which round a run is at its end."""

    def finished(self, state: State) -> Finished:
        """Return why no further round is needed, or possible; nothing as long as there is one."""
        ...


@runtime_checkable
class Condensing(Protocol):
    """A model that makes of the sums in a state what it needs of them, so that the state need not hold them all."""

    def condensed(self, state: State) -> State:
        """Return the state before the next round, of a state with the sums of one more round."""
        ...


@runtime_checkable
class Analyzing(Protocol):
    """A model whose state is the answer of an analysis, which results show as tables and curves."""

    def analysis(self, state: State) -> Mapping[str, object]:
        """Return the answer of a finished state, as plain values (`fedlearn.runs.analysis.AnalysisFile`)."""
        ...


@runtime_checkable
class Summed(Protocol):
    """A model whose updates are sums: it checks the sums of a report."""

    def check_sums(self, arrays: State, *, before: Layout, max_examples: int) -> None:
        """Raise `Refused` for a report that no honest node sends.

        Parameters
        ----------
        before
            Layout of the state that the node received.
        max_examples
            Largest number of examples of a node.

        Raises
        ------
        Refused
            With one word for the reason.
        """
        ...

    def whole_numbers(self, before: Layout, *, max_examples: int, nodes: int) -> WholeNumbers:
        """Return how the sums of a report go into a secure sum of at most so many nodes; arguments as above."""
        ...


@runtime_checkable
class Ensemble(Protocol):
    """A model whose updates are members of an ensemble: it checks the members in a report.

    Attributes
    ----------
    sums
        Whether a prediction is the sum over the members; else it is their weighted mean.
    """

    sums: bool

    def check_members(self, arrays: State, *, before: Layout, max_depth: int, max_nodes: int) -> None:
        """Raise `Refused` for a report that no honest node sends.

        Parameters
        ----------
        before
            Layout of the state that the node received.

        Raises
        ------
        Refused
            With one word for the reason.
        """
        ...
