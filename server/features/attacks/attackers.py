"""Attackers of a study: what a run with them can have, their lies, and what its result says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedlearn.aggregation import FoldPlan
from fedlearn.attacks import attack_of, attackers_of
from fedlearn.config import RunConfig
from fedlearn.core.cohort import At
from fedlearn.core.errors import SettingError
from fedlearn.core.state import Array, State
from server.attempt import Reporting
from server.feature import Collect, Feature
from server.features.attacks.collusion import side_by_side, with_lies
from server.rules import Asked, Rule
from server.run import ServerRun
from strategies.base import RoundStrategy


class Attackers(Feature):
    """Nodes that lie by the settings of the run."""

    run: ServerRun

    @classmethod
    def is_asked(cls, config: RunConfig, strategy: RoundStrategy[Any]) -> bool:
        """Return whether the settings name an attack."""
        return bool(config.attack.name)

    def begin(self, state: State, memory: Mapping[str, Array]) -> None:
        """Refuse attackers that see all where nodes send more than a state, of which the attack says nothing."""
        if self._sees_all and (asked := list(self.strategy.answers(state))):
            raise SettingError(
                "attack.name", self.config.attack.name,
                f"strategy {self.config.strategy.name!r} asks clients for {', '.join(asked)} beside the state, of "
                "which this attack says nothing: use 'sign-flip', say",
            )  # fmt: skip

    def notices(self) -> Sequence[str]:
        """Return the line that every result of a run with attackers has."""
        lying = sorted(attackers_of(self.config))
        named = ", ".join(map(str, lying[:10])) + (f" and {len(lying) - 10} more" if len(lying) > 10 else "")
        name, clients = self.config.attack.name, self.config.clients
        return [f"a study with attackers: {len(lying)} of {clients} clients lie by {name}: {named}"]

    def reports(self, plan: FoldPlan, at: At, collect: Collect) -> Reporting:
        """Return the reports with the lies of attackers that see all of them."""
        if not self._sees_all:
            return collect(plan, at)
        return with_lies(self.run, collect(side_by_side(plan), at), at, plan)

    def summary(self) -> Mapping[str, object]:
        """Return the attack, and the partitions that lie."""
        return {"attack": self.config.attack.name, "attackers": sorted(attackers_of(self.config))}

    @property
    def _sees_all(self) -> bool:
        attack = attack_of(self.config)
        return attack is not None and attack.sees_all

    rules = (
        Rule(
            "attack.name", lambda asked: not asked.is_virtual, "no server makes the clients of a network lie",
            "leave it out, and start a lying client by fedlearn client --attack {value}",
        ),
        Rule(
            "attack.name",
            lambda asked: (
                not asked.traits.update_kind.is_averaged or asked.traits.is_private or asked.config.protects_nodes
            ),
            "attacks change the entries of a network's state, and pay for nothing",
            "use a torch module, without --private",
        ),
        Rule(
            "attack.attackers", lambda asked: not attackers_of(asked.config),
            "of {config.clients} clients that is none", "use a larger share",
        ),
        Rule(
            "attack.name", lambda asked: _why_not_of(asked), "{the_attack_cannot_change_these_examples}",
            given={"the_attack_cannot_change_these_examples": lambda asked: _why_not_of(asked)},
        ),
        Rule(
            "attack.name", lambda asked: _sees_all(asked) and asked.config.is_secure,
            "attackers need the honest reports, which a secure sum hides", "use 'sign-flip', say",
        ),
        Rule(
            "attack.name", lambda asked: _sees_all(asked) and asked.config.rounds.schedule != "synchronous",
            "attackers need all honest reports of a round, and rounds.schedule = {config.rounds.schedule!r} counts "
            "them as they come", "use 'synchronous'",
        ),
    )  # fmt: skip


def _sees_all(asked: Asked) -> bool:
    attack = attack_of(asked.config)
    return attack is not None and attack.sees_all


def _why_not_of(asked: Asked) -> str:
    """Return why the attack cannot be made on these examples; empty where it can."""
    attack, spec = attack_of(asked.config), asked.traits.spec
    try:
        if attack is not None:
            attack.check(spec)
    except SettingError:
        raise
    except ValueError as error:
        return f"data set {spec.name!r}: {error}"
    return ""
