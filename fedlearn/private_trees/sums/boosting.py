"""Private boosting: each round chooses a partition, releases a noisy sum of each of its cells, and takes a step.

Source: gradient boosting, Friedman 2001 (doi:10.1214/aos/1013203451); of additive functions of one or two columns,
which Lou et al. 2013 (doi:10.1145/2487575.2487579) call GA2M, with private histograms as in DP-EBM, Nori et al. 2021
(arXiv:2106.09680). Ours: pure epsilon, the private choice of the partition as in MWEM (Hardt, Ligett, McSherry 2012,
arXiv:1012.4763), curvatures that cost nothing, and the rule for the number of rounds.

*Why it is private*, add or remove one record. Every release may depend on the earlier ones.

- *Start*, ``START_SHARE`` of epsilon: sums to which a record adds 1 in the L1 norm; geometric noise.
- *Bins* of numeric columns, ``SHARE`` of epsilon, where the published number of records says that they are worth it:
  one histogram for each column, geometric noise (`bins`).
- *Choice*, one for each round: permute-and-flip on utilities that change by at most 1 (`counting.unbalance`), less a
  penalty for the number of cells, which is public; not monotone.
- *Sums*, one for each cell: a record lies in one cell, even with missing values, and adds a row of L1 norm at most 1
  there (`losses`); geometric noise on integers.

These releases compose sequentially; the plan's shares add up to epsilon. Steps are post-processing. The score of a
record follows from the steps and from the record itself, whose influence is within the sums' sensitivity. The plan
follows from the published start. The pairs of columns from which a round may choose are drawn without data.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy import Noise, PrivacyAccountant, geometric, permute_and_flip
from fedlearn.private_trees.sums.additive import AdditiveModel, FloatArray, step_of
from fedlearn.private_trees.sums.bins import SHARE, are_worth_it, private_edges
from fedlearn.private_trees.sums.boost_plan import PAIRS_A_ROUND, START_SHARE, BoostPlan, plan_for
from fedlearn.private_trees.sums.counting import cell_sums, unbalance
from fedlearn.private_trees.sums.losses import UNIT, Loss, pairs_of
from fedlearn.private_trees.sums.record_partitions import Partitions
from fedlearn.private_trees.sums.rounds_search import rate_for
from fedlearn.private_trees.sums.views import Codes, Views
from fedlearn.private_trees.weights import Whole, weighed

PENALTY = (
    0.6  # of a cell, in standard deviations of its sum's noise: the contribution of noise alone to the next utility
)


def boost(
    X: Any,
    target: FloatArray,
    *,
    whole: Whole = None,
    views: Views,
    fine: Views,
    pairs: bool,
    loss: Loss,
    epsilon: float,
    rounds: int | None,
    accountant: PrivacyAccountant,
    noise: Noise,
    rng: np.random.Generator,
) -> tuple[Views, AdditiveModel]:
    """Return the views, with private bins if they are worth it, and the boosted model; books epsilon.

    Parameters
    ----------
    X, target
        (rows, features) and (rows,).
    whole
        (rows,) weights of the records, factors of their contributions to sums and utilities, rounded towards 0; None:
        1.
    views, fine
        Declared views of the columns; fine grids of the numeric columns.
    pairs, loss
        Whether partitions may use two columns; the loss to minimize.
    epsilon, rounds
        Privacy loss, and number of rounds; None: by the rule.
    accountant
        Account that covers epsilon.
    noise, rng
        Randomness that protects the records, and randomness that needs no protection.
    """
    first = START_SHARE * epsilon
    accountant.spend(first, what="number of records and start", is_secure=noise.is_secure)
    sums = loss.first_sums(target) if whole is None else weighed(loss.first_of(target), whole).sum(axis=0)
    released = in_records(geometric(sums, sensitivity=UNIT, epsilon=first, noise=noise))
    n, left = float(released.sum()), _less(epsilon, START_SHARE)
    if are_worth_it(fine, SHARE * epsilon, n):
        accountant.spend(SHARE * epsilon, what="bins of numeric columns", is_secure=noise.is_secure)
        views = views.with_edges(private_edges(fine.encode(X), fine, epsilon=SHARE * epsilon, noise=noise, whole=whole))
        left = _less(epsilon, START_SHARE + SHARE)
    plan = plan_for(left, n, rounds)
    for what, each in (("choices of cells", plan.choice), ("sums of cells", plan.sums)):
        accountant.spend(plan.rounds * each, what=f"{what}, {plan.rounds} rounds", is_secure=noise.is_secure)
    codes, partitions = views.encode(X), Partitions.of(views, pairs=pairs)
    start = loss.start(released)
    return views, _rounds(
        codes, target, whole, start, n, partitions=partitions, loss=loss, plan=plan, noise=noise, rng=rng
    )


def _less(epsilon: float, share: float) -> float:
    return epsilon if math.isinf(epsilon) else epsilon * (1 - share)


def _rounds(
    codes: Codes,
    target: FloatArray,
    whole: Whole,
    start: FloatArray,
    n: float,
    *,
    partitions: Partitions,
    loss: Loss,
    plan: BoostPlan,
    noise: Noise,
    rng: np.random.Generator,
) -> AdditiveModel:
    score = np.tile(start, (len(target), 1))
    chosen, steps, rate, squares = [], [], rate_for(plan.rounds, loss.outputs), 0.0
    for _ in range(plan.rounds):
        pairs = weighed(pairs_of(loss, score, target), whole)
        partition = choose(codes, partitions, partitions.drawn(PAIRS_A_ROUND, rng), pairs, loss, plan, noise, squares)
        sums = cell_sums(codes, partitions, partition, pairs)
        released = in_records(geometric(sums, sensitivity=UNIT, epsilon=plan.sums, noise=noise))
        if plan.is_cut:
            squares = max(loss.squares_of(n, float(released[:, loss.outputs :].sum())), 0.0)
        step = rate * step_of(released, loss, variance_of(plan.sums))
        score += step[partitions.cell_of(partition, codes)]
        chosen.append(partition)
        steps.append(step)
    return AdditiveModel(start, tuple(chosen), tuple(steps))


def choose(
    codes: Codes,
    partitions: Partitions,
    wanted: NDArray[np.int64],
    pairs: NDArray[np.int32],
    loss: Loss,
    plan: BoostPlan,
    noise: Noise,
    squares: float = 0.0,
) -> int:
    """Return the number of a privately chosen partition of `wanted`, preferring large gradients in its cells.

    `squares` is about what the squares of all gradients add up to, from published sums. By chance alone the sums of
    C cells and K outputs then have sizes that add up to sqrt(2 / pi C K squares), which says nothing of other records.
    """
    utilities = unbalance(codes, partitions, wanted, pairs, loss.outputs)
    cost = PENALTY * math.sqrt(variance_of(plan.sums)) * partitions.cells[wanted] * loss.outputs
    cost += np.sqrt(2 / math.pi * partitions.cells[wanted] * loss.outputs * squares)
    picked = permute_and_flip((utilities - cost)[None, :], sensitivity=1.0, epsilon=plan.choice, noise=noise)
    return int(wanted[picked[0]])


def in_records(sums: NDArray[np.int64]) -> FloatArray:
    """Return sums of UNITs as numbers of records."""
    return sums / UNIT


def variance_of(epsilon: float) -> float:
    """Return the variance of the noise on one sum, in records: the one of Laplace noise, up to 1e-12."""
    return 2 / epsilon**2
