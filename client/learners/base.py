"""How a node improves the state on its own examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from client.memory import NodeMemory
from fedlearn.data.base import AnyExamples
from fedlearn.state import State


@dataclass(frozen=True, slots=True)
class LocalTask:
    """What one node has to do in one round.

    Parameters
    ----------
    indices
        The node's examples, as rows of the training set, shape (n_examples,).
    seed, round_number, partition_id
        Name the streams of random numbers.
    config
        What a strategy told its nodes, as FedProx's ``proximal-mu``.
    memory
        What the node keeps from message to message, whether or not the fit succeeds; to be changed in place.
    """

    train: AnyExamples
    indices: NDArray[np.integer[Any]]
    seed: int
    round_number: int
    partition_id: int
    config: Mapping[str, Any]
    memory: NodeMemory = field(default_factory=NodeMemory)


@dataclass(frozen=True, slots=True)
class LocalFit:
    """What came of it.

    Parameters
    ----------
    arrays
        The node's new state; may share memory with the learner, until its next fit.
    num_examples
        The node's number of examples, its weight in a mean.
    metrics
        What was measured on the way.
    """

    arrays: State
    num_examples: int
    metrics: dict[str, float]


class Learner(Protocol):
    """One way to improve a state."""

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the state that the node's examples make of `state`, which stays as it is.

        The same state, task and seed give the same bytes.
        """
        ...

    def why_not(self, memory: NodeMemory) -> str:
        """Return why the node cannot learn any more, empty if it can; `memory` is that of its tasks."""
        ...
