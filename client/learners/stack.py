"""Local SGD of several nodes in one computation (``training.stack``).

Each node has its own batches, random numbers, optimizer and metrics, as if it were alone; what is common is the
arithmetic of a step, of those nodes whose batches have as many examples. Its sums have another order of rounding than
those of a node alone, so the bytes are others; those of an `ExactNetwork` are not (``training.stack = 0``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from client.learners.learner import LocalFit, LocalTask
from client.learners.optimizers import Update
from fedlearn.core.errors import said
from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples
from fedlearn.models.stacks import CannotStackError, ExactNetwork, FunctionalNetwork, StackedNetwork, Stream
from fedlearn.models.torch.torch_model import TorchModel

TRIED = 2  # examples of each of two nodes
TOLERANCE = 1e-3  # of the length of a step: by so much the two ways may differ, when one step is tried


Change = Callable[[Sequence[int], list[Tensor]], None]
"""Given places of nodes, and their gradients (K, ...)."""


@dataclass(slots=True)
class Progress:
    """How far a fit has come: steps taken, and the sum of their losses.

    >>> progress = Progress(torch.zeros(()))
    >>> progress.steps
    0
    """

    loss_sum: Tensor
    steps: int = 0
    tokens: int = 0


class TrainsInSteps(Protocol):
    """The parts of `client.learners.sgd.SGD` by which several nodes are trained together."""

    @property
    def model(self) -> TorchModel:
        """Return the model that is trained."""
        ...

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the fit of one node."""
        ...

    def fitted(self, arrays: State, task: LocalTask, progress: Progress) -> LocalFit:
        """Return the fit that ends with these arrays."""
        ...

    def batches(self, task: LocalTask, progress: Progress) -> Iterator[NDArray[np.integer[Any]]]:
        """Yield the rows of each step."""
        ...

    def batch(self, train: Examples, rows: NDArray[np.integer[Any]]) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of rows."""
        ...

    def torch_seed(self, task: LocalTask) -> int:
        """Return the seed of a node's random numbers."""
        ...

    def reads_by_row(self) -> bool:
        """Return whether a batch is read row by row."""
        ...

    def changes_alike(self, tasks: Sequence[LocalTask]) -> bool:
        """Return whether one optimizer step can change the parameters of all tasks at once."""
        ...

    def change_for(self, parameters: list[Tensor], task: LocalTask) -> Update:
        """Return the function that changes parameters by their gradients."""
        ...


def networks_for(device: torch.device) -> tuple[type[StackedNetwork], ...]:
    """Return the kinds of networks that can compute a stack on a device, the fastest first."""
    return (StackedNetwork,) if device.type == "cpu" else (FunctionalNetwork, StackedNetwork)


class Stack:
    """Memory for several nodes, used for one stack after another.

    Parameters
    ----------
    learner
        How one node learns.
    count
        The largest number of nodes.
    network
        The kind of network that computes their steps.
    """

    def __init__(self, learner: TrainsInSteps, count: int, network: type[StackedNetwork] = StackedNetwork) -> None:
        self._learner = learner
        self.count = count
        learner.model.beside.put_back()
        model = learner.model
        self._network = network(model.module, model.names, count, model.parts)

    def fit(self, state: State, tasks: Sequence[LocalTask]) -> Iterator[LocalFit]:
        """Yield the fit of each task; there are at most `count` tasks."""
        self._network.load(state)
        self._learner.model.train()
        nodes = [_Node(self._learner, task) for task in tasks]
        change = self._change_for(tasks)
        while waiting := [(k, rows) for k, node in enumerate(nodes) if (rows := next(node.batches, None)) is not None]:
            for size in dict.fromkeys(len(rows) for _, rows in waiting):
                self._step(nodes, [(k, rows) for k, rows in waiting if len(rows) == size], change)
        for k, node in enumerate(nodes):
            yield self._learner.fitted(self._network.arrays_of(k), node.task, node.progress)

    def _change_for(self, tasks: Sequence[LocalTask]) -> Change:
        """Return the function that changes the parameters of nodes by their gradients, at once where it can."""
        if self._learner.changes_alike(tasks) and not isinstance(self._network, ExactNetwork):
            all_at_once = self._learner.change_for(self._network.parameters(len(tasks)), tasks[0])
            return lambda _, gradients: all_at_once(gradients)
        each = [self._learner.change_for(self._network.parameters_of(k), task) for k, task in enumerate(tasks)]

        def one_by_one(places: Sequence[int], gradients: list[Tensor]) -> None:
            for k, *mine in zip(places, *gradients, strict=True):
                each[k](mine)

        return one_by_one

    def _step(
        self, nodes: Sequence[_Node], waiting: Sequence[tuple[int, NDArray[np.integer[Any]]]], change: Change
    ) -> None:
        """Take a step of the nodes whose batches have one size."""
        places, rows = zip(*waiting, strict=True)
        theirs = [nodes[k] for k in places]
        inputs, targets = self._batches(theirs, rows)
        losses, gradients = self._network.gradients(
            places, inputs, targets, [node.stream for node in theirs], self._learner.model.objective.loss
        )
        change(places, gradients)
        for node, loss in zip(theirs, losses.unbind(0), strict=True):
            node.progress.loss_sum += loss
            node.progress.steps += 1

    def _batches(self, nodes: Sequence[_Node], rows: Sequence[NDArray[np.integer[Any]]]) -> tuple[Tensor, Tensor]:
        """Return inputs (K * B, ...) and targets (K, B, ...) of rows, augmented by each node's own numbers."""
        train = nodes[0].task.train
        if self._learner.reads_by_row() and all(node.task.train is train for node in nodes):
            inputs, targets = self._learner.batch(train, np.concatenate(rows))
            return inputs, targets.unflatten(0, (len(nodes), -1))
        batches = [node.batch(mine) for node, mine in zip(nodes, rows, strict=True)]
        inputs, targets = (torch.stack(each) for each in zip(*batches, strict=True))
        return inputs.flatten(0, 1), targets


class _Node:
    """The batches, random numbers and progress of one node of a stack."""

    def __init__(self, learner: TrainsInSteps, task: LocalTask) -> None:
        self.task = task
        self.progress = Progress(torch.zeros((), device=learner.model.device))
        self.batches = learner.batches(task, self.progress)
        self.stream = Stream(learner.torch_seed(task), learner.model.device)
        self._learner = learner

    def batch(self, rows: NDArray[np.integer[Any]]) -> tuple[Tensor, Tensor]:
        """Return the inputs and targets of rows, augmented by the node's own random numbers."""
        with self.stream.drawing():
            return self._learner.batch(self.task.train, rows)


def why_not_stacked(learner: TrainsInSteps, examples: Examples, network: type[StackedNetwork]) -> str:
    """Return why a kind of network cannot train the nodes of a model in one computation; empty if it can.

    One step of two nodes is tried in both ways. That finds modules that share numbers of a batch between nodes, and
    modules that draw random numbers by no seed of ours.
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
    if kept := learner.model.beside.changed():
        return f"{kept[0]} is no part of its state, and a fit changes it"
    try:
        together = [_moved(fit, state) for fit in Stack(learner, 2, network).fit(state, tasks)]
    except CannotStackError as error:
        return str(error)
    except Exception as error:  # of the user's own module, or of torch on what the module does
        return f"{type(error).__name__}: {said(error)}"
    for one, other in zip(alone, together, strict=True):
        if np.isfinite(one).all() and np.linalg.norm(other - one) > TOLERANCE * np.linalg.norm(one):
            return "a client would learn something else than alone"
    return ""


def _moved(fit: LocalFit, state: State) -> NDArray[np.float64]:
    """Return the difference between a fit and the state that it began with, flat."""
    return np.concatenate([np.ravel(fit.arrays[name] - np.float64(state[name])) for name in sorted(state)])
