"""Algorithms with models of the nodes' own. Each returns the shared parameters, and the model that each node uses."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from tests.oracles.algorithms.federation import Federation, Normed, Params, gradient, loss, mean, minus, moved, only

Both = tuple[Params, list[Params]]


def in_parts(f: Federation, own: str, node) -> Both:
    """Return the walk of nodes that keep a part: node(whole model, k) trains it, the rest is averaged."""
    x, kept = f.start, [only(f.start, own) for _ in f.nodes]
    for who in f.who:
        ys = [node({**x, **kept[k]}, k) for k in who]
        kept = [only(y, own) for y in ys]
        x = mean(ys, [f.sizes[k] for k in who])
    return {n: each for n, each in x.items() if not n.startswith(own)}, [{**x, **each} for each in kept]


def fedper(f: Federation) -> Both:
    return in_parts(f, "head", lambda x, k: f.local(x, k))


def lgfedavg(f: Federation) -> Both:
    return in_parts(f, "body", lambda x, k: f.local(x, k))


def fedrep(f: Federation, *, head_steps: int) -> Both:
    return in_parts(f, "head", lambda x, k: f.local(f.local(x, k, part="head", steps=head_steps), k, part="body"))


def fedbabu(f: Federation, *, head_steps: int) -> Both:
    def node(x, k):
        first = {**x, **only(f.start, "head")}
        return {**f.local(first, k, part="body"), **only(f.local(first, k, part="head", steps=head_steps), "head")}

    return in_parts(f, "head", node)


def ditto(f: Federation, *, pull: float) -> Both:
    x, own = f.start, [f.start for _ in f.nodes]
    for who in f.who:
        own = [f.local(v, k, more=lambda y, x=x: {n: pull * (y[n] - x[n]) for n in y}) for k, v in enumerate(own)]
        x = mean([f.local(x, k) for k in who], [f.sizes[k] for k in who])
    return x, own


def perfedavg(f: Federation, *, alpha: float) -> Both:
    """The halves of a batch are in the order that the run draws; here both are the whole, of doubled examples."""

    def node(x, k):
        X, y = f.nodes[k]
        for _ in range(f.steps):
            ahead = moved(x, gradient(x, lambda p: loss(p, X, y)), -alpha)
            x = moved(x, gradient(ahead, lambda p: loss(p, X, y)), -f.lr)
        return x

    x, own = f.start, []
    for who in f.who:
        ys = [node(x, k) for k in who]
        own = [moved(y, gradient(y, lambda p, k=k: loss(p, *f.nodes[k])), -alpha) for k, y in zip(who, ys, strict=True)]
        x = mean(ys, [f.sizes[k] for k in who])
    return x, own


def fedala(f: Federation, *, eta: float) -> Both:
    """Zhang et al. 2023, algorithm 1, the head alone, on all examples; at most 20 passes the first time."""
    x, own, weights = f.start, [], [None for _ in f.nodes]
    for who in f.who:
        begun = [x for _ in who]
        for k in who if own else ():
            first, change, losses = weights[k] is None, only(minus(x, own[k]), "head"), []
            w = {n: torch.ones_like(each) for n, each in change.items()} if first else weights[k]
            for _ in range(20 if first else 1):
                start = {**x, **{n: own[k][n] + change[n] * w[n] for n in w}}
                losses.append(float(loss(start, *f.nodes[k])))
                g = gradient(start, lambda p, k=k: loss(p, *f.nodes[k]))
                w = {n: (w[n] - eta * g[n] * change[n]).clamp(0, 1) for n in w}
                if len(losses) > 5 and np.std(losses[-5:]) < 0.1:
                    break
            weights[k], begun[k] = w, {**x, **{n: own[k][n] + change[n] * w[n] for n in w}}
        own = [f.local(begun[k], k) for k in who]
        x = mean(own, [f.sizes[k] for k in who])
    return x, own


def local(f: Federation) -> Both:
    own = [f.start for _ in f.nodes]
    for _ in f.who:
        own = [f.local(v, k) for k, v in enumerate(own)]
    return mean(own, f.sizes), own


def fedbn(f: Federation) -> Both:
    """Modules of torch, with torch's own optimizer; all but the norm is averaged."""
    nets = [Normed() for _ in f.nodes]
    for net in nets:
        net.load_state_dict(f.start)
    for _ in f.who:
        for net, (X, y) in zip(nets, f.nodes, strict=True):
            optimizer = torch.optim.SGD(net.parameters(), lr=f.lr, momentum=f.momentum)
            net.train()
            for _ in range(f.steps):
                optimizer.zero_grad()
                cross_entropy(net(X), y).backward()
                optimizer.step()
        shared = {
            n: a for n, a in mean([copy.deepcopy(net.state_dict()) for net in nets], f.sizes).items() if "norm" not in n
        }
        for net in nets:
            net.load_state_dict({**net.state_dict(), **shared})
    return shared, [net.eval().state_dict() for net in nets]
