"""The walks of rules for adapters; `wrong` names a known mistake. They are probes of the product B A."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedlearn.algorithms.adapters.flora import fresh_rows
from fedlearn.algorithms.conformance.adapter_problem import SCALE, LowRank, first, probe, target, weight
from fedlearn.algorithms.conformance.walking import Walk
from fedlearn.extend import Float64

Factors = tuple[Float64, Float64]
"""A and B."""


def steps_of(p: LowRank, i: int, down: Float64, up: Float64, *, still: int = 0, moves_a: bool = True) -> Factors:
    """Return both factors after the local steps of node i, in which the first `still` slots do not move."""
    down, up, of_a, of_b = down.copy(), up.copy(), np.zeros_like(down), np.zeros_like(up)
    for _ in range(p.steps[i]):
        error = weight() + SCALE * up @ down - target(i)
        of_a = p.momentum * of_a + SCALE * up.T @ error
        of_b = p.momentum * of_b + SCALE * error @ down.T
        if moves_a:
            down[still:] -= p.lr * of_a[still:]
        up[:, still:] -= p.lr * of_b[:, still:]
    return down, up


def walked(p: LowRank, node: Callable[[int, Float64, Float64], Factors], server: Callable[..., Factors]) -> Walk:
    """Return the walk of (A, B) = server(factors of the nodes, round)."""
    down, up = first(p.rank)
    states = []
    for number in range(1, p.rounds + 1):
        down, up = server([node(i, down, up) for i in range(len(p.steps))], number)
        states.append(probe(down, up))
    return Walk(states)


def weighted(p: LowRank, arrays: Sequence[Float64]) -> Float64:
    """Return the mean of an array of each node, by the nodes' weights."""
    return np.asarray(sum(weight * array for weight, array in zip(p.weights, arrays, strict=True)))


def cut(p: LowRank, i: int, down: Float64, up: Float64, *, begin: int = 0) -> Factors:
    """Return the factors that node i has: zero beyond its rank."""
    has = np.arange(p.rank) < begin + p.rank_of(i)
    return down * has[:, None], up * has


def apart(p: LowRank, nodes: Sequence[Factors]) -> Factors:
    """Return the means of A and B."""
    return weighted(p, [down for down, _ in nodes]), weighted(p, [up for _, up in nodes])


def fedit(p: LowRank, wrong: str = "") -> Walk:
    """Return the walk of Zhang et al. 2023."""
    return walked(p, lambda i, down, up: steps_of(p, i, down, up), lambda nodes, _: apart(p, nodes))


def ffa_lora(p: LowRank, wrong: str = "") -> Walk:
    """Return the walk of Sun et al. 2024."""
    return walked(p, lambda i, down, up: steps_of(p, i, down, up, moves_a=False), lambda nodes, _: apart(p, nodes))


def fedsa_lora(p: LowRank, wrong: str = "") -> Walk:
    """Return the walk of Guo et al. 2025."""
    (down, up), states = first(p.rank), []
    ups = [up for _ in p.steps]
    for _ in range(p.rounds):
        nodes = [steps_of(p, i, down, ups[i]) for i in range(len(p.steps))]
        down, ups = weighted(p, [each for each, _ in nodes]), [each for _, each in nodes]
        states.append(probe(down, None))
    errors = [weight() + SCALE * each @ down - target(i) for i, each in enumerate(ups)]
    return Walk(states, [float((error**2).sum()) / 2 for error in errors])


def singular(p: LowRank, nodes: Sequence[Factors], rank: int, wrong: str) -> Factors:
    """Return factors of the mean of the products, by its largest singular values."""
    scales = [p.rank / p.rank_of(i) if wrong == "alpha / r" else 1.0 for i in range(len(nodes))]
    mean = weighted(p, [scale * up @ down for scale, (down, up) in zip(scales, nodes, strict=True)])
    if wrong == "mean of factors":
        mean = weighted(p, [up for _, up in nodes]) @ weighted(p, [down for down, _ in nodes])
    left, values, right = np.linalg.svd(mean.T if wrong == "transposed" else mean)
    down, up = np.zeros((rank, len(mean))), np.zeros((len(mean), rank))
    down[: len(right)], up[:, : len(right)] = right[:rank], (left * values)[:, :rank]
    return down, up


def flexlora(p: LowRank, wrong: str = "") -> Walk:
    """Return the walk of Bai et al. 2024."""

    def server(nodes: Sequence[Factors], _: int) -> Factors:
        return apart(p, nodes) if wrong == "mean of factors" else singular(p, nodes, p.rank, wrong)

    return walked(p, lambda i, down, up: steps_of(p, i, *cut(p, i, down, up)), server)


def flora(p: LowRank, wrong: str = "") -> Walk:
    """Return the walk of Wang et al. 2024; the slots before those that nodes train stand for the merged weight."""
    held = p.rank - max(p.ranks)

    def node(i: int, down: Float64, up: Float64) -> Factors:
        return steps_of(p, i, *cut(p, i, down, up, begin=held), still=held)

    fresh = [first(p.rank)[0][held:]]

    def server(nodes: Sequence[Factors], number: int) -> Factors:
        fresh[0] = fresh_rows(fresh[0], number)
        down, up = singular(p, nodes, held, wrong)
        return np.vstack([down, fresh[0]]), np.hstack([up, np.zeros((len(up), len(fresh[0])))])

    return walked(p, node, server)
