"""Training several nodes in one computation, ahead of their messages (``training.stack``).

A simulation that has the messages of several nodes gives them here first. What the nodes' learner makes of them waits
until each message is handled, all mods around it, as if its node were alone: only `train` finds its fit made already.
Whatever goes wrong here is forgotten: the nodes are then trained alone, and one that fails fails alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from flwr.app import Context, Message, RecordDict

from client.fits import Fits
from client.learners.base import LocalFit, LocalTask
from client.memory import NodeMemory
from client.mods import boxed, expand
from fedlearn.words.errors import said
from fedlearn.words.state import State

Call = tuple[Message, Context]
TaskOf = Callable[[Message, Context], tuple[State, LocalTask]]

log = logging.getLogger(__name__)


class Made(NamedTuple):
    """What a node has learned, and remembers, before its message is handled."""

    fit: LocalFit
    memory: NodeMemory


_made: dict[str, Made] = {}  # by message id
_told: set[str] = set()


def train_ahead(calls: Iterable[Call], fits: Fits, task_of: TaskOf) -> None:
    """Train nodes together, and keep what each has learned until it is asked for."""
    _made.clear()
    given = {message.metadata.message_id: _read(message, context, task_of) for message, context in calls}
    read = {key: each for key, each in given.items() if each is not None}
    states = [state for state, _ in read.values()]
    if len(read) < 2 or not all(_same(state, states[0]) for state in states[1:]):
        return
    tasks = [task for _, task in read.values()]
    try:
        for key, task, fit in zip(read, tasks, fits.fit_many(states[0], tasks), strict=True):
            _made[key] = Made(_held(fit), task.memory)
    except Exception as error:
        _made.clear()
        _tell(f"{type(error).__name__}: {said(error)}")


def taken(message: Message) -> Made | None:
    """Return what the message's node has learned already, once."""
    return _made.pop(message.metadata.message_id, None)


def _read(message: Message, context: Context, task_of: TaskOf) -> tuple[State, LocalTask] | None:
    """Return what a message asks its node to learn; None where the node will fail over it."""
    read: list[tuple[State, LocalTask]] = []

    def innermost(message: Message, context: Context) -> Message:
        read.append(task_of(message, context))
        return Message(RecordDict(), reply_to=message)

    try:
        boxed(message, context, lambda unboxed, context: expand(unboxed, context, innermost))
    except Exception:
        return None
    return read[0]


def _same(state: State, other: State) -> bool:
    """Return whether two states are the same to the bit."""
    if state is other:
        return True
    return state.keys() == other.keys() and all(np.array_equal(state[name], other[name]) for name in state)


def _held(fit: LocalFit) -> LocalFit:
    """Return a fit that shares no memory with the learner, which goes on."""
    return replace(fit, arrays={name: array.copy() for name, array in fit.arrays.items()})


def _tell(why: str) -> None:
    """Say once why nodes of a stack are trained alone."""
    if why not in _told:
        _told.add(why)
        log.warning("training.stack: these nodes are trained one by one: %s", why)
