"""Walks on quadratics in plain numbers, and what the walks of all algorithms are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fedlearn.algorithms.conformance.quadratics import Problem


class Walk(NamedTuple):
    """The state after each round, and of each node's own model at the end, where there is one.

    A reference has the own numbers, a walk that was made their losses, which is what nodes measure.
    """

    states: list[float]
    own: list[float] = []  # noqa: RUF012 - never changed


Reference = Callable[[Any, str], Walk]
Nudge = Callable[[float], float]


def nothing(_: float) -> float:
    """Return no further gradient."""
    return 0.0


def steps_of(
    p: Problem, i: int, y: float, more: Nudge = nothing, *, steps: int | None = None, offset: float = 0.0
) -> float:
    """Return y after the local steps of node i, each with a further gradient `more(y)`; x is y plus an offset."""
    velocity = 0.0
    for _ in range(p.steps[i] if steps is None else steps):
        velocity = p.momentum * velocity + p.a[i] * (y + offset - p.t[i]) + more(y)
        y -= p.lr * velocity
    return y


def mean(values: Sequence[float]) -> float:
    """Return the mean."""
    return sum(values) / len(values)


def weighted(p: Problem, values: Sequence[float]) -> float:
    """Return the mean of a value of each node, by the nodes' weights."""
    return sum(weight * value for weight, value in zip(p.weights, values, strict=True))


def nodes(p: Problem) -> range:
    """Return the numbers of the nodes."""
    return range(len(p.a))


def averaged(p: Problem, node: Callable[[int, float], float], server: Callable[[float, list[float]], float]) -> Walk:
    """Return the walk of an algorithm without memory: x' = server(x, [node(i, x)])."""
    x, states = 0.0, []
    for _ in range(p.rounds):
        x = server(x, [node(i, x) for i in nodes(p)])
        states.append(x)
    return Walk(states)


def in_layers(
    p: Problem, node: Callable[[int, float, float], tuple[float, float]], used: Callable[[float, float], float]
) -> Walk:
    """Return the walk of an algorithm whose nodes keep a number: (shared', own') = node(i, shared, own)."""
    shared, own, states = 0.0, [0.0 for _ in p.a], []
    for _ in range(p.rounds):
        both = [node(i, shared, own[i]) for i in nodes(p)]
        shared, own = mean([new for new, _ in both]), [new for _, new in both]
        states.append(shared)
    return Walk(states, [used(shared, each) for each in own])
