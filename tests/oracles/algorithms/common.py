"""Algorithms that make one model for all. Each returns the parameters after the last round."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch.nn.functional import cosine_similarity, cross_entropy

from fedlearn.core.seeding import rng_for
from tests.oracles.algorithms.federation import (
    Federation,
    Params,
    gradient,
    logits_of,
    loss,
    mean,
    minus,
    moved,
    represent,
)


def zeros(like: Params) -> Params:
    return {name: torch.zeros_like(each) for name, each in like.items()}


def fedavg(f: Federation) -> Params:
    return f.averaged(lambda x, k: f.local(x, k))


def fedprox(f: Federation, *, mu: float) -> Params:
    return f.averaged(lambda x, k: f.local(x, k, more=lambda y: {n: mu * (y[n] - x[n]) for n in y}))


def scaffold(f: Federation) -> Params:
    """Karimireddy et al. 2020, algorithm 1, option II, without momentum; nodes weigh as many as they have examples."""
    x, c, own = f.start, zeros(f.start), [zeros(f.start) for _ in f.nodes]
    total, weights = zeros(f.start), []
    for who in f.who:
        ys = [f.local(x, k, more=lambda _, k=k, c=c: minus(c, own[k])) for k in who]
        for k, y in zip(who, ys, strict=True):
            new = {n: own[k][n] - c[n] + (x[n] - y[n]) / (f.steps * f.lr) for n in x}
            total = moved(total, minus(new, own[k]), f.sizes[k])
            weights.append(f.sizes[k])
            own[k] = new
        c = moved(zeros(x), total, len(weights) / sum(weights) / len(f.nodes))
        x = mean(ys, [f.sizes[k] for k in who])
    return x


def fednova(f: Federation) -> Params:
    """Wang et al. 2020, eq. 8, with the a of momentum."""

    def server(x, who, ys):
        a = sum((1 - f.momentum**j) / (1 - f.momentum) for j in range(1, f.steps + 1))
        p = [f.sizes[k] / sum(f.sizes[k] for k in who) for k in who]
        d = mean([{n: (x[n] - y[n]) / (f.lr * a) for n in x} for y in ys], p)
        return moved(x, d, -f.lr * sum(each * a for each in p))

    return f.averaged(lambda x, k: f.local(x, k), server)


def feddyn(f: Federation, *, alpha: float) -> Params:
    """Acar et al. 2021, algorithm 1, steps in place of the exact minimum; nodes weigh as many as they have examples."""
    x, g = f.start, [zeros(f.start) for _ in f.nodes]
    total, weights = zeros(f.start), []
    for who in f.who:
        ys = [f.local(x, k, more=lambda y, k=k, x=x: {n: -g[k][n] + alpha * (y[n] - x[n]) for n in y}) for k in who]
        for k, y in zip(who, ys, strict=True):
            g[k] = moved(g[k], minus(y, x), -alpha)
            total = moved(total, minus(y, x), -alpha * f.sizes[k])
            weights.append(f.sizes[k])
        h = moved(zeros(x), total, len(weights) / sum(weights) / len(f.nodes))
        x = moved(mean(ys, [f.sizes[k] for k in who]), h, -1 / alpha)
    return x


def moon(f: Federation, *, mu: float, temperature: float) -> Params:
    previous: dict[int, Params] = {}
    x = f.start
    for who in f.who:

        def contrastive(p, X, y, *, k, x=x, previous=previous):
            z, old = represent(p, X), previous.get(k, x)
            near = torch.exp(cosine_similarity(z, represent(x, X)) / temperature)
            far = torch.exp(cosine_similarity(z, represent(old, X)) / temperature)
            return loss(p, X, y) + mu * -torch.log(near / (near + far)).mean()

        ys = [f.local(x, k, of=lambda p, X, y, k=k: contrastive(p, X, y, k=k)) for k in who]
        previous |= dict(zip(who, ys, strict=True))
        x = mean(ys, [f.sizes[k] for k in who])
    return x


def fedexp(f: Federation, *, eps: float) -> Params:
    def square(p):
        return sum(float((each**2).sum()) for each in p.values())

    def server(x, who, ys):
        changes = [minus(y, x) for y in ys]
        p = [f.sizes[k] / sum(f.sizes[k] for k in who) for k in who]
        delta = mean(changes, p)
        step = sum(each * square(d) for each, d in zip(p, changes, strict=True)) / (2 * (square(delta) + eps))
        return moved(x, delta, max(1.0, step))

    return f.averaged(lambda x, k: f.local(x, k), server)


def server_optimizer(
    f: Federation, name: str, *, lr: float, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3
):
    """Reddi et al. 2021, algorithm 2."""
    m, v = zeros(f.start), {n: torch.full_like(each, tau**2) for n, each in f.start.items()}

    def server(x, who, ys):
        after = {}
        for n, mean_of in mean(ys, [f.sizes[k] for k in who]).items():
            d = mean_of - x[n]
            m[n] = d if name == "adagrad" else beta1 * m[n] + (1 - beta1) * d
            if name == "adagrad":
                v[n] = v[n] + d**2
            elif name == "yogi":
                v[n] = v[n] - (1 - beta2) * d**2 * torch.sign(v[n] - d**2)
            after[n] = x[n] + lr * m[n] / (v[n].sqrt() + tau)
        return after

    return f.averaged(lambda x, k: f.local(x, k), server)


def qfedavg(f: Federation, *, q: float) -> Params:
    def server(x, who, ys):
        delta, slopes = zeros(x), 0.0
        for k, y in zip(who, ys, strict=True):
            value = float(loss(x, *f.nodes[k])) + 1e-10
            change = {n: (x[n] - y[n]) / f.lr for n in x}
            square = sum(float((each**2).sum()) for each in change.values())
            delta = moved(delta, change, f.sizes[k] * value**q)
            slopes += f.sizes[k] * (q * value ** (q - 1) * square + value**q / f.lr)
        return moved(x, delta, -1 / slopes)

    return f.averaged(lambda x, k: f.local(x, k), server)


def fedsam(f: Federation, *, rho: float) -> Params:
    def node(x, k):
        X, y = f.nodes[k]
        for _ in range(f.steps):
            g = gradient(x, lambda leaves: loss(leaves, X, y))
            length = sum(float((each**2).sum()) for each in g.values()) ** 0.5
            worst = gradient(moved(x, g, rho / length), lambda leaves: loss(leaves, X, y))
            x = moved(x, worst, -f.lr)
        return x

    return f.averaged(node)


def of_logits(f: Federation, change) -> Params:
    """A loss of changed logits: change(logits, counts)."""

    def node(x, k):
        counts = torch.bincount(f.nodes[k][1], minlength=4)
        return f.local(x, k, of=lambda p, X, y: cross_entropy(change(logits_of(p, X), counts), y))

    return f.averaged(node)


def fedrs(f: Federation, *, alpha: float) -> Params:
    return of_logits(f, lambda z, n: torch.stack([z[:, c] * (1 if n[c] else alpha) for c in range(4)], dim=1))


def fedlc(f: Federation, *, tau: float) -> Params:
    def change(z, n):
        return torch.stack([z[:, c] - (tau * float(n[c]) ** -0.25 if n[c] else torch.inf) for c in range(4)], dim=1)

    return of_logits(f, change)


def sliced(f: Federation, ratios, *, rolls: bool = False, seed: int | None = None) -> Params:
    """Diao et al. 2021, with the Scaler; Alam et al. 2022, eq. 2, if it rolls; Horvath et al. 2021 with a seed."""
    x = f.start
    for number, who in enumerate(f.who, 1):
        total, weight = zeros(x), zeros(x)
        for k in who:
            ratio = ratios[k % len(ratios)]
            count = max(math.floor(5 * ratio), 1) if rolls else math.ceil(5 * ratio)
            units = sorted((number - 1 + j) % 5 for j in range(count)) if rolls else list(range(count))
            rows = {
                "body.weight": (units,),
                "body.bias": (units,),
                "head.weight": (slice(None), units),
                "head.bias": (),
            }
            scale = ratio if not rolls and seed is None else 1.0
            draws = None if seed is None else rng_for(seed, purpose="fjord", round_number=number, node=k)
            of = partial(_sliced_loss, scale, [each for each in ratios if each <= ratio], draws)
            y = f.local({n: x[n][rows[n]] for n in x}, k, of=of)
            for n in x:
                total[n][rows[n]] += f.sizes[k] * y[n]
                weight[n][rows[n]] += f.sizes[k]
        x = {n: torch.where(weight[n] > 0, total[n] / weight[n].clamp(min=1), x[n]) for n in x}
    return x


def _sliced_loss(scale, ratios, draws, params, X, y):
    count = len(params["body.bias"]) if draws is None else math.ceil(5 * ratios[draws.integers(len(ratios))])
    body = (X @ params["body.weight"][:count].T + params["body.bias"][:count]) / scale
    return cross_entropy(torch.tanh(body) @ params["head.weight"][:, :count].T + params["head.bias"], y)
