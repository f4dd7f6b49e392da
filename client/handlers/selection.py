"""Selection as a node sees it: whether it is ready for a round, and that a round is over for it."""

from __future__ import annotations

from contextlib import suppress

from flwr.app import ConfigRecord, Message, RecordDict

from client import summing
from client.counted import undo
from client.discretion import Withheld, is_private, log, said_of
from client.downlink import kept_anchor
from client.fits import learner_of
from client.guards import guarded
from client.ledger import NodeBudget
from client.memory_file import memory_at_home
from client.node import examples_of
from client.participation import why_not as participation_why_not
from client.sets import check_sets
from client.unsent import keep
from client.unsent import why_not as unsent_why_not
from client.visit import Visit
from fedlearn import wire
from fedlearn.words.cohort import At


def ready(visit: Visit) -> Message:
    """Say whether this node can take part in the round that is being selected.

    A node that answers is not training, so whatever it was active in is over. On a network it says a word of
    `fedlearn.words.refusals`, in the same bytes whether its policy, its data or its budget is the reason.
    """
    try:
        with guarded(visit):
            visit.status.keep(visit.context, active=False)
            check_sets(visit)
            why_not = _why_not(visit) or unsent_why_not(visit)  # last: else it told reasons apart
            keys = summing.keys_of(visit) if visit.config.is_secure and not why_not else b""
            anchor = "" if why_not else kept_anchor(visit)
    except Withheld as refusal:
        if not visit.is_real:
            raise
        return wire.ready_answer(visit.message, partition_id=visit.partition_id, why_not=str(refusal))
    word = said_of(visit, why_not)
    if word != why_not:
        log.error("said to the server %r: %s", word, why_not)
    return wire.ready_answer(visit.message, partition_id=visit.partition_id, why_not=word, keys=keys, anchor=anchor)


def unsent(visit: Visit) -> Message:
    """Keep the arrays that this node has said it lacks; answer as to a ready query."""
    with suppress(Withheld), guarded(visit):  # asked again below, it says why
        keep(visit)
    visit.forget_memory()
    return ready(visit)


def _why_not(visit: Visit) -> str:
    """Return why the node cannot take part; one whose examples are private does not even say that it has none."""
    why_not = learner_of(visit.config).why_not(visit.memory)
    if is_private(visit.config):
        return why_not or _why_not_published(visit)
    if not len(examples_of(visit)):
        return why_not or "it has no examples"
    return why_not or participation_why_not(visit, _asked(visit))


def _asked(visit: Visit) -> int:
    """Return the round that is being selected."""
    return int(wire.read_config(visit.content).get("round_number", 1))  # type: ignore[arg-type]


def _why_not_published(visit: Visit) -> str:
    """Return why a node of a private model has no answer in the round that is being selected."""
    asked = _asked(visit)
    try:
        budget = NodeBudget.of_round(visit, asked)
        if summing.shares_noise(visit) and budget.has_answered(asked) and not summing.has_joined(visit, asked):
            return "its memory of the secure sum of this round is lost, and its share of noise was sent in one"
        return budget.why_not(asked)
    except Withheld as refusal:
        return str(refusal)


def round_over(visit: Visit) -> Message:
    """Note that a round is over for this node: rejected, late, refused or abandoned."""
    told = wire.read_config(visit.content)
    why = str(told.get("why", ""))
    with memory_at_home(visit):
        if visit.config.is_secure:
            summing.forget_sum(visit)
        if undo(visit.memory, At(_whole(told, "round_number"), _whole(told, "attempt"))):
            visit.keep_memory()
    visit.status.keep(visit.context, active=False, told=why)
    return Message(RecordDict(), reply_to=visit.message)


def _whole(record: ConfigRecord, key: str) -> int:
    """Return a whole number that a server has sent; 0 where it has sent something else."""
    value = record.get(key)
    return value if isinstance(value, int) else 0
