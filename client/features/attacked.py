"""A node that lies: in a simulation by the settings of the run, on a network because its owner started it so."""

from __future__ import annotations

import logging

import numpy as np
from flwr.app import Message, MetricRecord

from client.learners.plain_answer import Answer
from client.node_feature import NodeFeature, Report, Rows
from client.request import Request
from fedlearn import wire
from fedlearn.attacks import Attack, Claim, attack_of, attackers_of, load_attack
from fedlearn.core.seeding import rng_for
from fedlearn.core.state import Array, State
from fedlearn.data.data_spec import Examples
from fedlearn.models.loaded import loaded

ATTACK, OPTIONS = "attack", "attack-options"  # of a node's own config
LIES = "attack"  # what an attack keeps in the node's memory
log = logging.getLogger(__name__)


def attack_at(request: Request) -> Attack | None:
    """Return the attack of the node; None of an honest one. No server can make a real node lie."""
    if request.is_real:
        own = request.context.node_config
        return load_attack(str(own[ATTACK]), str(own.get(OPTIONS, ""))) if own.get(ATTACK) else None
    return attack_of(request.config) if request.partition_id in attackers_of(request.config) else None


class Attacked(NodeFeature):
    """What a node does that lies; nothing at an honest one."""

    def why_not_stacked(self) -> str:
        """Return that attackers learn from examples of their own making, where they do."""
        attack = attack_of(self.config)
        return "attackers learn from examples of their own making" if attack is not None and attack.poisons else ""

    def examples(self, request: Request, train: Examples, rows: Rows) -> tuple[Examples, Rows]:
        """Return the examples that the node trains on, in place of these rows, if it lies about them."""
        attack = attack_at(request)
        if attack is None or not attack.poisons:
            return train, rows
        classes = loaded(request.config)[0].spec.classes
        rng = rng_for(request.config.seed, purpose="poison", node=request.partition_id)  # the same ones in all rounds
        lies = attack.poisoned(train.at(rows), classes=classes, rng=rng)
        return lies, np.arange(len(lies))

    def answer(self, request: Request, answer: Answer, state: State, report: Report) -> Message:
        """Return the report of what the node says in place of what it has made."""
        return report(lied(request, answer, state))


def lied(request: Request, answer: Answer, state: State) -> Answer:
    """Return the answer that the node gives in place of an honest one; the same, if it does not lie about it."""
    attack = attack_at(request)
    if attack is None:
        return answer
    if request.is_real:
        log.warning("round %d: this client lies, by its own --attack", request.instruction.round_number)
    kept: dict[str, Array] = dict(request.memory.arrays.get(LIES, {}))
    metrics = answer.others.get(wire.METRICS)
    count = int(str(metrics[wire.NUM_EXAMPLES])) if isinstance(metrics, MetricRecord) else 1
    rng = rng_for(
        request.config.seed, purpose="attack", round_number=request.instruction.round_number, node=request.partition_id
    )
    claim = attack.reported(Claim(state, answer.arrays, count), memory=kept, rng=rng)
    if kept:
        request.memory.arrays[LIES] = kept
    others = dict(answer.others)
    if isinstance(metrics, MetricRecord):
        others[wire.METRICS] = MetricRecord({**metrics, wire.NUM_EXAMPLES: claim.num_examples})
    return answer._replace(arrays=claim.arrays, others=others)
