"""The audit of draws of many fits of DP-SGD: coins and noise are independent over records, steps, nodes and rounds.

A step is a round, and a record a node, in the words of `fedlearn.auditing.drawn`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from client.learners.learner import LocalTask
from client.learners.poisson_batches import Draws, SecureDraws, SeededDraws, draws_for
from fedlearn.auditing.drawn import why_not_coins, why_not_noise
from fedlearn.auditing.run_auditor import RunLoss
from fedlearn.data.data_spec import Examples

ROUNDS, NODES, STEPS, RECORDS, RATE = 4, 4, 25, 50, 0.2
NUMBERS, SCALE = 2001, 2.0**40  # of noise in a fit; steps
Drawing = Callable[[LocalTask], Draws]


def drawn_by(drawing: Drawing) -> RunLoss:
    """Return whether the draws of all fits are independent; infinite loss where they are not."""
    task = LocalTask(Examples(np.zeros((0, 1)), np.zeros(0, np.int64)), np.arange(0), 1, 1, 0, {})
    coins, noise = [], []
    for number in range(ROUNDS * NODES):
        draws = drawing(replace(task, round_number=1 + number // NODES, partition_id=number % NODES))
        coins += [draws.coins(RECORDS, RATE) for _ in range(STEPS)]
        noise.append(draws.noise.discrete_gaussian(SCALE, (NUMBERS,)) / SCALE)
    why = why_not_coins(np.array(coins), RATE) or why_not_noise(np.array(noise))
    return RunLoss(math.inf, why) if why else RunLoss(1.0)


class _OneCoin(SeededDraws):
    def coins(self, count: int, rate: float) -> NDArray[np.bool_]:
        return np.repeat(super().coins(1, rate), count)


class _KnownCoins(SecureDraws):
    def coins(self, count: int, rate: float) -> NDArray[np.bool_]:
        return np.random.default_rng(count).random(count) < rate


SOUND: Mapping[str, Drawing] = {
    "coins and noise of many fits": partial(draws_for, is_secure=False),
    "secure coins and noise of many fits": partial(draws_for, is_secure=True),
}
PLANTED: Mapping[str, Drawing] = {
    "one draw for all nodes": lambda task: SeededDraws(replace(task, partition_id=0)),
    "the draws of the first round in all": lambda task: SeededDraws(replace(task, round_number=1)),
    "one coin for all records": _OneCoin,
    "secure coins from a seed": lambda task: _KnownCoins(),
}


def fits() -> Iterator[tuple[str, bool, RunLoss]]:
    """Yield what the audit says of draws, as they are and with a mistake: name, whether they are sound, loss."""
    for name, drawing in {**SOUND, **PLANTED}.items():
        yield name, name in SOUND, drawn_by(drawing)
