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
3. With sampling, *alone*: a part that fits by its privacy loss distribution but not by 2. is admitted, and no other
   part after it. All is then fixed before the first answer, and the distribution's account holds.

Which of the three holds follows from the first part alone. Pure epsilons of other mechanisms are taken off the budget
first: the sum of pure losses bounds the log-likelihood ratio of these answers for every outcome, and what is left of
epsilon bounds the rest at delta (`README.md`). Fewer rounds than were admitted lose less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fedlearn.privacy.accounts.analytic import epsilon_of_mu, mu_for
from fedlearn.privacy.accounts.epsilons import check, epsilon_of
from fedlearn.privacy.accounts.renyi import ORDERS, epsilon_at, epsilon_by_renyi, renyi
from fedlearn.privacy.accounts.rounds import GaussianRounds

SLACK = 1e-9  # relative: calibrated noise fits its own budget up to rounding
Yardstick = Literal["gaussian", "renyi", "alone"]


@dataclass(frozen=True, slots=True)
class RdpFilter:
    """The Gaussian mechanisms that a budget has admitted, and whether it admits another one.

    Parameters
    ----------
    epsilon : float
        Budget of all parts together, above 0, in nats; what pure mechanisms lose is taken off beforehand.
    delta : float
        Probability in (0, 1) of the budget.
    parts : tuple of GaussianRounds, default=()
        Admitted mechanisms, in the order in which they were chosen.

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

    def __post_init__(self) -> None:
        """Raise ValueError for a delta outside of (0, 1)."""
        check(delta=self.delta, accountant="rdp")

    def admits(self, part: GaussianRounds) -> bool:
        """Return whether all parts and this one together stay within the budget, whatever was chosen when."""
        if not part.rounds:
            return True
        listed = self.having(part).parts
        if self.epsilon <= 0 or (self.yardstick(listed) == "alone" and len(listed) > 1):
            return False
        return self.having(part).spent() <= self.epsilon * (1 + SLACK)

    def having(self, part: GaussianRounds) -> RdpFilter:
        """Return the filter after this part."""
        return replace(self, parts=(*self.parts, part)) if part.rounds else self

    def spent(self, delta: float | None = None) -> float:
        """Return epsilon of all parts at the budget's delta, or at another one, by the yardstick of the first part."""
        return self._measured(self.parts, self.delta if delta is None else delta)

    def yardstick(self, parts: Sequence[GaussianRounds] | None = None) -> Yardstick:
        """Return what the first part is measured by, which follows from it and the budget alone."""
        first = (self.parts if parts is None else parts)[:1]
        if not first or first[0].sampling_rate == 1:
            return "gaussian"
        return "renyi" if epsilon_by_renyi(first, self.delta) <= self.epsilon * (1 + SLACK) else "alone"

    def _measured(self, parts: Sequence[GaussianRounds], delta: float) -> float:
        if not parts:
            return 0.0
        if self.yardstick(parts) == "gaussian":
            return epsilon_of_mu(sum(part.gaussian_mu**2 for part in parts) ** 0.5, delta)
        if self.yardstick(parts) == "alone":
            return epsilon_of(parts, delta=delta)
        order = min(ORDERS, key=lambda order: epsilon_at(renyi(parts[0], order), order, self.delta))
        return epsilon_at(sum(renyi(part, order) for part in parts), order, delta)

    @property
    def mu(self) -> float:
        """The mu of Gaussian differential privacy that the budget allows."""
        return mu_for(self.epsilon, self.delta)
