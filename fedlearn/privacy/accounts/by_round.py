"""Epsilon after each round of a plan, to be drawn beside its ceiling."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

import numpy as np

from fedlearn.privacy.accounts.epsilons import by_loss_distribution, check, epsilon_of
from fedlearn.privacy.accounts.kept import kept
from fedlearn.privacy.accounts.repeated_gaussian import GaussianRounds

GRID = 1e-3  # of the losses: epsilon comes out some 5e-4 too large, in a twentieth of a second
MOST = 48  # rounds that are computed; those between take the next one's epsilon


def epsilons_by_round(plan: GaussianRounds, *, delta: float) -> list[float]:
    """Return an upper bound on epsilon after each round of a plan, (rounds,), in nats; the last one is `epsilon_of`.

    Parameters
    ----------
    plan : GaussianRounds
        Mechanism whose rounds are all fixed beforehand.
    delta : float
        Probability in (0, 1).

    Examples
    --------
    >>> [round(epsilon, 3) for epsilon in epsilons_by_round(GaussianRounds(3.28759, 30), delta=1e-5)][::10]
    [1.149, 4.422, 6.461]
    """
    check(delta=delta, accountant="pld")
    if not plan.rounds:
        return []
    whole = epsilon_of([plan], delta=delta)
    at = sorted({*np.linspace(1, plan.rounds, min(plan.rounds, MOST)).astype(int).tolist()})
    found = [min(_after(replace(plan, rounds=rounds), delta), whole) for rounds in at]
    found[-1] = whole
    return [found[bisect_left(at, number)] for number in range(1, plan.rounds + 1)]


def _after(part: GaussianRounds, delta: float) -> float:
    if part.sampling_rate == 1:
        return epsilon_of([part], delta=delta)
    return kept(("by round", part, delta), lambda: by_loss_distribution([part], delta, grid=GRID))
