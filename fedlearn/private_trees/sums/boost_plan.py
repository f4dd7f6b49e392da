"""Budget of boosting: rounds and their shares of epsilon; this folder's README has the rule and its search."""

from __future__ import annotations

from dataclasses import dataclass

START_SHARE = 0.02  # of epsilon, for the sums that give the number of records and the start
CHOICE_SHARE = 0.3  # of a round, for the choice of its partition; the rest is for its sums
ROUNDS_AT_THOUSAND = 1.85  # rounds if epsilon * records is 1000
ROUNDS_POWER = 0.7
MOST_ROUNDS = 100
PAIRS_A_ROUND = 20  # drawn without data; more pairs take longer, and make the choice noisier


@dataclass(frozen=True, slots=True)
class BoostPlan:
    """Number of rounds, and the budget of each."""

    rounds: int
    choice: float  # epsilon of a round's choice
    sums: float  # epsilon of a round's sums
    is_cut: bool = False  # whether the rule would take more rounds than `MOST_ROUNDS`: records differ more than noise


def plan_for(epsilon: float, n: float, rounds: int | None = None) -> BoostPlan:
    """Return the plan for the epsilon left after the start, and a published number of records.

    >>> plan_for(1.0, 20_000).rounds
    15
    """
    is_cut = False
    if rounds is None:
        wanted = ROUNDS_AT_THOUSAND * (epsilon * max(n, 1.0) / 1000) ** ROUNDS_POWER
        is_cut = wanted > MOST_ROUNDS
        rounds = MOST_ROUNDS if is_cut else max(round(wanted), 1)
    each = epsilon / max(rounds, 1)
    return BoostPlan(rounds, CHOICE_SHARE * each, (1 - CHOICE_SHARE) * each, is_cut)
