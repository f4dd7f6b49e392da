"""A node that lies: in a simulation by the settings of the run, on a network because its owner started it so."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from flwr.app import MetricRecord
from numpy.typing import NDArray

from client.answer import Answer
from client.visit import Visit
from fedlearn import wire
from fedlearn.attacks import Attack, Claim, attack_of, attackers_of, load_attack
from fedlearn.data.base import Examples
from fedlearn.models.loaded import loaded
from fedlearn.words.seeding import rng_for
from fedlearn.words.state import Array, State

ATTACK, OPTIONS = "attack", "attack-options"  # of a node's own config
KEPT = "attack"  # what an attack keeps in the node's memory
log = logging.getLogger(__name__)


def attack_at(visit: Visit) -> Attack | None:
    """Return the attack of the node; None of an honest one. No server can make a real node lie."""
    if visit.is_real:
        own = visit.context.node_config
        return load_attack(str(own[ATTACK]), str(own.get(OPTIONS, ""))) if own.get(ATTACK) else None
    return attack_of(visit.config) if visit.partition_id in attackers_of(visit.config) else None


def poisoned(visit: Visit, train: Examples, rows: NDArray[np.integer[Any]]) -> Examples | None:
    """Return the examples that the node trains on, in place of these rows, if it lies about them; else None."""
    attack = attack_at(visit)
    if attack is None or not attack.poisons:
        return None
    classes = loaded(visit.config)[0].spec.classes
    rng = rng_for(visit.config.seed, purpose="poison", node=visit.partition_id)  # the same examples in all rounds
    return attack.poisoned(train.at(rows), classes=classes, rng=rng)


def lied(visit: Visit, answer: Answer, state: State) -> Answer:
    """Return the answer that the node gives in place of an honest one; the same, if it does not lie about it."""
    attack = attack_at(visit)
    if attack is None:
        return answer
    if visit.is_real:
        log.warning("round %d: this node lies, by its own --attack", visit.instruction.round_number)
    kept: dict[str, Array] = dict(visit.memory.arrays.get(KEPT, {}))
    metrics = answer.others.get(wire.METRICS)
    count = int(str(metrics[wire.NUM_EXAMPLES])) if isinstance(metrics, MetricRecord) else 1
    rng = rng_for(
        visit.config.seed, purpose="attack", round_number=visit.instruction.round_number, node=visit.partition_id
    )
    claim = attack.reported(Claim(state, answer.arrays, count), memory=kept, rng=rng)
    if kept:
        visit.memory.arrays[KEPT] = kept
    others = dict(answer.others)
    if isinstance(metrics, MetricRecord):
        others[wire.METRICS] = MetricRecord({**metrics, wire.NUM_EXAMPLES: claim.num_examples})
    return answer._replace(arrays=claim.arrays, others=others)
