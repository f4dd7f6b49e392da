"""What each algorithm must do on quadratics, written down round by round in plain numbers, as its paper has it.

A walk returns the state after each round, and, for algorithms with models of their own, those after the last round.
`wrong` names a known mistake: a walk with it is what a failing class is compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fedlearn.algorithms.conformance.quadratics import Problem


class Walk(NamedTuple):
    """The state after each round, and of each node's own model at the end, where there is one.

    A reference has the own numbers, a walk that was made their losses, which is what nodes measure.
    """

    states: list[float]
    own: list[float] = []  # noqa: RUF012 - never changed


Reference = Callable[[Problem, str], Walk]
Nudge = Callable[[float], float]


def nothing(_: float) -> float:
    return 0.0


def steps_of(p: Problem, i: int, y: float, more: Nudge = nothing, *, steps: int | None = None, offset: float = 0.0) -> float:
    """Return y after the local steps of node i, each with a further gradient `more(y)`; x is y plus an offset."""
    velocity = 0.0
    for _ in range(p.steps[i] if steps is None else steps):
        velocity = p.momentum * velocity + p.a[i] * (y + offset - p.t[i]) + more(y)
        y -= p.lr * velocity
    return y


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def nodes(p: Problem) -> range:
    return range(len(p.a))


def averaged(p: Problem, node: Callable[[int, float], float], server: Callable[[float, list[float]], float]) -> Walk:
    """Return the walk of an algorithm without memory: x' = server(x, [node(i, x)])."""
    x, states = 0.0, []
    for _ in range(p.rounds):
        x = server(x, [node(i, x) for i in nodes(p)])
        states.append(x)
    return Walk(states)


def fedavg(p: Problem, wrong: str = "") -> Walk:
    return averaged(p, lambda i, x: steps_of(p, i, x), lambda _, ys: mean(ys))


def fedprox(p: Problem, wrong: str = "") -> Walk:
    return averaged(p, lambda i, x: steps_of(p, i, x, lambda y: p.pull * (y - x)), lambda _, ys: mean(ys))


def scaffold(p: Problem, wrong: str = "") -> Walk:
    x, c, own, states = 0.0, 0.0, [0.0 for _ in p.a], []
    for _ in range(p.rounds):
        ys, news = [], []
        for i in nodes(p):
            y, velocity, raw = x, 0.0, 0.0
            for _ in range(p.steps[i]):
                gradient = p.a[i] * (y - p.t[i])
                raw += gradient
                velocity = p.momentum * velocity + gradient + c - own[i]
                y -= p.lr * velocity
            new = raw / p.steps[i]
            if wrong == "divided by K lr":
                new = own[i] - c + (x - y) / (p.steps[i] * p.lr)
            if wrong == "reversed":
                new = own[i] - c - (x - y) / (p.steps[i] * p.lr)
            ys.append(y)
            news.append(new)
        c += mean([new - old for new, old in zip(news, own, strict=True)])
        own = own if wrong == "not stored" else news
        x = mean(ys)
        states.append(x)
    return Walk(states)


def fednova(p: Problem, wrong: str = "") -> Walk:
    def length(k: int) -> float:
        total = velocity = 0.0
        for _ in range(k):
            velocity = p.momentum * velocity + 1
            total += velocity
        return total

    a = [length(k) for k in p.steps]

    def server(x: float, ys: list[float]) -> float:
        if wrong == "weights":
            return sum(mean(a) / a[i] * ys[i] for i in nodes(p)) / len(ys)
        return x - mean(a) * mean([(x - ys[i]) / a[i] for i in nodes(p)])

    return averaged(p, lambda i, x: steps_of(p, i, x), server)


def feddyn(p: Problem, wrong: str = "") -> Walk:
    x, h, g, states, alpha = 0.0, 0.0, [0.0 for _ in p.a], [], p.pull
    for _ in range(p.rounds):
        if wrong == "mixed signs":  # the authors' code with the paper's update: s = alpha (x - y)
            ys = [steps_of(p, i, x, lambda y, i=i, x=x: alpha * (y - x + g[i])) for i in nodes(p)]  # type: ignore[misc]
            g = [g[i] + alpha * (x - ys[i]) for i in nodes(p)]
            x = mean(ys) + mean(g)
        else:
            free = wrong == "no alpha y"
            ys = [steps_of(p, i, x, lambda y, i=i, x=x: -g[i] + alpha * ((0 if free else y) - x)) for i in nodes(p)]  # type: ignore[misc]
            g = [g[i] - alpha * (ys[i] - x) for i in nodes(p)]
            h -= alpha * mean([y - x for y in ys])
            x = mean(ys) - h / alpha
        states.append(x)
    return Walk(states)


def qfedavg(p: Problem, wrong: str = "") -> Walk:
    q = float(p.options.get("training.options.q", 1.0))  # type: ignore[arg-type]

    def server(x: float, ys: list[float]) -> float:
        losses = [p.a[i] / 2 * (x - p.t[i]) ** 2 + 1e-10 for i in nodes(p)]
        changes = [(x - y) / p.lr for y in ys]
        slopes = [q * f ** (q - 1) * d**2 + f**q / p.lr for f, d in zip(losses, changes, strict=True)]
        return x - sum(f**q * d for f, d in zip(losses, changes, strict=True)) / sum(slopes)

    return averaged(p, lambda i, x: steps_of(p, i, x), server)


def fedexp(p: Problem, wrong: str = "") -> Walk:
    def server(x: float, ys: list[float]) -> float:
        changes = [y - x for y in ys]
        step = sum(d * d for d in changes) / (2 * len(ys) * (mean(changes) ** 2 + 1e-3))
        return x + max(1.0, step) * mean(changes)

    return averaged(p, lambda i, x: steps_of(p, i, x), server)


def server_steps(p: Problem, second: Callable[[float, float], float], *, lr: float, beta1: float, first_v: float) -> Walk:
    memory = {"m": 0.0, "v": first_v}

    def server(x: float, ys: list[float]) -> float:
        change = mean(ys) - x
        memory["m"] = beta1 * memory["m"] + (1 - beta1) * change
        memory["v"] = second(memory["v"], change)
        return float(x + lr * memory["m"] / (memory["v"] ** 0.5 + 1e-3))

    return averaged(p, lambda i, x: steps_of(p, i, x), server)


def fedavgm(p: Problem, wrong: str = "") -> Walk:
    velocity = [0.0]

    def server(x: float, ys: list[float]) -> float:
        velocity[0] = 0.9 * velocity[0] + mean(ys) - x
        return x + velocity[0]

    return averaged(p, lambda i, x: steps_of(p, i, x), server)


def fedadam(p: Problem, wrong: str = "") -> Walk:
    return server_steps(p, lambda v, d: 0.99 * v + 0.01 * d * d, lr=0.01, beta1=0.9, first_v=0.0)


def fedyogi(p: Problem, wrong: str = "") -> Walk:
    def second(v: float, d: float) -> float:
        return v - 0.01 * d * d * (1 if v > d * d else -1 if v < d * d else 0)

    return server_steps(p, second, lr=0.01, beta1=0.9, first_v=1e-6)


def fedadagrad(p: Problem, wrong: str = "") -> Walk:
    return server_steps(p, lambda v, d: v + d * d, lr=0.1, beta1=0.0, first_v=1e-6)


def fedsam(p: Problem, wrong: str = "") -> Walk:
    rho = float(p.options.get("training.options.rho", 0.05))  # type: ignore[arg-type]

    def worse(i: int) -> Nudge:
        def more(y: float) -> float:
            gradient = p.a[i] * (y - p.t[i])
            return p.a[i] * rho * gradient / (abs(gradient) + 1e-6)

        return more

    return averaged(p, lambda i, x: steps_of(p, i, x, worse(i)), lambda _, ys: mean(ys))


def perfedavg(p: Problem, wrong: str = "") -> Walk:
    alpha = 0.01
    walk = averaged(p, lambda i, x: steps_of(p, i, x, lambda y: -alpha * p.a[i] ** 2 * (y - p.t[i])), lambda _, ys: mean(ys))
    last = walk.states[-2]
    ys = [steps_of(p, i, last, lambda y, i=i: -alpha * p.a[i] ** 2 * (y - p.t[i])) for i in nodes(p)]  # type: ignore[misc]
    return Walk(walk.states, [y - alpha * p.a[i] * (y - p.t[i]) for i, y in enumerate(ys)])


def ditto(p: Problem, wrong: str = "") -> Walk:
    pull = float(p.options.get("training.options.pull", 0.1))  # type: ignore[arg-type]
    states = fedavg(p).states
    own = [0.0 for _ in p.a]
    for x in [0.0, *states[:-1]]:
        start = [x for _ in p.a] if wrong == "begins anew" else own
        own = [steps_of(p, i, start[i], lambda v, x=x: pull * (v - x)) for i in nodes(p)]  # type: ignore[misc]
    return Walk(states, own)


def local(p: Problem, wrong: str = "") -> Walk:
    own, states = [0.0 for _ in p.a], []
    for _ in range(p.rounds):
        own = [steps_of(p, i, y) for i, y in enumerate(own)]
        states.append(mean(own))
    return Walk(states, own)


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


def together(p: Problem, i: int, shared: float, own: float) -> tuple[float, float]:
    """Return both numbers after steps that change both."""
    for _ in range(p.steps[i]):
        step = p.lr * p.a[i] * (shared + own - p.t[i])
        shared, own = shared - step, own - step
    return shared, own


def fedper(p: Problem, wrong: str = "") -> Walk:
    return in_layers(p, lambda i, shared, own: together(p, i, shared, own), lambda shared, own: shared + own)


def fedrep(p: Problem, wrong: str = "") -> Walk:
    def node(i: int, body: float, head: float) -> tuple[float, float]:
        head = steps_of(p, i, head, steps=5, offset=body)  # five passes over full batches
        return steps_of(p, i, body, offset=head), head

    return in_layers(p, node, lambda body, head: body + head)


def fedbabu(p: Problem, wrong: str = "") -> Walk:
    def node(i: int, body: float, _: float) -> tuple[float, float]:
        return steps_of(p, i, body), steps_of(p, i, 0.0, steps=1, offset=body)

    return in_layers(p, node, lambda body, head: body + head)


WALKS: dict[str, Reference] = {
    "fedavg": fedavg, "fedavgm": fedavgm, "fedadam": fedadam, "fedyogi": fedyogi, "fedadagrad": fedadagrad,
    "fedexp": fedexp, "fedprox": fedprox, "scaffold": scaffold, "fednova": fednova, "feddyn": feddyn,
    "qfedavg": qfedavg, "fedsam": fedsam, "perfedavg": perfedavg, "ditto": ditto, "local": local, "fedper": fedper,
    "lgfedavg": fedper, "fedrep": fedrep, "fedbabu": fedbabu, "moon": fedavg, "fedrs": fedavg, "fedlc": fedavg,
    "fedbn": fedavg, "fedala": fedavg, "central": fedavg,
}  # fmt: skip
"""Algorithm -> its walk; those of algorithms for classes or norms are FedAvg's, which they are where these are not."""
