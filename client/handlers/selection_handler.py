"""Selection as a node sees it: whether it is ready for a round, and that a round is over for it."""

from __future__ import annotations

from contextlib import suppress

from flwr.app import ConfigRecord, Message, RecordDict

from client.acknowledged_sums import undo
from client.examples import adds_too_few, examples_of
from client.isolated_fits import learner_of
from client.node_ledger import NodeBudget
from client.owner.error_disclosure import Withheld, is_private, log, said_of
from client.owner.guards import guarded
from client.owner.memory_file import memory_at_home
from client.owner.owner_refusals import NOT_ENOUGH
from client.owner.participation import why_not as participation_why_not
from client.owner.signed_sets import check_sets
from client.received.kept_frozen import keep
from client.received.kept_frozen import why_not as unsent_why_not
from client.received.received_state import kept_anchor
from client.request import Request
from client.secure_sums import secure_node as summing
from fedlearn import wire
from fedlearn.core.cohort import At


def ready(request: Request) -> Message:
    """Say whether this node can take part in the round that is being selected.

    A node that answers is not training, so whatever it was active in is over. On a network it says a word of
    `fedlearn.core.refusals`, in the same bytes whether its policy, its data or its budget is the reason.
    """
    try:
        with guarded(request):
            request.status.keep(request.context, active=False)
            check_sets(request)
            why_not = _why_not(request) or unsent_why_not(request)  # last: else it told reasons apart
            keys = summing.keys_of(request) if request.config.is_secure and not why_not else b""
            anchor = "" if why_not else kept_anchor(request)
    except Withheld as refusal:
        if not request.is_real:
            raise
        return wire.ready_answer(request.message, partition_id=request.partition_id, why_not=str(refusal))
    word = said_of(request, why_not)
    if word != why_not:
        log.error("said to the server %r: %s", word, why_not)
    return wire.ready_answer(request.message, partition_id=request.partition_id, why_not=word, keys=keys, anchor=anchor)


def unsent(request: Request) -> Message:
    """Keep the arrays that this node has said it lacks; answer as to a ready query."""
    with suppress(Withheld), guarded(request):  # asked again below, it says why
        keep(request)
    request.forget_memory()
    return ready(request)


def _why_not(request: Request) -> str:
    """Return why the node cannot take part; one whose examples are private does not even say that it has none."""
    why_not = learner_of(request.config).why_not(request.memory)
    if is_private(request.config):
        return why_not or _why_not_published(request)
    if adds_too_few(request):
        return why_not or NOT_ENOUGH
    if not len(examples_of(request)):
        return why_not or "it has no examples"
    return why_not or participation_why_not(request, _asked(request))


def _asked(request: Request) -> int:
    """Return the round that is being selected."""
    return int(wire.read_config(request.content).get("round_number", 1))  # type: ignore[arg-type]


def _why_not_published(request: Request) -> str:
    """Return why a node of a private model has no answer in the round that is being selected."""
    asked = _asked(request)
    try:
        budget = NodeBudget.of_round(request, asked)
        if summing.shares_noise(request) and budget.has_answered(asked) and not summing.has_joined(request, asked):
            return "its memory of the secure sum of this round is lost, and its share of noise was sent in one"
        return budget.why_not(asked)
    except Withheld as refusal:
        return str(refusal)


def round_over(request: Request) -> Message:
    """Note that a round is over for this node: rejected, late, refused or abandoned."""
    told = wire.read_config(request.content)
    why = str(told.get("why", ""))
    with memory_at_home(request):
        if request.config.is_secure:
            summing.forget_sum(request)
        if undo(request.memory, At(_whole(told, "round_number"), _whole(told, "attempt"))):
            request.keep_memory()
    request.status.keep(request.context, active=False, told=why)
    return Message(RecordDict(), reply_to=request.message)


def _whole(record: ConfigRecord, key: str) -> int:
    """Return a whole number that a server has sent; 0 where it has sent something else."""
    value = record.get(key)
    return value if isinstance(value, int) else 0
