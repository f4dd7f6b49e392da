"""A feature of a run at a node: what it does at the named moments of a message, of which handlers know nothing else.

A node has the features that the settings ask for, in the order of `fedlearn.plugins.tables.NODE_FEATURES`, and behind
them the parts at nodes of those in ``rounds.features``.

| moment | when it is |
|---|---|
| `state` | before the node trains or measures: which state it goes on from |
| `examples` | before it trains: on which examples |
| `fit` | around the fit |
| `answer` | around the report that is made of an answer |
| `measured` | when the node measures a state: which others it measures, too |
| `asked` | when the server's part has a question of its own (``query.feature``) |

In a moment *around* something the first feature is the innermost. Whether a node is ready, and what its owner allows,
stays in one written order, without a moment: a list in any order would tell reasons apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
from flwr.app import Message
from numpy.typing import NDArray

from client.learners.learner import LocalFit, LocalTask
from client.learners.plain_answer import Answer
from client.memory import NodeMemory
from client.request import Request
from fedlearn.config import RunConfig, per_run
from fedlearn.core.errors import Refused
from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples
from fedlearn.plugins import tables
from fedlearn.plugins.listed import pairs_in
from fedlearn.plugins.registry import load_reference

CHANGES = ("state", "examples", "fit")
Rows = NDArray[np.integer[Any]]
Fit = Callable[[State, LocalTask], LocalFit]
Report = Callable[[Answer], Message]


class NodeFeature:
    """A feature at one node. Each moment does nothing unless overridden.

    One object serves all nodes of a process: what a node keeps lies in its memory.

    >>> class Halved(NodeFeature):
    ...     def state(self, state, memory):
    ...         return {name: array / 2 for name, array in state.items()}
    >>> Halved().state({"w": np.ones(2)}, NodeMemory())
    {'w': array([0.5, 0.5])}
    """

    name: ClassVar[str] = ""  #: by which a server asks it
    config: RunConfig

    @classmethod
    def is_asked(cls, config: RunConfig) -> bool:
        """Return whether nodes of a run with these settings have the feature."""
        return True

    def why_not_stacked(self) -> str:
        """Return why nodes with the feature are trained one by one; empty where several may be trained together.

        One that changes state, examples or fit must override this, if it says how it does so for several at once.
        """
        changes = any(getattr(type(self), name) is not getattr(NodeFeature, name) for name in CHANGES)
        return f"feature {type(self).__name__} may change what a client is given to learn" if changes else ""

    def state(self, state: State, memory: NodeMemory) -> State:
        """Return the state that the node goes on from and measures."""
        return state

    def examples(self, request: Request, train: Examples, rows: Rows) -> tuple[Examples, Rows]:
        """Return the examples that the node trains on: a set, and its rows."""
        return train, rows

    def fit(self, request: Request, state: State, task: LocalTask, fit: Fit) -> LocalFit:
        """Return what the node makes of a state; `fit` makes it as without this feature."""
        return fit(state, task)

    def answer(self, request: Request, answer: Answer, state: State, report: Report) -> Message:
        """Return the node's report.

        Parameters
        ----------
        state
            That the node was sent.
        report
            Makes the report of an answer as without this feature.
        """
        return report(answer)

    def measured(self, request: Request, state: State) -> Iterator[tuple[str, State]]:
        """Yield (name, state) of what the node measures beside a state; each holds until the next is asked for."""
        yield from ()

    def asked(self, request: Request) -> Mapping[str, State]:
        """Return the answer to a question of the server's part: parcels of arrays, by name."""
        raise Refused("undecodable", f"{type(self).__name__} has no answers")


@per_run
def features_of(config: RunConfig) -> tuple[NodeFeature, ...]:
    """Return the features at the nodes of a run, in their order."""
    names = (name for name, _ in pairs_in(config.rounds.features))
    guests = (load_reference(name).on_nodes for name in names)
    kinds = [load_reference(name) for name in (*tables.NODE_FEATURES.values(), *guests) if name]
    found: tuple[NodeFeature, ...] = tuple(kind() for kind in kinds if kind.is_asked(config))
    for each in found:
        each.config = config
    return found


def own_state(config: RunConfig, state: State, memory: NodeMemory) -> State:
    """Return the state that a node goes on from and measures, by all its features."""
    for each in features_of(config):
        state = each.state(state, memory)
    return state


def fitted(request: Request, state: State, task: LocalTask, fit: Fit) -> LocalFit:
    """Return what a node makes of a state, with all its features around the fit."""
    for each in features_of(request.config):
        fit = partial(each.fit, request, fit=fit)
    return fit(state, task)


def reported(request: Request, answer: Answer, state: State, report: Report) -> Message:
    """Return the report of an answer, with all features of the node around it."""
    for each in features_of(request.config):
        report = partial(_answered, each, request, state, report)
    return report(answer)


def _answered(feature: NodeFeature, request: Request, state: State, report: Report, answer: Answer) -> Message:
    return feature.answer(request, answer, state, report)
