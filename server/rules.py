"""Rules of what goes with what: a row for each thing that a run with a feature cannot have, beside the feature."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, NamedTuple

from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError
from fedlearn.models.loaded import Traits
from strategies import RoundStrategy, named, needs_a_sum_alone


@dataclass(frozen=True, slots=True)
class Asked:
    """What the settings of a run ask for, before round 1.

    >>> Asked(RunConfig(clients=10), traits=None, strategy=None, is_virtual=True).config.clients
    10
    """

    config: RunConfig
    traits: Traits
    strategy: RoundStrategy[Any]
    is_virtual: bool


class Rule(NamedTuple):
    """One thing that a run with a feature cannot have.

    Parameters
    ----------
    setting
        The setting that is wrong, as ``"secure.sums"``.
    when
        Whether it is.
    because, instead
        Why, and what to do, in which ``{value}`` is the value of the setting and ``{config.clients}`` that of another
        one. The page "What goes with what" is made of these texts.
    before
        What the text begins with.
    given
        Other words in braces -> what makes them of the settings; the page shows the word itself.

    Examples
    --------
    >>> rule = Rule("rounds.total", lambda asked: asked.config.rounds.total < 2, "one round is too few", "run more")
    >>> rule.check(Asked(RunConfig(rounds={"total": 1}), traits=None, strategy=None, is_virtual=True))
    Traceback (most recent call last):
        ...
    fedlearn.core.errors.SettingError: rounds.total = 1: one round is too few: run more
    """

    setting: str
    when: Callable[[Asked], object]
    because: str
    instead: str = ""
    before: str = ""
    given: Mapping[str, Callable[[Asked], object]] = MappingProxyType({})

    def check(self, asked: Asked) -> None:
        """Raise SettingError where the setting is wrong."""
        if self.when(asked):
            value = _value_of(asked.config, self.setting)
            words = {name: made_of(asked) for name, made_of in self.given.items()}
            said = ": ".join(filter(None, (self.because, self.instead)))
            said = said.format(value=value, config=asked.config, strategy=asked.strategy, **words)
            raise SettingError(self.setting, value, self.before + said)


SUM_ALONE: Mapping[str, Callable[[Asked], object]] = {
    "one_that_needs_a_sum_alone": lambda asked: named(needs_a_sum_alone),
}
"""What rules say to take in place of a strategy that reads single reports."""


def _value_of(config: RunConfig, setting: str) -> Any:
    """Return the value of a setting, or of one option of a plugin: empty where the option was not given."""
    found, name, option = setting.partition(".options.")
    value: Any = reduce(getattr, (found + name.removesuffix(".")).split("."), config)
    return json.loads(value or "{}").get(option, "") if name else value


def within(before: str, *rules: Rule, where: Callable[[Asked], object]) -> tuple[Rule, ...]:
    """Return rules that hold only somewhere, and whose texts say so before all else."""
    return tuple(rule._replace(before=before, when=partial(_both, where, rule.when)) for rule in rules)


def _both(one: Callable[[Asked], object], other: Callable[[Asked], object], asked: Asked) -> object:
    return one(asked) and other(asked)


def check_rules(rules: Iterable[Rule], asked: Asked) -> None:
    """Raise SettingError for the first rule that the settings break."""
    for rule in rules:
        rule.check(asked)
