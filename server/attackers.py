"""What a run with attackers can have, refused before round 1 where it cannot; and what its result says of them."""

from __future__ import annotations

from collections.abc import Sequence

from fedlearn.attacks import attack_of, attackers_of
from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError
from fedlearn.core.metric import Metric
from fedlearn.models.loaded import Traits

BACKDOOR = Metric(
    "backdoor_success",
    "success of the attack",
    "down",
    note="test examples with trigger",
    low=0,
    high=1,
    is_result=True,
)


def check_attack(config: RunConfig, traits: Traits, *, is_virtual: bool) -> None:
    """Refuse an attack that nodes cannot carry out, or of which nothing would come.

    Raises
    ------
    SettingError
        With what to do instead.
    """
    attack, name = attack_of(config), config.attack.name
    if attack is None:
        return
    if not is_virtual:
        raise SettingError(
            "attack.name", name,
            "no server makes the nodes of a network lie: leave it out, and start a lying node by fedlearn client "
            f"--attack {name}",
        )  # fmt: skip
    if not traits.update_kind.is_averaged or traits.is_private or config.protects_nodes:
        raise SettingError(
            "attack.name", name,
            "attacks change the entries of a network's state, and pay for nothing: use a torch module, without "
            "--private",
        )  # fmt: skip
    if not attackers_of(config):
        raise SettingError(
            "attack.attackers", config.attack.attackers, f"of {config.clients} nodes that is none: use a larger share"
        )
    try:
        attack.check(traits.spec)
    except ValueError as error:
        if isinstance(error, SettingError):
            raise
        raise SettingError("attack.name", name, f"data set {traits.spec.name!r}: {error}") from None
    if attack.sees_all:
        _check_seeing_all(config, name)


def _check_seeing_all(config: RunConfig, name: str) -> None:
    if config.is_secure:
        raise SettingError(
            "attack.name", name, "attackers need the honest reports, which a secure sum hides: use 'sign-flip', say"
        )
    if config.rounds.schedule != "synchronous":
        raise SettingError(
            "attack.name", name,
            f"attackers need all honest reports of a round, and rounds.schedule = {config.rounds.schedule!r} counts "
            "them as they come: use 'synchronous'",
        )  # fmt: skip


def check_attack_parcels(config: RunConfig, asked: Sequence[str]) -> None:
    """Refuse attackers that see all where nodes send more than a state, of which the attack says nothing."""
    attack = attack_of(config)
    if attack is not None and attack.sees_all and asked:
        raise SettingError(
            "attack.name", config.attack.name,
            f"strategy {config.strategy.name!r} asks nodes for {', '.join(asked)} beside the state, of which this "
            "attack says nothing: use 'sign-flip', say",
        )  # fmt: skip


def attack_metrics(config: RunConfig) -> tuple[Metric, ...]:
    """Return the further columns of a run: how often its attack succeeds, if the server's test set can show it."""
    attack = attack_of(config)
    is_measured = attack is not None and attack.is_measured and config.evaluation.where == "server"
    return (BACKDOOR,) if is_measured else ()


def attack_notice(config: RunConfig) -> str:
    """Return the line that every result of a run with attackers has; empty without."""
    if not config.attack.name:
        return ""
    lying = sorted(attackers_of(config))
    named = ", ".join(map(str, lying[:10])) + (f" and {len(lying) - 10} more" if len(lying) > 10 else "")
    return f"a study with attackers: {len(lying)} of {config.clients} nodes lie by {config.attack.name}: {named}"


def attack_results(config: RunConfig) -> dict[str, object]:
    """Return the attack and the partitions that lie, for the summary; empty without an attack."""
    if not config.attack.name:
        return {}
    return {"attack": config.attack.name, "attackers": sorted(attackers_of(config))}
