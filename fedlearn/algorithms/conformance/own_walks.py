"""The walks of algorithms with models of the nodes' own; `wrong` names a known mistake."""

from __future__ import annotations

from fedlearn.algorithms.conformance.common_walks import fedavg
from fedlearn.algorithms.conformance.quadratics import Problem
from fedlearn.algorithms.conformance.walking import Walk, averaged, in_layers, mean, nodes, steps_of


def perfedavg(p: Problem, wrong: str = "") -> Walk:
    """Return the walk of Fallah et al. 2020, first order, alpha 0.01."""
    alpha = 0.01

    def node(i: int, x: float) -> float:
        return steps_of(p, i, x, lambda y: -alpha * p.a[i] ** 2 * (y - p.t[i]))

    walk = averaged(p, node, lambda _, ys: mean(ys))
    ys = [node(i, walk.states[-2]) for i in nodes(p)]
    return Walk(walk.states, [y - alpha * p.a[i] * (y - p.t[i]) for i, y in enumerate(ys)])


def ditto(p: Problem, wrong: str = "") -> Walk:
    """Return the walk of Li et al. 2021."""
    pull, own, states = float(p.options.get("training.options.pull", 0.1)), [0.0 for _ in p.a], fedavg(p).states  # type: ignore[arg-type]

    def tuned(i: int, x: float) -> float:
        return steps_of(p, i, x if wrong == "begins anew" else own[i], lambda v: pull * (v - x))

    for x in [0.0, *states[:-1]]:
        own = [tuned(i, x) for i in nodes(p)]
    return Walk(states, own)


def local(p: Problem, wrong: str = "") -> Walk:
    """Return the walk of nodes that train alone."""
    own, states = [0.0 for _ in p.a], []
    for _ in range(p.rounds):
        own = [steps_of(p, i, y) for i, y in enumerate(own)]
        states.append(mean(own))
    return Walk(states, own)


def together(p: Problem, i: int, shared: float, own: float) -> tuple[float, float]:
    """Return both numbers after steps that change both."""
    for _ in range(p.steps[i]):
        step = p.lr * p.a[i] * (shared + own - p.t[i])
        shared, own = shared - step, own - step
    return shared, own


def fedper(p: Problem, wrong: str = "") -> Walk:
    """Return the walk of a shared layer and one of each node's own, trained together."""
    return in_layers(p, lambda i, shared, own: together(p, i, shared, own), lambda shared, own: shared + own)


def fedrep(p: Problem, wrong: str = "") -> Walk:
    """Return the walk of Collins et al. 2021: five passes of the head, then the body."""

    def node(i: int, body: float, head: float) -> tuple[float, float]:
        head = steps_of(p, i, head, steps=5, offset=body)  # five passes over full batches
        return steps_of(p, i, body, offset=head), head

    return in_layers(p, node, lambda body, head: body + head)


def fedbabu(p: Problem, wrong: str = "") -> Walk:
    """Return the walk of Oh et al. 2022: the body under the first head, one pass of an own head."""

    def node(i: int, body: float, _: float) -> tuple[float, float]:
        return steps_of(p, i, body), steps_of(p, i, 0.0, steps=1, offset=body)

    return in_layers(p, node, lambda body, head: body + head)
