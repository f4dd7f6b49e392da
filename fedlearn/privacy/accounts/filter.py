"""What is left of a budget where each mechanism is chosen after the answers of all before: fully adaptive filters.

A server that sees answers before it chooses the next noise multiplier is not covered by the account of fixed rounds. A
*filter* is: it admits a mechanism only if the sum of all divergences stays below a bound that was fixed beforehand.

*Claim.* Whatever admitted mechanisms are chosen after whatever answers, all answers together are (epsilon,
delta)-private.

*Proof.* The first part, which is chosen before any Gaussian answer, fixes the yardstick:

1. Without sampling, *Gaussian*: the sum of rounds / z^2 stays at most mu^2, where mu is the largest with which Gaussian
   noise is private at epsilon and delta. This is a valid filter (Smith, Thakurta 2022, arXiv:2210.17520, theorem 3;
   Koskela, Tobaben, Honkela 2022, arXiv:2209.15596). Later parts count as if they were not sampled: sampling only
   lowers a loss.
2. With sampling, *Renyi*, at the one order a at which the part's epsilon is smallest: the sum of rho(a) stays at most
   the largest divergence that is private at epsilon and delta (Feldman, Zrnic 2021, arXiv:2008.11193, theorem 3.1).
   The order is fixed with the first part; the best of many orders, picked at the end, would need a delta for each.
   *Skellam* noise, which is never sampled, is measured so, too, at a whole order, at which Gaussian parts count after
   it. After a Gaussian first part no Skellam part is admitted.
3. With sampling, *alone*: a part that fits by its privacy loss distribution but not by 2. is admitted, and no other
   part after it. All is then fixed before the first answer, and the distribution's account holds.

Which of the three holds follows from the first part, all of whose rounds are fixed beforehand, and from the budget that
was left then. *Pure* epsilons of other mechanisms are taken off the budget: those before the first part, as the
likelihood ratio of these answers is bounded for every outcome, and what is left of epsilon bounds the rest at delta;
those after it, as a pure loss adds its epsilon to a divergence of any order (3.: to the loss itself). In the first case
they count so, too: a likelihood ratio of at most exp(pure) times a Gaussian one that is private at (epsilon - pure,
delta) is private at (epsilon, delta). Fewer rounds than were admitted lose less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from fedlearn.privacy.accounts.analytic import epsilon_of_mu
from fedlearn.privacy.accounts.epsilons import check, epsilon_of
from fedlearn.privacy.accounts.renyi import epsilon_at, epsilon_by_renyi, orders_for, renyi
from fedlearn.privacy.accounts.repeated_gaussian import GaussianRounds, merged

SLACK = 1e-9  # relative: calibrated noise fits its own budget up to rounding
FARTHEST = (
    3.0  # epsilon by divergences, relative to the budget, up to which loss distributions are asked: they take seconds
)
Yardstick = Literal["gaussian", "renyi", "alone"]


@dataclass(frozen=True, slots=True)
class RdpFilter:
    """The Gaussian mechanisms that a budget has admitted, and whether it admits another one.

    Parameters
    ----------
    epsilon : float
        Budget of all mechanisms together, above 0, in nats.
    delta : float
        Probability in (0, 1) of the budget.
    parts : tuple of GaussianRounds, default=()
        Admitted mechanisms, in the order in which they were chosen.
    plan : GaussianRounds, optional
        Mechanism of the first part with all rounds that were fixed before the first answer; the first part itself
        unless given.
    pure, pure_before : float, default=0.0
        Sum of the pure epsilons of other mechanisms: of all so far, and of those before the first part.

    Examples
    --------
    >>> budget = RdpFilter(8.0, 1e-5)
    >>> run = GaussianRounds(4.7, 30)
    >>> budget.admits(run), budget.having(run).admits(run), budget.having(run).having(run).admits(run)
    (True, True, False)
    """

    epsilon: float
    delta: float
    parts: tuple[GaussianRounds, ...] = ()
    plan: GaussianRounds | None = None
    pure: float = 0.0
    pure_before: float = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for a delta outside of (0, 1)."""
        check(delta=self.delta, accountant="rdp")

    def having(self, part: GaussianRounds) -> RdpFilter:
        """Return the filter after this part."""
        return replace(self, parts=(*self.parts, part)) if part.rounds else self

    def admits(self, part: GaussianRounds) -> bool:
        """Return whether all parts and this one together stay within the budget, whatever was chosen when."""
        return self.having(part).holds()

    def holds(self) -> bool:
        """Return whether all parts together stay within the budget."""
        if self.yardstick != "alone":
            return self.spent() <= self.epsilon * (1 + SLACK)
        (only, *others), first = merged(self.parts), self._first
        is_planned = not others and only.rounds <= first.rounds and replace(only, rounds=first.rounds) == first
        return is_planned and self.pure + epsilon_of([first], delta=self.delta) <= self.epsilon * (1 + SLACK)

    def spent(self, delta: float | None = None) -> float:
        """Return epsilon of all mechanisms at the budget's delta, or at another one."""
        at = self.delta if delta is None else delta
        if not self.parts:
            return self.pure
        if any(part.is_skellam for part in self.parts) and not self._first.is_skellam:
            return math.inf
        if self.yardstick == "gaussian":
            return self.pure + epsilon_of_mu(math.hypot(*(part.gaussian_mu for part in self.parts)), at)
        if self.yardstick == "alone":
            return self.pure + epsilon_of(self.parts, delta=at)
        order = _best_order(self._first, self.delta)
        return self.pure + epsilon_at(math.fsum(renyi(part, order) for part in self.parts), order, at)

    @property
    def yardstick(self) -> Yardstick:
        """The measure of all parts, which follows from the first one, and from the budget that was left then."""
        if self.parts and self._first.is_skellam:
            return "renyi"
        if not self.parts or self._first.sampling_rate == 1:
            return "gaussian"
        left = (self.epsilon - self.pure_before) * (1 + SLACK)
        divergence = epsilon_by_renyi([self._first], self.delta)
        if not left < divergence <= FARTHEST * left:
            return "renyi"
        return "alone" if epsilon_of([self._first], delta=self.delta) <= left else "renyi"

    @property
    def _first(self) -> GaussianRounds:
        return self.plan or self.parts[0]


def _best_order(part: GaussianRounds, delta: float) -> float:
    return min(orders_for([part]), key=lambda order: epsilon_at(renyi(part, order), order, delta))
