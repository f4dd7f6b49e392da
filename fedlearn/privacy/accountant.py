"""The account of one privacy budget, asked before the data is touched.

Pure epsilon. Sequential composition adds (Dwork, Roth 2014, theorem 3.16); mechanisms on disjoint parts of the data
cost the maximum (McSherry 2009, theorem 4).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from fedlearn.privacy.budget import NeighboringRelation, PrivacySpent, PrivacyUnit, SpentLine, as_plain, summed
from fedlearn.words.errors import BudgetExceeded

SLACK = 1e-9  # relative; shares of a budget, added up again, miss it by some 1e-16 each


class PrivacyAccountant:
    """Keeps one budget; refuses what does not fit, before anything is published.

    Parameters
    ----------
    budget : float
        The ceiling, an epsilon above 0, in nats; ``math.inf``: none.
    relation : NeighboringRelation, default=NeighboringRelation.ADD_REMOVE
        Between which data sets the budget bounds the loss.
    unit : PrivacyUnit, default=PrivacyUnit.RECORD
        Whose data it protects.

    Attributes
    ----------
    remaining : float
        What is left of the budget, never below 0.
    spent : PrivacySpent
        What has been booked so far; secure only if every line was.

    References
    ----------
    .. [1] Dwork, Roth 2014, theorem 3.16: sequential composition.
    .. [2] McSherry 2009, theorem 4: parallel composition.

    Examples
    --------
    >>> accountant = PrivacyAccountant(1.0)
    >>> accountant.spend(0.4, what="root split", level=0)
    >>> accountant.spend_parallel([0.1, 0.6], what="two disjoint children", level=1)
    >>> accountant.remaining
    0.0
    """

    def __init__(
        self,
        budget: float,
        relation: NeighboringRelation = NeighboringRelation.ADD_REMOVE,
        unit: PrivacyUnit = PrivacyUnit.RECORD,
    ) -> None:
        if not budget > 0:
            raise ValueError(f"budget = {budget!r}: must be an epsilon above 0 (math.inf for no ceiling)")
        self.budget = float(budget)
        self.relation = NeighboringRelation(relation)
        self.unit = PrivacyUnit(unit)
        self._lines: list[SpentLine] = []

    def spend(self, epsilon: float, *, what: str, level: int | None = None, is_secure: bool = False) -> None:
        """Book epsilon on top of all that was booked.

        Parameters
        ----------
        epsilon : float
            In nats; 0 or more.
        what : str
            What it pays for, in words.
        level : int or None, default=None
            The tree level it is spent on.
        is_secure : bool, default=False
            Whether the noise to be drawn is secure (``noise.is_secure``); it stands in the report.

        Raises
        ------
        BudgetExceeded
            If it does not fit; nothing is booked.
        """
        if not epsilon >= 0:
            raise ValueError(f"epsilon = {epsilon!r} for {what}: must be 0 or more")
        if self.would_exceed(epsilon):
            raise BudgetExceeded(what, epsilon=float(epsilon), remaining=self.remaining)
        self._lines.append(SpentLine(what, float(epsilon), level, is_secure))

    def spend_parallel(
        self,
        epsilons: Iterable[float],
        *,
        what: str,
        level: int | None = None,
        is_secure: bool = False,
        fixed_parts: bool = False,
    ) -> None:
        """Book what mechanisms on disjoint parts of the data cost together: the maximum.

        A record that is added or removed lies in one part. A record that is *replaced* may leave one part and enter
        another, whose sizes then change: what a mechanism loses when one of n records is replaced says nothing of
        that. So with an account in replaced records the parts must be fixed.

        Parameters
        ----------
        epsilons : iterable of float
            What each part costs; at least one.
        what : str
            What they pay for, in words.
        level : int or None, default=None
            The tree level they are spent on.
        is_secure : bool, default=False
            Whether the noise to be drawn is secure.
        fixed_parts : bool, default=False
            Whether a record's part is fixed by something that replacing it does not change, as its row number.

        Raises
        ------
        BudgetExceeded
            If they do not fit together; nothing is booked.
        ValueError
            If the account counts in replaced records and the parts are not fixed.
        """
        costs = [float(epsilon) for epsilon in epsilons]
        if not costs or not all(cost >= 0 for cost in costs):
            raise ValueError(f"epsilons for {what}: must be at least one number, each 0 or more")
        if self.relation is NeighboringRelation.REPLACE and not fixed_parts:
            raise ValueError(
                f"{what}: a replaced record may move to another part, which these epsilons do not cover; "
                "say fixed_parts=True if it cannot, or open an account in records added or removed"
            )
        self.spend(max(costs), what=what, level=level, is_secure=is_secure)

    def require(self, relation: NeighboringRelation, unit: PrivacyUnit, *, by: str) -> None:
        """Accept in silence whoever counts as this account does.

        Parameters
        ----------
        relation, unit : NeighboringRelation, PrivacyUnit
            In what the epsilons count that are to be booked.
        by : str
            What is to spend them, in words.

        Raises
        ------
        ValueError
            If the account counts in something else: its epsilon would be said to hold where it does not.
        """
        for ours, theirs in ((self.relation, relation), (self.unit, unit)):
            if ours is not theirs:
                raise ValueError(
                    f"accountant: counts in {ours.value!r}, {by} in {theirs.value!r}: open an account of that kind"
                )

    def __copy__(self) -> PrivacyAccountant:
        """Return the account itself: a copy would be a second budget."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacyAccountant:
        """Return the account itself: an estimator that scikit-learn clones spends from the same budget, not another."""
        return self

    def __reduce__(self) -> Any:
        """Refuse: what another process books on its copy, as one of ``n_jobs``, nobody would see here."""
        raise TypeError(
            "an account cannot be pickled, as a copy would be a second budget: fit in one process (n_jobs=1), and "
            "before storing an estimator, estimator.set_params(accountant=None)"
        )

    def would_exceed(self, epsilon: float) -> bool:
        """Whether booking epsilon would go over the budget."""
        total = self._total(epsilon)
        return total > self.budget * (1 + SLACK) or (math.isinf(total) and math.isfinite(self.budget))

    @property
    def remaining(self) -> float:
        """What is left of the budget, never below 0."""
        return math.inf if math.isinf(self.budget) else max(self.budget - self._total(), 0.0)

    @property
    def spent(self) -> PrivacySpent:
        """What has been booked so far; secure only if every line was."""
        is_secure = all(line.is_secure for line in self._lines)
        return PrivacySpent(self._total(), self.relation, self.unit, is_secure, tuple(self._lines))

    def _total(self, *more: float) -> float:
        return summed([*(line.epsilon for line in self._lines), *more])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values to store; ``from_dict`` goes on with the same account."""
        return {"budget": as_plain(self.budget), "spent": self.spent.to_dict()}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> PrivacyAccountant:
        """Read back what ``to_dict`` wrote, lines included."""
        spent = PrivacySpent.from_dict(stored["spent"])
        accountant = cls(float(stored["budget"]), spent.relation, spent.unit)
        accountant._lines = list(spent.lines)
        if accountant._total() > accountant.budget * (1 + SLACK):
            raise ValueError(f"spent = {accountant._total():g}: more than the stored budget {accountant.budget:g}")
        return accountant
