"""Private selection: the best of a random number of private runs, for two or three times the epsilon of one run.

Choosing hyper-parameters from the results of many private fits costs the sum of all fits. If instead the number of runs
is random and stays secret, and only the best run is published, the whole search costs (2 + eta) times the epsilon of
one run, whatever the number of runs.

*Law.* A run draws a candidate and publishes (score, model), epsilon-private as a whole. K runs are made, all alike and
independent, with P(K = k) in proportion to (1 - gamma)^k times 1/k (eta = 0, the logarithmic distribution) or times 1
(eta = 1, the geometric one); the run of the highest score is published, of equal ones the first.

*Loss*: (2 + eta) epsilon, pure. *Relation*: that of the runs.

*Proof.* Order the outcomes of a run by score, equal scores at random: as all runs have one distribution, the first of
equal runs is a random one. Let Q(y) be the probability of an outcome y, and A(t) = Q(below y) + t Q(y) for t in [0, 1].
With f(x) = E[x^K], the search publishes y with probability

    f(Q(up to y)) - f(Q(below y)) = Q(y) * integral over t in [0, 1] of f'(A(t)).

f'(x) is proportional to (1 - (1 - gamma) x)^-(1 + eta), and 1 - (1 - gamma) A(t) = (1 - A(t)) + gamma A(t), where both
A(t) and 1 - A(t) are probabilities of events of a run (below y, or y and a coin of probability t; and all else). Going
to a neighbor none of them changes by more than a factor exp(epsilon), so neither does their weighted sum, f'(A(t))
changes by at most exp((1 + eta) epsilon), Q(y) by at most exp(epsilon); together exp((2 + eta) epsilon). QED.

K must stay secret: with a known K the search is a composition of K runs. The running time must stay secret, too.

Source: Liu, Talwar 2019 (arXiv:1811.07971), theorem 3.2 for the geometric distribution, 3 epsilon; Papernot, Steinke
2022 (arXiv:2110.03620), truncated negative binomial distributions, pure case, (2 + eta) epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np

Model = TypeVar("Model")
ETAS = (0, 1)


def cost_of_search(epsilon: float, *, eta: int) -> float:
    """Return the epsilon of a search whose runs are each epsilon-private: (2 + eta) epsilon.

    >>> cost_of_search(0.5, eta=0)
    1.0
    """
    return (2 + eta) * epsilon


def continuation(mean: float, *, eta: int) -> float:
    """Return the 1 - gamma with which the number of runs has this mean; the mean is above 1.

    >>> round(continuation(10.0, eta=1), 9)
    0.9
    """
    if eta not in ETAS or not 1 < mean < math.inf:
        raise ValueError(f"eta = {eta!r}, mean = {mean!r}: must be one of {ETAS}, and a number above 1")
    if eta == 1:
        return 1 - 1 / mean
    low, high = 0.0, 1.0
    for _ in range(200):  # the mean c / ((1 - c) log(1 / (1 - c))) grows with c
        middle = (low + high) / 2
        found = math.inf if middle == 1 else -middle / ((1 - middle) * math.log1p(-middle)) if middle else 1.0
        low, high = (middle, high) if found < mean else (low, middle)
    return low


def number_of_runs(mean: float, *, eta: int, rng: np.random.Generator) -> int:
    """Return a random number of runs, 1 or more, with this mean; it must stay secret.

    Parameters
    ----------
    mean : float
        Mean number of runs, above 1.
    eta : {0, 1}
        0: logarithmic distribution; 1: geometric.
    rng : numpy.random.Generator
        Source of the number; to protect data it must be fresh, and not be kept.
    """
    going_on = continuation(mean, eta=eta)
    return int(rng.logseries(going_on) if eta == 0 else rng.geometric(1 - going_on))


def best_of(run: Callable[[], tuple[float, Model]], *, runs: int) -> tuple[float, Model]:
    """Return score and model of the best of several runs, the first of equal ones; no other run is kept."""
    best = run()
    for _ in range(runs - 1):
        other = run()
        if other[0] > best[0]:
            best = other
    return best
