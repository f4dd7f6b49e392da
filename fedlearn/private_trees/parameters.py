"""The parameters that every estimator has, and rules for parameters, checked before a fit reads any data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator

from fedlearn.privacy import PrivacyAccountant


@dataclass(frozen=True, slots=True)
class Rule:
    """The allowed values of a parameter, in words and as a test."""

    words: str  # completes "must be ..."
    holds: Callable[[Any], bool]


def one_of(*allowed: str) -> Rule:
    """Return a rule that allows the given words."""
    return Rule(f"one of {', '.join(map(repr, allowed))}", lambda value: value in allowed)


def at_least(low: float) -> Rule:
    """Return a rule that allows numbers of `low` or more."""
    return Rule(f"{low} or more", lambda value: value >= low)


def none_or(rule: Rule) -> Rule:
    """Return a rule that allows None, or what the given rule allows."""
    return Rule(f"None, or {rule.words}", lambda value: value is None or rule.holds(value))


COMMON: dict[str, Rule] = {
    "epsilon": Rule("above 0 (math.inf for no noise)", lambda epsilon: epsilon > 0),
    "missing": one_of("wp", "drop"),
    "noise": one_of("secure", "seeded"),
}
"""Rules of the parameters that every estimator has."""


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateFit(BaseEstimator):  # type: ignore[misc]
    """What every private estimator has: its budget, its noise, and what it says of them after a fit.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of the fit, in nats; above 0. ``math.inf``: no noise.
    max_weight : float or None, default=None
        Declared largest weight of a record, above 0; required if `fit` is given weights. A record counts as its weight
        divided by `max_weight`, while the noise stays the same. None: no weights.
    noise : {"secure", "seeded"}, default="secure"
        ``"secure"``: from the operating system. ``"seeded"``: reproducible, gives no privacy, needs `random_state`.
    random_state : int, RandomState or None, default=None
        Seed of seeded noise, and of the draws that need no protection.
    accountant : PrivacyAccountant or None, default=None
        Account that pays; it is checked before the data is read. None: a new account.

    Attributes
    ----------
    privacy_spent_ : PrivacySpent
        Spending of this fit, line by line; epsilon is infinite if the fit is not private.
    notice_ : str
        Warning that belongs beside every result, for example that the noise is seeded; empty if there is none.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where X had names.
    """

    epsilon: float = 1.0
    noise: str = "secure"
    random_state: Any = None
    accountant: PrivacyAccountant | None = None
    bounds_from_data: bool = False


def check_parameters(estimator: Any, rules: Mapping[str, Rule]) -> None:
    """Raise ValueError at the first parameter that breaks its rule: its name, its value, and what it must be.

    >>> from types import SimpleNamespace
    >>> check_parameters(SimpleNamespace(epsilon=0, noise="secure"), {"epsilon": COMMON["epsilon"]})
    Traceback (most recent call last):
    ValueError: epsilon = 0: must be above 0 (math.inf for no noise)
    """
    for name, rule in rules.items():
        value = getattr(estimator, name)
        if not rule.holds(value):
            raise ValueError(f"{name} = {value!r}: must be {rule.words}")
    if estimator.noise == "seeded" and estimator.random_state is None:
        raise ValueError("random_state is None: noise='seeded' needs a seed; give one, or choose noise='secure'")
