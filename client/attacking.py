"""A node that lies: in a simulation by the settings of the run, on a network because its owner started it so."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from flwr.app import MetricRecord
from numpy.typing import NDArray

from client.answer import Answer
from client.request import Request
from fedlearn import wire
from fedlearn.attacks import Attack, Claim, attack_of, attackers_of, load_attack
from fedlearn.core.seeding import rng_for
from fedlearn.core.state import Array, State
from fedlearn.data.base import Examples
from fedlearn.models.loaded import loaded

ATTACK, OPTIONS = "attack", "attack-options"  # of a node's own config
KEPT = "attack"  # what an attack keeps in the node's memory
log = logging.getLogger(__name__)


def attack_at(request: Request) -> Attack | None:
    """Return the attack of the node; None of an honest one. No server can make a real node lie."""
    if request.is_real:
        own = request.context.node_config
        return load_attack(str(own[ATTACK]), str(own.get(OPTIONS, ""))) if own.get(ATTACK) else None
    return attack_of(request.config) if request.partition_id in attackers_of(request.config) else None


def poisoned(request: Request, train: Examples, rows: NDArray[np.integer[Any]]) -> Examples | None:
    """Return the examples that the node trains on, in place of these rows, if it lies about them; else None."""
    attack = attack_at(request)
    if attack is None or not attack.poisons:
        return None
    classes = loaded(request.config)[0].spec.classes
    rng = rng_for(request.config.seed, purpose="poison", node=request.partition_id)  # the same examples in all rounds
    return attack.poisoned(train.at(rows), classes=classes, rng=rng)


def lied(request: Request, answer: Answer, state: State) -> Answer:
    """Return the answer that the node gives in place of an honest one; the same, if it does not lie about it."""
    attack = attack_at(request)
    if attack is None:
        return answer
    if request.is_real:
        log.warning("round %d: this node lies, by its own --attack", request.instruction.round_number)
    kept: dict[str, Array] = dict(request.memory.arrays.get(KEPT, {}))
    metrics = answer.others.get(wire.METRICS)
    count = int(str(metrics[wire.NUM_EXAMPLES])) if isinstance(metrics, MetricRecord) else 1
    rng = rng_for(
        request.config.seed, purpose="attack", round_number=request.instruction.round_number, node=request.partition_id
    )
    claim = attack.reported(Claim(state, answer.arrays, count), memory=kept, rng=rng)
    if kept:
        request.memory.arrays[KEPT] = kept
    others = dict(answer.others)
    if isinstance(metrics, MetricRecord):
        others[wire.METRICS] = MetricRecord({**metrics, wire.NUM_EXAMPLES: claim.num_examples})
    return answer._replace(arrays=claim.arrays, others=others)
