"""Attacks: how nodes lie in a study, and which nodes do (``attack.name``, ``attack.attackers``).

A run draws its attackers by its seed. An attack changes one of three things: the examples that an attacker trains on,
the report that it sends, or, with the honest reports of the round in view, all attackers' reports at once.
"""

from __future__ import annotations

from typing import Any

from fedlearn.attacks.claim import Attack, Claim, Float64
from fedlearn.config import RunConfig, per_run
from fedlearn.core.errors import SettingError, quoted
from fedlearn.core.seeding import rng_for
from fedlearn.plugins import tables
from fedlearn.plugins.options import options_for
from fedlearn.plugins.registry import Registry, call_plugin

ATTACKS = Registry("attack.name", tables.ATTACKS, asks=("__call__",))


def load_attack(name: str, options: str) -> Attack:
    """Return an attack by its name, or by ``module:Class``, with its options as a JSON text.

    Raises
    ------
    SettingError
        If there is no such attack, it is none, or it does not take these options.
    """
    kind = ATTACKS.load(name)
    attack: Any = call_plugin("attack.name", name, kind, **options_for(kind, options, setting="attack.options"))
    if not isinstance(attack, Attack):
        raise SettingError("attack.name", name, f"it is of {quoted(type(attack))}: derive from fedlearn.attacks.Attack")
    return attack


@per_run
def attack_of(config: RunConfig) -> Attack | None:
    """Return the attack of a run; None where every node is honest."""
    return load_attack(config.attack.name, config.attack.options) if config.attack.name else None


@per_run
def attackers_of(config: RunConfig) -> frozenset[int]:
    """Return the partitions of the nodes that lie, drawn by the run's seed; none without an attack.

    A larger share has the nodes of a smaller one, and others.

    >>> sorted(attackers_of(RunConfig(clients=10, attack={"name": "zero", "attackers": 0.25})))
    [6, 9]
    """
    if not config.attack.name:
        return frozenset()
    count = int(config.attack.attackers * config.clients + 1e-9)  # 0.29 * 100 is a little less than 29
    drawn = rng_for(config.seed, purpose="attackers").permutation(config.clients)
    return frozenset(drawn[:count].tolist())


__all__ = ["ATTACKS", "Attack", "Claim", "Float64", "attack_of", "attackers_of", "load_attack"]
