"""The account of one privacy budget, which is asked before the data are read.

Pure epsilon. Sequential composition adds (Dwork, Roth 2014, theorem 3.16); mechanisms on disjoint parts of the data
cost the maximum (McSherry 2009, theorem 4).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from fedlearn.core.errors import BudgetExceeded
from fedlearn.privacy.budget import NeighboringRelation, PrivacySpent, PrivacyUnit, SpentLine, as_plain, summed

SLACK = 1e-9  # relative tolerance: the sum of a budget's shares misses the budget by some 1e-16 each


class PrivacyAccountant:
    """Account of one budget; refuses a cost that does not fit, before a result is published.

    Parameters
    ----------
    budget : float
        Largest epsilon, above 0, in nats; ``math.inf``: no limit.
    relation : NeighboringRelation, default=NeighboringRelation.ADD_REMOVE
        Relation of the data sets between which the budget bounds the loss.
    unit : PrivacyUnit, default=PrivacyUnit.RECORD
        Unit of data that the budget protects.

    Attributes
    ----------
    remaining : float
        Rest of the budget, never below 0.
    spent : PrivacySpent
        All booked costs; secure only if every line is.

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
        """Book an epsilon, in addition to all earlier ones (sequential composition).

        Parameters
        ----------
        epsilon : float
            Cost in nats; 0 or more.
        what : str
            What it pays for, in words.
        level : int or None, default=None
            Tree level that it is spent on.
        is_secure : bool, default=False
            Whether the noise to be drawn is secure (``noise.is_secure``); the report says so.

        Raises
        ------
        BudgetExceeded
            If it does not fit; the account stays as it is.
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
        """Book the cost of mechanisms on disjoint parts of the data: the maximum of their epsilons.

        An added or removed record lies in one part. A *replaced* record may leave one part and enter another, so that
        the sizes of both change; the loss of a mechanism under replacement does not cover this. So in an account of
        replaced records the parts must be fixed.

        Parameters
        ----------
        epsilons : iterable of float
            Cost of each part, in nats; at least one.
        what : str
            What they pay for, in words.
        level : int or None, default=None
            Tree level that they are spent on.
        is_secure : bool, default=False
            Whether the noise to be drawn is secure.
        fixed_parts : bool, default=False
            Whether a record's part follows from something that replacing the record does not change, as its row number.

        Raises
        ------
        BudgetExceeded
            If the maximum does not fit; the account stays as it is.
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
        """Raise ValueError unless this account counts in the given relation and unit.

        Parameters
        ----------
        relation, unit : NeighboringRelation, PrivacyUnit
            Relation and unit of the epsilons that are to be booked.
        by : str
            Name of the estimator that books them, in words.

        Raises
        ------
        ValueError
            If relation or unit differ: the account's epsilon would not hold.
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
        """Return the account itself: an estimator that scikit-learn clones spends from the same budget."""
        return self

    def __reduce__(self) -> Any:
        """Raise TypeError: bookings on a copy in another process, for example by ``n_jobs``, would be lost here."""
        raise TypeError(
            "an account cannot be pickled, as a copy would be a second budget: fit in one process (n_jobs=1), and "
            "before storing an estimator, estimator.set_params(accountant=None)"
        )

    def would_exceed(self, epsilon: float) -> bool:
        """Return whether booking epsilon would exceed the budget."""
        total = self._total(epsilon)
        return total > self.budget * (1 + SLACK) or (math.isinf(total) and math.isfinite(self.budget))

    @property
    def remaining(self) -> float:
        """Rest of the budget, never below 0."""
        return math.inf if math.isinf(self.budget) else max(self.budget - self._total(), 0.0)

    @property
    def spent(self) -> PrivacySpent:
        """All booked costs; secure only if every line is."""
        is_secure = all(line.is_secure for line in self._lines)
        return PrivacySpent(self._total(), self.relation, self.unit, is_secure, tuple(self._lines))

    def _total(self, *more: float) -> float:
        return summed([*(line.epsilon for line in self._lines), *more])

    def to_dict(self) -> dict[str, Any]:
        """Return values that JSON can hold; ``from_dict`` continues the same account."""
        return {"budget": as_plain(self.budget), "spent": self.spent.to_dict()}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> PrivacyAccountant:
        """Return the account that ``to_dict`` wrote, with its lines."""
        spent = PrivacySpent.from_dict(stored["spent"])
        accountant = cls(float(stored["budget"]), spent.relation, spent.unit)
        accountant._lines = list(spent.lines)
        if accountant._total() > accountant.budget * (1 + SLACK):
            raise ValueError(f"spent = {accountant._total():g}: more than the stored budget {accountant.budget:g}")
        return accountant
