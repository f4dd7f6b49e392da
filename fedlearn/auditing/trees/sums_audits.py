"""Audit cases of the sums: single steps, on neighbors whose outputs differ as much as we can make them.

*Sums*: the extra record lies in one cell, with the largest possible gradient, and loses the whole epsilon of the sums.
With three classes the event has two numbers, not six: an event of six is too rare to be drawn. *Choice*: the extra
record moves the utility of one partition up by 1 and the other's not at all, or down.

*A whole model of one round* has no case: no event that is likely enough shows its claim. Its start has 0.02 of epsilon,
its choice 0.29, its sums 0.69. Between no record and one record the choice reveals nothing, so at most 0.71 could show;
8,000 fits showed 0.05. If the choice does reveal something, the step has to lie beyond a cut of probability 0.05 on one
data set and 0.02 on the other: to show 0.9 takes some 400,000 fits of each, at about a millisecond. The exact auditor
(`sums_replays.py`) covers the composition of rounds, and finds errors of 5 %.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.auditing.cases import AuditCase, Release
from fedlearn.privacy import geometric
from fedlearn.privacy.noise import Noise
from fedlearn.private_trees.sums.bayes import counts_of, released_counts
from fedlearn.private_trees.sums.boost_plan import BoostPlan
from fedlearn.private_trees.sums.boosting import choose
from fedlearn.private_trees.sums.counting import cell_sums
from fedlearn.private_trees.sums.losses import UNIT, LogCosh, Logistic, Loss, pairs_of
from fedlearn.private_trees.sums.record_partitions import Partitions
from fedlearn.private_trees.sums.views import Views

VIEWS = Views.declare(2, bounds=None, categories=[2, 2])
PARTITIONS = Partitions.of(VIEWS, pairs=False)
Records = list[tuple[int, int, float]]  # codes of two columns, target; code 2 = missing
EMPTY: Records = []
ONE: Records = [(0, 0, 1.0)]
LACKS_ALL: Records = [(2, 2, 1.0)]
# Without the last record each column has two cells of one record each, with opposite gradients. The last record cancels
# the gradient of its cell of column 0, and doubles the gradient of its cell of column 1.
APART: Records = [(0, 0, 1.0), (1, 1, 0.0)]
PULLED: Records = [*APART, (0, 1, 0.0)]


def _data(records: Records) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    table = np.array(records, np.float64).reshape(-1, 3)
    return np.ascontiguousarray(table[:, :2].T.astype(np.uint8)), table[:, 2]


def _sums(records: Records, loss: Loss, score: float | list[float], epsilon: float = 1.0) -> Release:
    """Return (draws, all numbers) the release of a round for the first partition, with equal scores of all records."""
    codes, target = _data(records)
    pairs = pairs_of(loss, np.full((len(target), loss.outputs), score), target)
    sums = cell_sums(codes, PARTITIONS, 0, pairs).ravel()

    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        return geometric(np.tile(sums, (draws, 1)), sensitivity=UNIT, epsilon=epsilon, noise=noise)

    return draw


def _first_sums(records: Records, loss: Loss) -> Release:
    sums = loss.first_sums(_data(records)[1])
    return lambda draws, noise: geometric(np.tile(sums, (draws, 1)), sensitivity=UNIT, epsilon=1.0, noise=noise)


def _choice(records: Records) -> Release:
    codes, target = _data(records)
    loss = Logistic(2)
    pairs = pairs_of(
        loss, np.where(target == 1, -20.0, 20.0)[:, None], target
    )  # all predictions are as wrong as possible
    plan, both = BoostPlan(1, choice=1.0, sums=1.0), np.arange(2)

    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        return np.array([choose(codes, PARTITIONS, both, pairs, loss, plan, noise) for _ in range(draws)])

    return draw


def _counts(records: Records) -> Release:
    codes, target = _data(records)
    counts = counts_of(codes, target, VIEWS, 2)

    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        wide = np.tile(counts.ravel(), (draws, 1))
        return released_counts(wide, VIEWS, epsilon=1.0, noise=noise)

    return draw


def _case(release: Callable[..., Release], pair: tuple[Records, Records], *more: Any, cost: int = 1) -> AuditCase:
    return AuditCase(1.0, release(pair[0], *more), release(pair[1], *more), cost=cost)


SUMS_CASES: dict[str, AuditCase] = {
    "boosting, sums of a cell, classes": _case(_sums, (EMPTY, ONE), Logistic(2), -20.0),
    "boosting, sums of a cell, three classes": _case(_sums, (EMPTY, ONE), Logistic(3), [20.0, -20.0, -20.0]),
    "boosting, sums of a cell, a number": _case(_sums, (EMPTY, ONE), LogCosh(0.1), 0.9),
    "boosting, sums of a cell, values missing": _case(_sums, (EMPTY, LACKS_ALL), Logistic(2), -20.0),
    "boosting, first sums": _case(_first_sums, (EMPTY, ONE), LogCosh(0.1)),
    "boosting, choice of cells": _case(_choice, (APART, PULLED), cost=20),
    "naive Bayes, counts": _case(_counts, (EMPTY, ONE)),
}
"""Each must stay below its claim."""

SUMS_PLANTED_BUGS: dict[str, AuditCase] = {
    "planted: half the noise on the sums of a cell": _case(_sums, (EMPTY, ONE), Logistic(2), -20.0, 2.0),
}
"""Gives more than it claims: the auditor must refute it."""
