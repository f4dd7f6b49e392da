"""Rules for the parameters of estimators, checked before a fit reads any data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


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
