"""The account that pays for a fit; it is checked before any data is read."""

from __future__ import annotations

from typing import Any

from fedlearn.core.errors import BudgetExceeded
from fedlearn.privacy import NeighboringRelation, PrivacyAccountant, PrivacyUnit

NOT_DECLARED = "bounds were read from the data: not private"


def account_for(estimator: Any, cost: float, *, by: str) -> PrivacyAccountant:
    """Return the account that pays for a fit: the estimator's own, or a new one with a budget of `cost`; books nothing.

    Parameters
    ----------
    estimator
        Has a parameter `accountant`.
    cost
        Privacy loss of the fit, in nats; adding or removing one record.
    by
        Kind of the estimator, for an error.

    Raises
    ------
    BudgetExceeded
        If the account does not cover the cost.

    >>> from types import SimpleNamespace
    >>> account_for(SimpleNamespace(accountant=None), 2.0, by="a private tree").remaining
    2.0
    """
    accountant = PrivacyAccountant(cost) if estimator.accountant is None else estimator.accountant
    accountant.require(NeighboringRelation.ADD_REMOVE, PrivacyUnit.RECORD, by=by)
    if accountant.would_exceed(cost):
        raise BudgetExceeded(type(estimator).__name__, epsilon=cost, remaining=accountant.remaining)
    return accountant
