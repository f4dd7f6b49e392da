"""The walks of algorithms that make one model for all; `wrong` names a known mistake."""

from __future__ import annotations

from collections.abc import Callable

from fedlearn.algorithms.conformance.quadratics import Problem
from fedlearn.algorithms.conformance.walking import Nudge, Walk, averaged, mean, nodes, steps_of, weighted


def fedavg(p: Problem, wrong: str = "") -> Walk:
    """Return the walk of McMahan et al. 2017."""
    return averaged(p, lambda i, x: steps_of(p, i, x), lambda _, ys: mean(ys))


def fedprox(p: Problem, wrong: str = "") -> Walk:
    """Return the walk of Li et al. 2020."""
    return averaged(p, lambda i, x: steps_of(p, i, x, lambda y: p.pull * (y - x)), lambda _, ys: mean(ys))


def scaffold(p: Problem, wrong: str = "") -> Walk:
    """Return the walk of Karimireddy et al. 2020, c_i the mean of the raw gradients."""
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
        changes = [new - old for new, old in zip(news, own, strict=True)]
        c += mean(changes) if wrong == "other weights" else weighted(p, changes)
        own = own if wrong == "not stored" else news
        x = weighted(p, ys)
        states.append(x)
    return Walk(states)


def fednova(p: Problem, wrong: str = "") -> Walk:
    """Return the walk of Wang et al. 2020."""

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
    """Return the walk of Acar et al. 2021; alpha is the pull."""
    x, h, g, states, alpha = 0.0, 0.0, [0.0 for _ in p.a], [], p.pull

    def changed(i: int, x: float) -> float:
        if wrong == "mixed signs":
            return steps_of(p, i, x, lambda y: alpha * (y - x + g[i]))
        return steps_of(p, i, x, lambda y: -g[i] + alpha * ((0 if wrong == "no alpha y" else y) - x))

    for _ in range(p.rounds):
        ys = [changed(i, x) for i in nodes(p)]
        for i, y in enumerate(ys):
            g[i] -= alpha * (y - x)
        h -= alpha * weighted(p, [y - x for y in ys])
        x = weighted(p, ys) + (weighted(p, g) if wrong == "mixed signs" else -h / alpha)
        states.append(x)
    return Walk(states)


def qfedavg(p: Problem, wrong: str = "") -> Walk:
    """Return the walk of Li et al. 2020."""
    q = float(p.options.get("training.options.q", 1.0))  # type: ignore[arg-type]

    def server(x: float, ys: list[float]) -> float:
        losses = [p.a[i] / 2 * (x - p.t[i]) ** 2 + 1e-10 for i in nodes(p)]
        changes = [(x - y) / p.lr for y in ys]
        slopes = [q * f ** (q - 1) * d**2 + f**q / p.lr for f, d in zip(losses, changes, strict=True)]
        way: float = sum(f**q * d for f, d in zip(losses, changes, strict=True)) / sum(slopes)
        return x - way

    return averaged(p, lambda i, x: steps_of(p, i, x), server)


def fedexp(p: Problem, wrong: str = "") -> Walk:
    """Return the walk of Jhunjhunwala et al. 2023."""

    def server(x: float, ys: list[float]) -> float:
        changes = [y - x for y in ys]
        step = sum(d * d for d in changes) / (2 * len(ys) * (mean(changes) ** 2 + 1e-3))
        return x + max(1.0, step) * mean(changes)

    return averaged(p, lambda i, x: steps_of(p, i, x), server)


def server_steps(
    p: Problem, second: Callable[[float, float], float], *, lr: float, beta1: float, first_v: float
) -> Walk:
    """Return the walk of a server's optimizer, whose second moment is `second(v, change)` (Reddi et al. 2021)."""
    memory = {"m": 0.0, "v": first_v}

    def server(x: float, ys: list[float]) -> float:
        change = mean(ys) - x
        memory["m"] = beta1 * memory["m"] + (1 - beta1) * change
        memory["v"] = second(memory["v"], change)
        return float(x + lr * memory["m"] / (memory["v"] ** 0.5 + 1e-3))

    return averaged(p, lambda i, x: steps_of(p, i, x), server)


def fedavgm(p: Problem, wrong: str = "") -> Walk:
    """Return the walk of Hsu et al. 2019, momentum 0.9."""
    velocity = [0.0]

    def server(x: float, ys: list[float]) -> float:
        velocity[0] = 0.9 * velocity[0] + mean(ys) - x
        return x + velocity[0]

    return averaged(p, lambda i, x: steps_of(p, i, x), server)


def fedadam(p: Problem, wrong: str = "") -> Walk:
    """Return the walk of FedAdam, v = 0 at first, as the strategy has it."""
    return server_steps(p, lambda v, d: 0.99 * v + 0.01 * d * d, lr=0.01, beta1=0.9, first_v=0.0)


def fedyogi(p: Problem, wrong: str = "") -> Walk:
    """Return the walk of FedYogi."""

    def second(v: float, d: float) -> float:
        return v - 0.01 * d * d * (1 if v > d * d else -1 if v < d * d else 0)

    return server_steps(p, second, lr=0.01, beta1=0.9, first_v=1e-6)


def fedadagrad(p: Problem, wrong: str = "") -> Walk:
    """Return the walk of FedAdagrad."""
    return server_steps(p, lambda v, d: v + d * d, lr=0.1, beta1=0.0, first_v=1e-6)


def fedsam(p: Problem, wrong: str = "") -> Walk:
    """Return the walk of Qu et al. 2022."""
    rho = float(p.options.get("training.options.rho", 0.05))  # type: ignore[arg-type]

    def worse(i: int) -> Nudge:
        def more(y: float) -> float:
            gradient = p.a[i] * (y - p.t[i])
            return p.a[i] * rho * gradient / (abs(gradient) + 1e-6)

        return more

    return averaged(p, lambda i, x: steps_of(p, i, x, worse(i)), lambda _, ys: mean(ys))
