"""Local SGD of several nodes in one computation (``training.stack``).

Each node has its own batches, random numbers, optimizer and metrics, as if it were alone; what is common is the
arithmetic of a step, of those nodes whose batches have as many examples. Its sums have another order of rounding than
those of a node alone, so the bytes are others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from client.learners.base import LocalFit, LocalTask
from fedlearn.data.base import Examples
from fedlearn.errors import said
from fedlearn.models.stacks import CannotStackError, StackedNetwork, Stream, of_node
from fedlearn.state import State

if TYPE_CHECKING:
    from client.learners.sgd import SGD

TRIED = 2  # examples of each of two nodes
TOLERANCE = 1e-3  # of the length of a step: by so much the two ways may differ, when one step is tried


@dataclass(slots=True)
class Progress:
    """How far a fit has come: steps taken, and the sum of their losses."""

    loss_sum: Tensor
    steps: int = 0


class Stack:
    """Memory for several nodes, used for one stack after another.

    Parameters
    ----------
    learner
        Knows how a node learns.
    count
        How many nodes there are at most.
    """

    def __init__(self, learner: SGD, count: int) -> None:
        self._learner = learner
        self._network = StackedNetwork(learner.model.module, learner.model.names, count)

    def fit(self, state: State, tasks: Sequence[LocalTask]) -> Iterator[LocalFit]:
        """Yield the fit of each task, at most as many as there is memory for."""
        self._network.load(state)
        nodes = [_Node(self._learner, task, self._network.parameters_of(k)) for k, task in enumerate(tasks)]
        while waiting := [(k, rows) for k, node in enumerate(nodes) if (rows := next(node.batches, None)) is not None]:
            for size in dict.fromkeys(len(rows) for _, rows in waiting):
                self._step(nodes, [(k, rows) for k, rows in waiting if len(rows) == size])
        for k, node in enumerate(nodes):
            yield self._learner.fitted(self._network.arrays_of(k), node.task, node.progress)

    def _step(self, nodes: Sequence[_Node], waiting: Sequence[tuple[int, NDArray[np.integer[Any]]]]) -> None:
        """Take a step of those nodes whose batches are of one size."""
        places = [k for k, _ in waiting]
        theirs = [nodes[k] for k in places]
        inputs, targets = zip(*(node.batch(rows) for node, (_, rows) in zip(theirs, waiting, strict=True)), strict=True)
        loss_of = self._learner.model.objective.loss

        def losses_of(outputs: Any) -> Tensor:
            return torch.stack([loss_of(of_node(outputs, k), each) for k, each in enumerate(targets)])

        streams = [node.stream for node in theirs]
        losses, gradients = self._network.gradients(places, inputs, streams, losses_of)
        for node, loss, each in zip(theirs, losses.unbind(0), gradients, strict=True):
            node.change(each)
            node.progress.loss_sum += loss
            node.progress.steps += 1


class _Node:
    """One node of a stack: what it has of its own."""

    def __init__(self, learner: SGD, task: LocalTask, parameters: list[Tensor]) -> None:
        self.task = task
        self.progress = Progress(torch.zeros((), device=learner.model.device))
        self.batches = learner.batches(task, self.progress)
        self.stream = Stream(learner.torch_seed(task), learner.model.device)
        self.change = learner.change_for(parameters, task)
        self._learner = learner

    def batch(self, rows: NDArray[np.integer[Any]]) -> tuple[Tensor, Tensor]:
        """Return inputs and targets; what augments them draws the node's own numbers."""
        if self._learner.augment is None:
            return self._learner.batch(self.task.train, rows)
        with self.stream.drawing():
            return self._learner.batch(self.task.train, rows)


def why_not_stacked(learner: SGD, examples: Examples) -> str:
    """Return why the model's nodes cannot be trained in one computation; empty if they can.

    One step of two nodes is tried in both ways: what shares a batch's numbers between nodes, or draws random numbers
    from nowhere, is found so.
    """
    if not len(examples):
        return "there are no examples to try it on"
    rows = np.arange(2 * TRIED) % len(examples)
    state = learner.model.initial_state(seed=0)
    tasks = [
        LocalTask(examples, mine, seed=0, round_number=1, partition_id=k, config={}, most_examples=1)
        for k, mine in enumerate(np.split(rows, 2))
    ]
    alone = [_moved(learner.fit(state, task), state) for task in tasks]
    try:
        together = [_moved(fit, state) for fit in Stack(learner, count=2).fit(state, tasks)]
    except CannotStackError as error:
        return str(error)
    except Exception as error:  # of the user's own module, or of torch on what the module does
        return f"{type(error).__name__}: {said(error)}"
    for one, other in zip(alone, together, strict=True):
        if np.isfinite(one).all() and np.linalg.norm(other - one) > TOLERANCE * np.linalg.norm(one):
            return "a node would learn something else than alone"
    return ""


def _moved(fit: LocalFit, state: State) -> NDArray[np.float64]:
    """Return by how much a fit has moved each number of a state."""
    return np.concatenate([np.ravel(fit.arrays[name] - np.float64(state[name])) for name in sorted(state)])
